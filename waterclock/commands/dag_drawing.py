"""A Dag drawn for a terminal, level by level. Text only; nothing here asks a server."""

from __future__ import annotations

from waterclock.model.dag import DagSpec, MapOver, Node, TriggerRule
from waterclock.model.dag_levels import levels
from waterclock.model.time_text import format_duration

_PARENTS_SHOWN_MAX = 6


def draw(dag: DagSpec) -> list[str]:
    """One line for the Dag's limits, if it has any, for each level and for each node: what is not the default."""
    rows = [[(node.name, _parents(node), _told(node)) for node in level] for level in levels(dag)]
    name_width = max(len(name) for level in rows for name, _, _ in level)
    parents_width = max(len(parents) for level in rows for _, parents, _ in level)
    lines = _limits(dag)
    for number, level in enumerate(rows, 1):
        lines.append(f"{'┌' if number == 1 else '├'}─ {number} {'─' * (name_width + 4 - len(str(number)))}")
        for name, parents, told in level:
            lines.append(f"│ {name.ljust(name_width)}  {parents.ljust(parents_width)}  {told}".rstrip())
    return [*lines, "└─"]


def _limits(dag: DagSpec) -> list[str]:
    parts = []
    if dag.max_active_nodes:
        parts.append(f"max_active_nodes {dag.max_active_nodes}")
    if dag.timeout_us:
        parts.append(f"timeout {format_duration(dag.timeout_us)}")
    return [" · ".join(parts)] if parts else []


def _parents(node: Node) -> str:
    if not node.after:
        return ""
    more = len(node.after) - _PARENTS_SHOWN_MAX
    return f"<- {', '.join(node.after[:_PARENTS_SHOWN_MAX])}{f' and {more} more' if more > 0 else ''}"


def _told(node: Node) -> str:
    parts = [node.label]
    if node.trigger_rule is not TriggerRule.ALL_SUCCESS:
        parts.append(node.trigger_rule.value)
    if node.branch:
        parts.append("branch")
    if node.map_over is not None:
        parts.append(_mapped(node.map_over))
    if node.inputs:
        parts.append(f"takes {', '.join(node.inputs)}")
    if node.tier is not None:
        parts.append(f"tier {node.tier.word}")
    if node.pool:
        parts.append(f"pool {node.pool}")
    return " · ".join(parts)


def _mapped(over: MapOver) -> str:
    said = f"map over {over.of}" if over.of else "map over a list" if over.items else f"map over {over.count}"
    return f"{said}, {over.concurrency} at once" if over.concurrency else said
