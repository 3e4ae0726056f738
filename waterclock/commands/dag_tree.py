"""A DagRun drawn for a terminal: a line for each node, below the one that it comes after. Text only; asks nobody.

A Dag is no tree: a node stands below the parent on the lowest level, and its line names the others. An only child
stands right below its parent, so that a long chain stays on the screen; where several follow, they are indented. Every
line says in words what its sign and colour say.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from waterclock.dag_runs.picture import NodeSeen, critical_names
from waterclock.dag_runs.reading import DagRunSeen
from waterclock.dag_runs.views import took_us
from waterclock.model.dag_levels import levels
from waterclock.model.events import RunStatus
from waterclock.model.ids import US_PER_S, Instant
from waterclock.model.stuck_nodes import Stuck

_SIGNS = {
    RunStatus.SUCCEEDED: "✓",
    RunStatus.FAILED: "✗",
    RunStatus.CANCELLED: "■",
    RunStatus.SKIPPED: "-",
    RunStatus.RUNNING: "▶",
    RunStatus.RETRYING: "↻",
    RunStatus.PENDING: "○",
    None: "·",
}
_COLOURS = {
    RunStatus.SUCCEEDED: "green",
    RunStatus.FAILED: "red",
    RunStatus.CANCELLED: "red",
    RunStatus.RUNNING: "cyan",
    RunStatus.RETRYING: "yellow",
}
_INDENTED_MAX = 12
_PARENTS_SHOWN_MAX = 4
_NOTE_MAX = 100


class Line(NamedTuple):
    """One line, and the colour that it may have; "" for none."""

    text: str
    colour: str = ""


class _Placed(NamedTuple):
    seen: NodeSeen
    guides: str
    above: str


def draw_run(seen: DagRunSeen, nodes: Sequence[NodeSeen], stuck: Sequence[Stuck], now: Instant) -> list[Line]:
    """The whole picture: head, nodes, what took longest, what is stuck."""
    placed = _placed(seen, nodes)
    name_width = max((len(each.guides) + len(each.seen.node.name) for each in placed), default=0)
    lines = [_head(seen, now)]
    lines += [_line(seen, each, name_width, now) for each in placed]
    if not nodes:
        why = "the version that it is made of is gone, or of a later release"
        lines.append(Line(f"  ({why}: `waterclock run list` still tells of its runs)"))
    path = critical_names(nodes)
    if path:
        lines.append(Line(f"* took longest: {' > '.join(path)}"))
    lines += [_stuck_line(each, now) for each in stuck]
    return lines


def duration_text(us: Instant) -> str:
    """Such as 0.4s, 12s, 3m 5s, 2h 10m, 4d 3h."""
    seconds = us / US_PER_S
    if seconds < 10:
        return f"{seconds:.1f}s"
    whole = int(seconds)
    for unit_s, unit, lesser_s, lesser in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "m"), (60, "m", 1, "s")):
        if whole >= unit_s:
            return f"{whole // unit_s}{unit} {whole % unit_s // lesser_s}{lesser}"
    return f"{whole}s"


def _head(seen: DagRunSeen, now: Instant) -> Line:
    row = seen.row
    parts = [str(seen.run_id), row.status.name]
    if seen.is_held:
        parts.append(f"held: {row.reason}")
    elif row.dispatched_at:
        parts.append(duration_text((row.ended_at or now) - row.dispatched_at))
    if row.paused and seen.is_open:
        parts.append("PAUSED")
    if row.cancel_requested and seen.is_open:
        parts.append("cancel requested")
    if row.reason and not seen.is_held:
        parts.append(row.reason)
    if row.triggered_by:
        parts.append(f"started by {row.triggered_by}")
    if row.again_of:
        begins = f" from {', '.join(row.rerun_from)}" if row.rerun_from else ""
        parts.append(f"rerun of {row.again_of}{begins}")
    return Line("  ".join(parts), _COLOURS.get(row.status, ""))


def _placed(seen: DagRunSeen, nodes: Sequence[NodeSeen]) -> list[_Placed]:
    """Every node once, each below the one that it comes after."""
    if seen.dag is None:
        return []
    level = {node.name: number for number, row in enumerate(levels(seen.dag)) for node in row}
    below: defaultdict[str, list[NodeSeen]] = defaultdict(list)
    for each in nodes:
        below[max(each.node.after, key=lambda name: level[name], default="")].append(each)
    return list(_below(below, "", "", 0))


def _below(below: dict[str, list[NodeSeen]], above: str, guides: str, depth: int) -> Iterator[_Placed]:
    """Those below one node and all that is below them; by a stack of its own, because chains are long."""
    left = _level(below, above, guides, depth)[::-1]
    while left:  # ends: every node stands below one
        placed, inner, inner_depth = left.pop()
        yield placed
        left += _level(below, placed.seen.node.name, inner, inner_depth)[::-1]


def _level(below: dict[str, list[NodeSeen]], above: str, guides: str, depth: int) -> list[tuple[_Placed, str, int]]:
    """The nodes right below one, each with the guides of what stands below it."""
    children = below.get(above, [])
    if len(children) < 2 or not above or depth >= _INDENTED_MAX:
        named = above if len(children) < 2 else ""  # of several that stand below one another each line names its parent
        return [(_Placed(each, guides, named), guides, depth) for each in children]
    found = []
    for number, each in enumerate(children):
        is_last = number == len(children) - 1
        own, inner = ("└─ ", "   ") if is_last else ("├─ ", "│  ")
        found.append((_Placed(each, guides + own, above), guides + inner, depth + 1))
    return found


def _line(seen: DagRunSeen, placed: _Placed, name_width: int, now: Instant) -> Line:
    each = placed.seen
    took = took_us(each, now, is_open=seen.is_open)
    name = f"{placed.guides}{_SIGNS[each.status]} {each.node.name}".ljust(name_width + 2)
    word = (each.status.name.lower() if each.status else "waiting" if seen.is_open else "never began").ljust(11)
    duration = (duration_text(took) if took else "").rjust(8)
    text = f"{'*' if each.is_critical else ' '} {name}  {word} {duration}  {_note(each, placed.above)}"
    return Line(text.rstrip(), _COLOURS.get(each.status, "") if each.status else "")


def _note(each: NodeSeen, above: str) -> str:
    parts = []
    if each.items:
        parts.append("items: " + ", ".join(f"{count} {word.lower()}" for word, count in sorted(each.items.items())))
    row = each.row
    if row is not None and row.error and each.status is not RunStatus.SUCCEEDED:
        where = f"{row.node}: " if each.items else ""
        parts.append(where + row.error.partition("\n")[0][:_NOTE_MAX])
    elif row is not None and row.reason and each.status is not RunStatus.SUCCEEDED:
        parts.append(row.reason[:_NOTE_MAX])
    if row is not None and row.attempt > 1 and not each.items:
        parts.append(f"attempt {row.attempt}")
    if each.waits_for and each.status is None:
        parts.append(each.waits_for[:_NOTE_MAX])
    others = [name for name in each.node.after if name != above]
    if others:
        more = len(others) - _PARENTS_SHOWN_MAX
        shown = ", ".join(others[:_PARENTS_SHOWN_MAX]) + (f" and {more} more" if more > 0 else "")
        parts.append(f"also after {shown}")
    return " · ".join(parts)


def _stuck_line(stuck: Stuck, now: Instant) -> Line:
    behind = f"; {stuck.behind} behind it" if stuck.behind else ""
    since = f" for {duration_text(now - stuck.since)}" if stuck.since else ""
    return Line(f"! {stuck.node or 'the DagRun'} is stuck{since} ({stuck.reason.value}): {stuck.why}{behind}", "yellow")
