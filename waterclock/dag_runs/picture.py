"""A DagRun as a picture: every node of its Dag, a mapped one as a whole, and the way that took longest. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from waterclock.model.critical_path import Span, critical_path
from waterclock.model.dag import Node
from waterclock.model.dag_events import NodeEnd
from waterclock.model.events import RunStatus
from waterclock.model.ids import Instant
from waterclock.store.dag_port import NodeRow

from .reading import DagRunSeen

_OPEN_FIRST = (RunStatus.RUNNING, RunStatus.RETRYING, RunStatus.PENDING)
_MAPPED_STATUS = {
    NodeEnd.SUCCEEDED: RunStatus.SUCCEEDED,
    NodeEnd.FAILED: RunStatus.FAILED,
    NodeEnd.SKIPPED: RunStatus.SKIPPED,
    NodeEnd.UPSTREAM_FAILED: RunStatus.SKIPPED,
}


class NodeSeen(NamedTuple):
    """One node. ``status`` None: it is not known, and waits (or its DagRun ended before it came to its turn).

    ``row``: its run; of a mapped node the item to look at first (one that failed, else the last), None while there is
    none. ``items``: of a mapped node how many of its items stand how. ``waits_for``: in words, "" where it does not.
    """

    node: Node
    status: RunStatus | None
    counts_as: NodeEnd | None
    row: NodeRow | None
    items: Counter[str]
    began_at: Instant
    started_at: Instant
    ended_at: Instant
    waits_for: str = ""
    is_critical: bool = False


def nodes_seen(seen: DagRunSeen) -> list[NodeSeen]:
    """The nodes, in the order of the Dag; [] where its version is gone or not understood."""
    if seen.graph is None:
        return []
    rows: Mapping[str, list[NodeRow]] = _by_name(seen.nodes.values())
    found = [_node_seen(seen, place, rows[node.name]) for place, node in enumerate(seen.graph.nodes)]
    spans = {each.node.name: Span(each.began_at, each.ended_at) for each in found if each.began_at}
    critical = set(critical_path(seen.graph.nodes, spans))
    return [each._replace(is_critical=each.node.name in critical) for each in found]


def critical_names(nodes: Sequence[NodeSeen]) -> list[str]:
    """The critical path, in the order of time."""
    on_it = [each for each in nodes if each.is_critical]
    return [each.node.name for each in sorted(on_it, key=lambda each: (each.began_at, each.ended_at or 1 << 62))]


def _by_name(rows: Iterable[NodeRow]) -> defaultdict[str, list[NodeRow]]:
    found: defaultdict[str, list[NodeRow]] = defaultdict(list)
    for row in rows:
        found[row.node.partition(".")[0]].append(row)
    return found


def _node_seen(seen: DagRunSeen, place: int, rows: list[NodeRow]) -> NodeSeen:
    assert seen.graph is not None
    node = seen.graph.nodes[place]
    end = None if seen.state is None else seen.state.ends[place]
    items = [row for row in rows if "." in row.node]
    if not items:
        row = rows[0] if rows else None
        status = None if row is None else row.status
        times = (0, 0, 0) if row is None else (row.dispatched_at, row.started_at, row.ended_at)
        end = NodeEnd(row.counts_as) if end is None and row is not None and row.counts_as else end
        return NodeSeen(node, status, end, row, Counter(), *times, _waits_for(seen, node))
    counts = Counter(row.status.name for row in items)
    is_over = end is not None or not seen.is_open
    began_at = min(row.dispatched_at for row in items)
    started_at = min((row.started_at for row in items if row.started_at), default=0)
    ended_at = max(row.ended_at for row in items) if is_over else 0
    status = _MAPPED_STATUS[end] if end is not None else _status_of_items(counts)
    times = (began_at, started_at, ended_at)
    return NodeSeen(node, status, end, _first_to_look_at(items), counts, *times, _waits_for(seen, node))


def _status_of_items(counts: Counter[str]) -> RunStatus:
    """Of a mapped node that has not ended as a whole."""
    going = next((status for status in _OPEN_FIRST if counts[status.name]), None)
    return going or (RunStatus.CANCELLED if counts[RunStatus.CANCELLED.name] else RunStatus.RUNNING)


def _first_to_look_at(items: list[NodeRow]) -> NodeRow:
    failed = (row for row in items if row.counts_as == NodeEnd.FAILED)
    return min(failed, key=_index, default=max(items, key=lambda row: (row.ended_at, _index(row))))


def _index(row: NodeRow) -> int:
    index = row.node.partition(".")[2]
    return int(index) if index.isdecimal() else -1


def _waits_for(seen: DagRunSeen, node: Node) -> str:
    """What it waits for; "" where it does not, or where no rule can say it."""
    if seen.state is None or not seen.is_open:
        return ""
    if seen.is_held:
        return "its DagRun waits for other runs of the job"
    if seen.is_ending:
        return ""
    why = seen.state.why(node.name)
    return "" if why == "it is under way" else why
