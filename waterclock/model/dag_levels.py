"""A Dag seen from outside: its levels, and what is odd about it without being wrong. Pure."""

from __future__ import annotations

from graphlib import TopologicalSorter
from typing import NamedTuple

from .dag import DagSpec, Node, TriggerRule
from .dag_checks import skippable

_RUNS_AFTER_FAILURES = frozenset(
    {
        TriggerRule.ALL_DONE,
        TriggerRule.ALL_DONE_MIN_ONE_SUCCESS,
        TriggerRule.ALL_FAILED,
        TriggerRule.ALWAYS,
        TriggerRule.NONE_SKIPPED,
        TriggerRule.ONE_DONE,
        TriggerRule.ONE_FAILED,
        TriggerRule.ONE_SUCCESS,
    }
)


class Remark(NamedTuple):
    """Something that may not be meant. ``node``: where."""

    node: str
    said: str


def levels(dag: DagSpec) -> list[list[Node]]:
    """The nodes by the longest way that leads to each; within a level as they were written."""
    by_name = {node.name: node for node in dag.nodes}
    level: dict[str, int] = {}
    for name in TopologicalSorter({node.name: node.after for node in dag.nodes}).static_order():
        level[name] = 1 + max((level[parent] for parent in by_name[name].after), default=-1)
    return [[node for node in dag.nodes if level[node.name] == each] for each in range(max(level.values()) + 1)]


def remarks(dag: DagSpec) -> list[Remark]:
    """What is odd, node by node."""
    by_name = {node.name: node for node in dag.nodes}
    may_be_skipped = skippable(dag, by_name)
    parents = {parent for node in dag.nodes for parent in node.after}
    found: list[Remark] = []
    for node in dag.nodes:
        skipped = next((parent for parent in node.after if parent in may_be_skipped), None)
        if node.trigger_rule is TriggerRule.ALL_SUCCESS and len(node.after) > 1 and skipped is not None:
            said = (
                f"it is skipped whenever {skipped} is: none_failed_min_one_success runs it after what was not skipped"
            )
            found.append(Remark(node.name, said))
        if node.after and node.name not in parents and node.trigger_rule in _RUNS_AFTER_FAILURES:
            said = "it is a leaf that may run after failures: the DagRun then counts as succeeded if it succeeds"
            found.append(Remark(node.name, said))
        if len(dag.nodes) > 1 and not node.after and node.name not in parents:
            found.append(Remark(node.name, "no node comes before or after it"))
    return found
