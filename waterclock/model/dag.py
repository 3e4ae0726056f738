"""A Dag: its nodes, what each waits for, and by which rule. Values and their stored form.

The stored form is JSON with the keys that differ from their defaults; it stands in job rows, versions and commands, so
it is on-disk format: keys may be added, none may change meaning. It is trusted, because only what ``dag_checks.py`` has
let pass is stored; for any other text reading it raises ValueError, TypeError or KeyError.
"""

from __future__ import annotations

import binascii
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from functools import lru_cache
from typing import Any

import orjson

from .executor import Executor, executor_from_stored, executor_label, executor_to_stored
from .failure_policy import FailurePolicy, policy_from_json, policy_to_json
from .job import Tier

WHOLE = -1
"""The index of a node that is not mapped, and of a mapped node as a whole."""

_KEPT_MAX = 16_384
"""Stored texts up to this length are read once and kept."""


class TriggerRule(StrEnum):
    """When a node may start, by how its parents ended: the names and truth tables of Airflow 3 (``dag_rules.py``)."""

    ALL_SUCCESS = "all_success"
    ALL_FAILED = "all_failed"
    ALL_DONE = "all_done"
    ALL_DONE_MIN_ONE_SUCCESS = "all_done_min_one_success"
    ALL_SKIPPED = "all_skipped"
    ONE_SUCCESS = "one_success"
    ONE_FAILED = "one_failed"
    ONE_DONE = "one_done"
    NONE_FAILED = "none_failed"
    NONE_FAILED_MIN_ONE_SUCCESS = "none_failed_min_one_success"
    NONE_SKIPPED = "none_skipped"
    ALWAYS = "always"


@dataclass(frozen=True, slots=True)
class MapOver:
    """What a mapped node is run over: one of the three. Each item makes a node run of its own.

    ``items``: a JSON list, as text. ``count``: the numbers from 0 up to it. ``of``: the node upstream whose result is
    the list, of ``max_items`` at most: a longer one fails the node. ``concurrency``: how many run at once, 0: all.
    """

    items: str = ""
    count: int = 0
    of: str = ""
    max_items: int = 1_000
    concurrency: int = 0


@dataclass(frozen=True, slots=True)
class Node:
    """One node. It runs by a ``handler`` or an ``executor``, as a job does.

    ``after``: its parents. ``tier`` None, ``pool`` "" and ``policy`` None: as the job. ``payload`` None: the DagRun's.
    ``inputs``: nodes upstream whose results it is given. ``map_over``: it is run once for each item. ``branch``: its
    result names the children that are to be followed.
    """

    name: str
    handler: str = ""
    executor: Executor | None = None
    after: tuple[str, ...] = ()
    trigger_rule: TriggerRule = TriggerRule.ALL_SUCCESS
    tier: Tier | None = None
    pool: str = ""
    payload: bytes | None = None
    policy: FailurePolicy | None = None
    at_most_once: bool = False
    inputs: tuple[str, ...] = ()
    map_over: MapOver | None = None
    branch: bool = False

    @property
    def label(self) -> str:
        """What people read: the handler's name, or where the executor goes."""
        return self.handler if self.executor is None else executor_label(self.executor)


@dataclass(frozen=True, slots=True)
class DagSpec:
    """A Dag, apart from the job that it is. ``nodes`` in the order in which they were written: releases go by it.

    ``max_active_nodes``: node runs of one DagRun that are under way at once; how many DagRuns are is a matter of the
    job's overlap policy and limits. ``timeout_us``: how old a whole DagRun may get, from its PENDING on. 0: no limit.
    """

    nodes: tuple[Node, ...]
    max_active_nodes: int = 0
    timeout_us: int = 0


def outline(dag: DagSpec) -> DagSpec:
    """The Dag without its nodes: enough to fire a DagRun, and short, for what is written once for each fire."""
    return replace(dag, nodes=())


def node_key(name: str, index: int = WHOLE) -> str:
    """What stands behind the slash of a node's run id: ``load``, or ``load.3`` for an item of a mapped node."""
    return name if index == WHOLE else f"{name}.{index}"


def split_node_key(key: str) -> tuple[str, int]:
    """(name, index) of such a key; names hold no dot. Raises ValueError where the part behind a dot is no number."""
    name, dot, index = key.partition(".")
    if not dot:
        return name, WHOLE
    if not (index.isascii() and index.isdecimal()):
        raise ValueError(f"{key!r} names no node")
    return name, int(index)


def dag_to_stored(dag: DagSpec) -> dict[str, Any]:
    """The stored form as a dict, without what is at its default. Exact inverse: :func:`dag_from_stored`."""
    return _given(dag) | {"nodes": [_node_to_stored(node) for node in dag.nodes]}


def dag_to_json(dag: DagSpec | None) -> str:
    """The stored form, compact; "" where there is no Dag. Exact inverse: :func:`dag_from_json`."""
    return "" if dag is None else orjson.dumps(dag_to_stored(dag)).decode()


def dag_from_json(stored: str) -> DagSpec | None:
    """The Dag of a stored form. Trusted input: nothing is checked."""
    if not stored:
        return None
    return _from_json_kept(stored) if len(stored) <= _KEPT_MAX else _from_json(stored)


def dag_from_stored(stored: dict[str, Any]) -> DagSpec:
    """The Dag of a stored form that was read already. Keys of a later release are dropped."""
    parts = _known(DagSpec, stored)
    return DagSpec(**parts | {"nodes": tuple(map(_node_from_stored, stored["nodes"]))})


def _from_json(stored: str) -> DagSpec:
    return dag_from_stored(orjson.loads(stored))


_from_json_kept = lru_cache(maxsize=1_024)(_from_json)


def _node_to_stored(node: Node) -> dict[str, Any]:
    stored = _given(node)
    if node.executor is not None:
        stored["executor"] = executor_to_stored(node.executor)
    if node.tier is not None:
        stored["tier"] = int(node.tier)
    if node.payload is not None:
        stored["payload"] = binascii.b2a_base64(node.payload, newline=False).decode()
    if node.policy is not None:
        stored["policy"] = policy_to_json(node.policy)
    if node.map_over is not None:
        stored["map_over"] = _given(node.map_over)
    return stored


def _node_from_stored(stored: dict[str, Any]) -> Node:
    parts = _known(Node, stored)
    if "executor" in parts:
        parts["executor"] = executor_from_stored(parts["executor"])
    if "tier" in parts:
        parts["tier"] = Tier(parts["tier"])
    if "payload" in parts:
        parts["payload"] = binascii.a2b_base64(parts["payload"])
    if "policy" in parts:
        parts["policy"] = policy_from_json(parts["policy"])
    if "map_over" in parts:
        parts["map_over"] = MapOver(**_known(MapOver, parts["map_over"]))
    if "trigger_rule" in parts:
        parts["trigger_rule"] = TriggerRule(parts["trigger_rule"])
    return Node(**parts)


def _given(value: DagSpec | Node | MapOver) -> dict[str, Any]:
    kept = {field.name: (getattr(value, field.name), field.default) for field in fields(value)}
    return {name: part for name, (part, default) in kept.items() if part != default}


def _known(made: type[DagSpec | Node | MapOver], stored: dict[str, Any]) -> dict[str, Any]:
    names = {field.name for field in fields(made)}
    return {name: tuple(part) if isinstance(part, list) else part for name, part in stored.items() if name in names}
