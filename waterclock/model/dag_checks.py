"""Whether a Dag can be one: what is refused when it is saved, each with its place, the reason and what to do.

Form (names, sizes, kinds) is checked with the document (``dag_document.py``); here it is the graph. Pure. How it fails:
RequestError at the first fault, with a JSON pointer into the job document.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from graphlib import CycleError, TopologicalSorter
from typing import NoReturn

import orjson

from .dag import DagSpec, Node, TriggerRule, dag_to_json
from .dag_items import static_items
from .dag_payload import GIVEN_MAX, fits, open_given
from .errors import RequestError

NODES_MAX = 1_000
EDGES_MAX = 10_000
"""Parents of all nodes together."""

ITEMS_MAX = 10_000
"""Items of all mapped nodes together, by what each may have at most."""

INPUTS_MAX = 64
"""Nodes of whose results one is given."""

DAG_MAX = 131_072
"""Bytes of a Dag's stored form: 128 KiB."""

_CYCLE_SHOWN_MAX = 12
_EXAMPLE = 'Such as {"nodes": [{"name": "load", "handler": "etl.load"}]}'


def check_graph(dag: DagSpec) -> None:
    """Refuse what can't be run as a Dag. Raises RequestError."""
    if not dag.nodes:
        _refuse("/dag/nodes", "A Dag has at least one node", _EXAMPLE)
    if len(dag.nodes) > NODES_MAX:
        _refuse("/dag/nodes", f"The Dag has {len(dag.nodes)} nodes", f"At most {NODES_MAX}: map one over a list")
    _check_names(dag)
    by_name = {node.name: node for node in dag.nodes}
    _check_parents(dag, by_name)
    _check_cycles(dag)
    _check_upstream(dag)
    _check_branches(dag)
    _check_items(dag)
    _check_startable(dag, by_name)
    size = len(dag_to_json(dag).encode())
    if size > DAG_MAX:
        _refuse("/dag", f"The Dag takes {size} bytes", f"At most {DAG_MAX}: pass references instead of data")


def _check_names(dag: DagSpec) -> None:
    first: dict[str, int] = {}
    for place, node in enumerate(dag.nodes):
        if node.name in first:
            where = f"node {first[node.name]} of the list"
            _refuse(f"/dag/nodes/{place}/name", f"{node.name} is the name of {where} already", "Name it otherwise")
        first[node.name] = place


def _check_parents(dag: DagSpec, by_name: dict[str, Node]) -> None:
    edges = 0
    for place, node in enumerate(dag.nodes):
        for number, parent in enumerate(node.after):
            where = f"/dag/nodes/{place}/after/{number}"
            if parent not in by_name:
                _refuse(where, f"{node.name} comes after {parent}, which is no node", _near(parent, by_name))
            if parent in node.after[:number]:
                _refuse(where, f"{node.name} comes after {parent} twice", "Name it once")
        edges += len(node.after)
        if edges > EDGES_MAX:
            hint = f"At most {EDGES_MAX}: put a node between, which waits for many and lets many go on"
            _refuse(f"/dag/nodes/{place}/after", f"The nodes have more than {EDGES_MAX} parents together", hint)


def _near(name: str, names: Iterable[str]) -> str:
    near = get_close_matches(name, names, n=1, cutoff=0.6)
    return f"Did you mean {near[0]}?" if near else "Name a node of this Dag"


def _check_cycles(dag: DagSpec) -> None:
    try:
        TopologicalSorter({node.name: node.after for node in dag.nodes}).prepare()
    except CycleError as error:
        cycle: list[str] = error.args[1]
        shown = cycle if len(cycle) <= _CYCLE_SHOWN_MAX else [*cycle[: _CYCLE_SHOWN_MAX - 1], "...", cycle[-1]]
        place = next(place for place, node in enumerate(dag.nodes) if node.name == cycle[1])
        _refuse(
            f"/dag/nodes/{place}/after",
            f"The nodes wait for each other: {' -> '.join(shown)}",
            "An arrow reads: comes before. Take one of them out",
        )


def _check_upstream(dag: DagSpec) -> None:
    """Results come from nodes that have ended before: from upstream, by whatever way."""
    place = {node.name: number for number, node in enumerate(dag.nodes)}
    above = [0] * len(dag.nodes)
    for name in TopologicalSorter({node.name: node.after for node in dag.nodes}).static_order():
        for parent in dag.nodes[place[name]].after:
            above[place[name]] |= above[place[parent]] | 1 << place[parent]
    for number, node in enumerate(dag.nodes):
        if len(node.inputs) > INPUTS_MAX:
            _refuse(f"/dag/nodes/{number}/inputs", f"{node.name} takes {len(node.inputs)} results",
                    f"At most {INPUTS_MAX}: gather them in a node before")  # fmt: skip
        asked = [(f"inputs/{at}", name) for at, name in enumerate(node.inputs)]
        if node.map_over is not None and node.map_over.of:
            asked.append(("map/over", node.map_over.of))
        for where, name in asked:
            pointer, what = f"/dag/nodes/{number}/{where}", f"{node.name} takes the result of {name}, which"
            if name not in place:
                _refuse(pointer, f"{what} is no node", _near(name, place))
            if not above[number] >> place[name] & 1:
                hint = f'Add "{name}" to its "after", or to that of a node before it'
                _refuse(pointer, f"{what} does not come before it", hint)
        if len(set(node.inputs)) < len(node.inputs):
            _refuse(f"/dag/nodes/{number}/inputs", f"{node.name} names an input twice", "Name each once")


