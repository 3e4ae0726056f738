"""A Dag drawn for a terminal, level by level. Text only; nothing here asks a server."""

from __future__ import annotations

from waterclock.model.dag import DagSpec, Node, TriggerRule
from waterclock.model.dag_levels import levels

_PARENTS_SHOWN_MAX = 6


def draw(dag: DagSpec) -> list[str]:
    """One line for each level and for each node: its name, its parents, and what is not the default."""
    rows = [[(node.name, _parents(node), _told(node)) for node in level] for level in levels(dag)]
    name_width = max(len(name) for level in rows for name, _, _ in level)
    parents_width = max(len(parents) for level in rows for _, parents, _ in level)
    lines = []
    for number, level in enumerate(rows, 1):
        lines.append(f"{'┌' if number == 1 else '├'}─ {number} {'─' * (name_width + 4 - len(str(number)))}")
        for name, parents, told in level:
            lines.append(f"│ {name.ljust(name_width)}  {parents.ljust(parents_width)}  {told}".rstrip())
    return [*lines, "└─"]


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
        over = node.map_over
        parts.append(
            f"map over {over.of}" if over.of else "map over a list" if over.items else f"map over {over.count}"
        )
    if node.inputs:
        parts.append(f"takes {', '.join(node.inputs)}")
    return " · ".join(parts)
