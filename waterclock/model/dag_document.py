"""A Dag in a job document: the key ``dag``, checked key by key, and then as a graph (``dag_checks.py``).

``{"dag": {"nodes": [{"name": "extract", "handler": "etl.extract"}, {"name": "load", "handler": "etl.load", "after":
["extract"]}]}, "cron": "0 5 * * *"}``. A node has a job's ways to its work, and a job's ``tier``, ``pool``,
``payload``, ``retry``, ``timeouts`` and ``at_most_once``; what it leaves out is the job's. What must hold: a Dag that
came through here is read back equal from its document. How it fails: RequestError with the pointer of the field.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, TypeAlias

import orjson

from .dag import DagSpec, MapOver, Node, TriggerRule
from .dag_checks import ITEMS_MAX, NODES_MAX, check_graph
from .errors import RequestError
from .executor import EXECUTORS
from .executor_document import executor_to_document
from .ids import US_PER_S
from .policy_document import KEYS as _POLICY_KEYS
from .policy_document import policy_to_document
from .time_text import format_duration, parse_duration

NAME_MAX = 55
"""Characters of a node's name: with a dot and an index it stays within 63."""

TIMEOUT_US_MAX = 365 * 86_400 * US_PER_S

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,54}\Z")
_NAME_HINT = f"1 to {NAME_MAX} of a-z, 0-9, '_' and '-', beginning with a letter or digit"
_DAG_KEYS = ("nodes", "max_active_nodes", "timeout")
_JOB_KEYS = ("handler", *EXECUTORS, "callback_url", "tier", "priority", "pool", "payload", "payload_base64",
             "at_most_once", *_POLICY_KEYS)  # fmt: skip
_NODE_KEYS = ("name", *_JOB_KEYS, "after", "trigger_rule", "inputs", "map", "branch")
_MAP_KEYS = ("over", "count", "max", "concurrency")
_MAP_HINT = 'Such as {"over": ["eu", "us"]}, {"over": "list-files"} or {"count": 10}'
_RULES = {rule.value: rule for rule in TriggerRule}

PartsOf: TypeAlias = Callable[[Mapping[str, object]], dict[str, Any]]
"""What a node says in a job's words, as keywords of Node. Raises RequestError with a pointer into the node."""

PayloadOf: TypeAlias = Callable[[bytes], dict[str, Any]]
"""The keys that stand for a payload."""


def dag_from_document(document: object, parts_of: PartsOf) -> DagSpec:
    """The Dag that the value of ``dag`` describes. Raises RequestError at its first fault."""
    given = _object(document, "/dag", _DAG_KEYS, 'Such as {"nodes": [{"name": "load", "handler": "etl.load"}]}')
    nodes = given.get("nodes")
    if not isinstance(nodes, list):
        _refuse("/dag/nodes", "nodes is not a list", 'Such as [{"name": "load", "handler": "etl.load"}]')
    if len(nodes) > NODES_MAX:
        _refuse("/dag/nodes", f"The Dag has {len(nodes)} nodes", f"At most {NODES_MAX}: map one over a list")
    dag = DagSpec(
        nodes=tuple(_node(node, f"/dag/nodes/{place}", parts_of) for place, node in enumerate(nodes)),
        max_active_nodes=_number(given, "max_active_nodes", ITEMS_MAX, "/dag"),
        timeout_us=_timeout(given),
    )
    check_graph(dag)
    return dag


def dag_to_document(dag: DagSpec, payload_of: PayloadOf) -> dict[str, Any]:
    """The value of ``dag``: what differs from the defaults."""
    document: dict[str, Any] = {"nodes": [_node_document(node, payload_of) for node in dag.nodes]}
    if dag.max_active_nodes:
        document["max_active_nodes"] = dag.max_active_nodes
    if dag.timeout_us:
        document["timeout"] = format_duration(dag.timeout_us)
    return document


def _node(document: object, pointer: str, parts_of: PartsOf) -> Node:
    given = _object(document, pointer, _NODE_KEYS, 'Such as {"name": "load", "handler": "etl.load"}')
    name = given.get("name")
    if not isinstance(name, str) or not _NAME.match(name):
        _refuse(f"{pointer}/name", "A node needs a name" if name is None else f"{_shown(name)} is no name", _NAME_HINT)
    try:
        parts = parts_of({key: value for key, value in given.items() if key in _JOB_KEYS})
    except RequestError as error:
        raise RequestError(error.message, pointer=f"{pointer}{error.pointer}", hint=error.hint) from None
    return Node(
        name=name,
        after=_names(given, "after", pointer),
        trigger_rule=_rule(given, pointer),
        inputs=_names(given, "inputs", pointer),
        map_over=_map(given["map"], f"{pointer}/map") if "map" in given else None,
        branch=_flag(given, "branch", pointer),
        **parts,
    )