def _check_branches(dag: DagSpec) -> None:
    parents = {name for node in dag.nodes for name in node.after}
    for place, node in enumerate(dag.nodes):
        if node.branch and node.name not in parents:
            hint = f'Let a node come after it: "after": ["{node.name}"], or leave "branch" out'
            _refuse(f"/dag/nodes/{place}/branch", f"{node.name} is a branch, and no node comes after it", hint)
        if node.branch and node.map_over is not None:
            _refuse(f"/dag/nodes/{place}/branch", f"{node.name} is mapped, and a branch", "Let a node after it decide")


def _check_items(dag: DagSpec) -> None:
    total = 0
    for place, node in enumerate(dag.nodes):
        over = node.map_over
        if over is None:
            continue
        where = f"/dag/nodes/{place}/map"
        total += over.max_items if over.of else len(orjson.loads(over.items)) if over.items else over.count
        if total > ITEMS_MAX:
            _refuse(where, f"The mapped nodes may have {total} items together",
                    f"At most {ITEMS_MAX}: lower the max of one")  # fmt: skip
        longest = 0 if over.of else max(map(len, static_items(over)), default=0)
        if not fits(open_given(node.payload or b"", ()), longest):
            _refuse(f"{where}/over" if longest else f"/dag/nodes/{place}/payload",
                    f"{node.name} would be given more than {GIVEN_MAX} bytes, with its payload and its longest item",
                    "Pass references instead of data")  # fmt: skip


def _check_startable(dag: DagSpec, by_name: dict[str, Node]) -> None:
    """A node whose rule can't hold, however the others end.

    Every node that runs may succeed or fail, so as long as nodes end independently of each other only ``all_skipped``
    can be impossible: a parent that is never skipped rules it out. Rules that contradict each other across several
    nodes are not found (``b`` after ``a``: one_failed; ``c`` after both: all_success).
    """
    may_be_skipped = skippable(dag, by_name)
    for place, node in enumerate(dag.nodes):
        where = f"/dag/nodes/{place}/trigger_rule"
        if not node.after and node.trigger_rule not in (TriggerRule.ALL_SUCCESS, TriggerRule.ALWAYS):
            _refuse(where, f"{node.name} has no parents: {node.trigger_rule} says nothing", "Leave the rule out")
        if node.trigger_rule is TriggerRule.ALL_SKIPPED:
            never = next((name for name in node.after if name not in may_be_skipped), None)
            if never is not None:
                _refuse(where, f"{node.name} can never start: {never} is never skipped", "Choose another rule")


def skippable(dag: DagSpec, by_name: dict[str, Node]) -> set[str]:
    """The nodes that may end as skipped."""
    found: set[str] = set()
    for name in TopologicalSorter({node.name: node.after for node in dag.nodes}).static_order():
        node = by_name[name]
        parents = [parent in found for parent in node.after]
        all_may_rest = all(parent in found or by_name[parent].after for parent in node.after)
        if (
            any(by_name[parent].branch for parent in node.after)
            or (node.map_over is not None and bool(node.map_over.of))
            or (bool(parents) and _may_skip(node.trigger_rule, parents))
            or (node.trigger_rule is TriggerRule.ONE_DONE and all_may_rest)
        ):
            found.add(name)
    return found


def _may_skip(rule: TriggerRule, skippable: list[bool]) -> bool:
    """Whether the rule can skip a node whose parents may each succeed or fail, and some of them be skipped."""
    if rule in (TriggerRule.ALL_FAILED, TriggerRule.ALL_SKIPPED, TriggerRule.ONE_FAILED):
        return True
    if rule in (TriggerRule.ALL_SUCCESS, TriggerRule.NONE_SKIPPED, TriggerRule.ALL_DONE_MIN_ONE_SUCCESS):
        return any(skippable)
    if rule in (TriggerRule.ONE_SUCCESS, TriggerRule.NONE_FAILED_MIN_ONE_SUCCESS):
        return all(skippable)
    return False


def _refuse(pointer: str, message: str, hint: str) -> NoReturn:
    raise RequestError(message, pointer=pointer, hint=hint)