def _node_document(node: Node, payload_of: PayloadOf) -> dict[str, Any]:
    document: dict[str, Any] = {"name": node.name}
    document |= executor_to_document(node.executor) if node.executor is not None else {"handler": node.handler}
    if node.after:
        document["after"] = list(node.after)
    if node.trigger_rule is not TriggerRule.ALL_SUCCESS:
        document["trigger_rule"] = node.trigger_rule.value
    if node.tier is not None:
        document["tier"] = node.tier.word
    if node.pool:
        document["pool"] = node.pool
    if node.payload is not None:
        document |= payload_of(node.payload)
    if node.at_most_once:
        document["at_most_once"] = True
    if node.policy is not None:
        document |= policy_to_document(node.policy) or {"retry": {}}
    if node.inputs:
        document["inputs"] = list(node.inputs)
    if node.map_over is not None:
        document["map"] = _map_document(node.map_over)
    if node.branch:
        document["branch"] = True
    return document


def _map(value: object, pointer: str) -> MapOver:
    given = _object(value, pointer, _MAP_KEYS, _MAP_HINT)
    if ("over" in given) == ("count" in given):
        _refuse(pointer, "A node is mapped over a list, or over a count", _MAP_HINT)
    parts: dict[str, Any] = {"concurrency": _number(given, "concurrency", ITEMS_MAX, pointer)}
    over = given.get("over")
    if isinstance(over, str):
        if "max" in given:
            parts["max_items"] = _number(given, "max", ITEMS_MAX, pointer)
        return MapOver(of=over, **parts)
    if "max" in given:
        _refuse(f"{pointer}/max", "max goes with the result of a node: this list is as long as it is", "Leave it out")
    if "count" in given:
        return MapOver(count=_number(given, "count", ITEMS_MAX, pointer), **parts)
    if not isinstance(over, list) or not over:
        _refuse(f"{pointer}/over", f"{_shown(over)} is no list with items, and no node's name", _MAP_HINT)
    try:
        items = orjson.dumps(over).decode()
    except (TypeError, ValueError) as error:
        _refuse(f"{pointer}/over", f"The list is not JSON: {str(error)[:120]}", _MAP_HINT)
    return MapOver(items=items, **parts)


def _map_document(over: MapOver) -> dict[str, Any]:
    document: dict[str, Any] = {"count": over.count}
    if over.items or over.of:
        document = {"over": orjson.loads(over.items) if over.items else over.of}
    if over.max_items != MapOver().max_items:
        document["max"] = over.max_items
    if over.concurrency:
        document["concurrency"] = over.concurrency
    return document


def _names(given: Mapping[str, object], key: str, pointer: str) -> tuple[str, ...]:
    names = given.get(key, [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        _refuse(f"{pointer}/{key}", f"{_shown(names)} is not a list of names", f'Such as "{key}": ["extract"]')
    return tuple(names)


def _rule(given: Mapping[str, object], pointer: str) -> TriggerRule:
    word = given.get("trigger_rule", TriggerRule.ALL_SUCCESS.value)
    if not isinstance(word, str) or word not in _RULES:
        near = difflib.get_close_matches(str(word)[:40], _RULES, n=1, cutoff=0.6)
        known = f"Did you mean {near[0]}?" if near else f"One of {', '.join(_RULES)}"
        _refuse(f"{pointer}/trigger_rule", f"{_shown(word)} is not a trigger rule", known)
    return _RULES[word]


def _number(given: Mapping[str, object], key: str, most: int, pointer: str) -> int:
    if key not in given:
        return 0
    value = given[key]
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        _refuse(f"{pointer}/{key}", f"{_shown(value)} is no {key}", f"A whole number from 1 to {most}")
    return value


def _timeout(given: Mapping[str, object]) -> int:
    if "timeout" not in given:
        return 0
    timeout_us = parse_duration(given["timeout"], "/dag/timeout")
    if timeout_us > TIMEOUT_US_MAX:
        _refuse("/dag/timeout", "The timeout is too long", f"At most {format_duration(TIMEOUT_US_MAX)}")
    return timeout_us


def _flag(given: Mapping[str, object], key: str, pointer: str) -> bool:
    value = given.get(key, False)
    if not isinstance(value, bool):
        _refuse(f"{pointer}/{key}", f"{_shown(value)} is not true or false", "true: its result names whom to follow")
    return value


def _object(value: object, pointer: str, keys: tuple[str, ...], hint: str) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        _refuse(pointer, f"{_shown(value)} is not an object", hint)
    for key in value:
        if key not in keys:
            near = difflib.get_close_matches(str(key)[:40], keys, n=1, cutoff=0.5)
            known = f"Did you mean {near[0]}?" if near else f"Known: {' '.join(keys)}"
            place = str(key)[:80].replace("~", "~0").replace("/", "~1")
            _refuse(f"{pointer}/{place}", f"{_shown(key)} is not known", known)
    return value


def _refuse(pointer: str, message: str, hint: str) -> NoReturn:
    raise RequestError(message, pointer=pointer, hint=hint)


def _shown(value: object) -> str:
    """A foreign value inside a message: short."""
    return repr(value)[:80]
