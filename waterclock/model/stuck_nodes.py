"""Why a DagRun does not go on: each node that somebody should look at, with the reason. Pure; silent when all is well.

Waiting is no fault: nodes wait for their parents, for a limit, for a free worker, for their retry. Named is what waits
for something that does not come by itself, for longer than a patience that covers the lag of everybody who has a part
in it. How it fails: it judges what history tells, so it may be a second behind, and never says more than that somebody
should look.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum
from typing import NamedTuple

from .dag_graph import Graph
from .dag_release import DagRunState
from .events import Outcome, RunStatus
from .ids import US_PER_S, Instant

PATIENCE_US = 30 * US_PER_S
"""Roles answer within a second or two; what they owe for so long they will not do by themselves."""

FINDINGS_MAX = 100
"""Of one DagRun. All nodes of a wide one may wait for the same."""

_LOOKED_AT = 200
"""Nodes that could begin which are asked for."""


class StuckReason(StrEnum):
    """Why; the words are those of the API, the command line and the metric."""

    AWAITS_VERDICT = "awaits-verdict"
    """Its attempt ended, and no retry router has said what follows."""

    NO_WORKER = "no-worker"
    """Its work is out, and nobody serves its pool."""

    LIMIT_REACHED = "limit-reached"
    """It may begin but for a limit, and every node under way is stuck itself."""

    PAUSED = "paused"
    """It could begin, and its DagRun is paused."""

    NOT_RELEASED = "not-released"
    """Its parents have ended, and no DAG engine has released it or said that it never runs."""

    NOT_ENDED = "not-ended"
    """Every node has ended, and no DAG engine has ended the DagRun. (Of the DagRun itself: ``node`` is "".)"""


class NodeUnderWay(NamedTuple):
    """A node run that has not ended. ``since``: when it came to stand so. ``retry_at``: while it is RETRYING."""

    key: str
    status: RunStatus
    outcome: Outcome
    since: Instant
    pool: str
    retry_at: Instant = 0


class Stuck(NamedTuple):
    """One finding. ``behind``: how many nodes wait for it, directly or not."""

    node: str
    reason: StuckReason
    since: Instant
    why: str
    behind: int


def find_stuck(
    state: DagRunState,
    under_way: Iterable[NodeUnderWay],
    served_pools: Collection[str] | None,
    *,
    is_paused: bool,
    moved_at: Instant,
    now: Instant,
    patience_us: int = PATIENCE_US,
) -> list[Stuck]:
    """The findings of an open DagRun that went out and is not to end, in the order of its nodes.

    ``state``: what is known of its nodes; it is used up. ``served_pools``: those that have a worker, None: nobody
    knows. ``moved_at``: when it was last heard of.
    """
    under_way = list(under_way)
    stuck = [found for node in under_way if (found := _under_way(node, served_pools, now - patience_us))]
    is_jammed = bool(under_way) and len(stuck) == len(under_way)
    is_waiting = now - moved_at > patience_us
    could_begin, is_over = _owed(state)
    if is_paused:
        stuck += [Stuck(key, StuckReason.PAUSED, moved_at, "its DagRun is paused: resume it", 0) for key in could_begin]
        if is_over:
            why = "all its nodes have ended, and it is paused: resume it, and it ends"
            stuck.append(Stuck("", StuckReason.PAUSED, moved_at, why, 0))
    elif is_waiting:
        why = "nobody has released it: does a DAG engine run, and have the pools of all nodes their topics?"
        stuck += [Stuck(key, StuckReason.NOT_RELEASED, moved_at, why, 0) for key in could_begin]
        if is_over:
            why = "all its nodes have ended, and nobody has ended it: does a DAG engine run?"
            stuck.append(Stuck("", StuckReason.NOT_ENDED, moved_at, why, 0))
        if is_jammed and not state.has_more:
            why = f"a limit is reached, and all {len(under_way)} nodes under way are stuck"
            stuck += [Stuck(name, StuckReason.LIMIT_REACHED, moved_at, why, 0) for name in state.held_back]
    graph = state.graph
    stuck.sort(key=lambda each: _order(graph, each.node))
    ended = {node.name: end is not None for node, end in zip(graph.nodes, state.ends, strict=True)}
    return [each._replace(behind=_behind(graph, each.node, ended)) for each in stuck[:FINDINGS_MAX]]


def _under_way(node: NodeUnderWay, served_pools: Collection[str] | None, before: Instant) -> Stuck | None:
    if node.status is RunStatus.RUNNING and node.outcome is not Outcome.NONE:
        why = "its attempt has ended, and nobody has said what follows: does a retry router run?"
        return Stuck(node.key, StuckReason.AWAITS_VERDICT, node.since, why, 0) if node.since < before else None
    waits_since = {RunStatus.PENDING: node.since, RunStatus.RETRYING: node.retry_at}.get(node.status)
    if waits_since is None or waits_since >= before or served_pools is None or node.pool in served_pools:
        return None
    why = f"no worker serves the pool {node.pool}: waterclock worker MODULE:APP --pool {node.pool}"
    return Stuck(node.key, StuckReason.NO_WORKER, waits_since, why, 0)


def _owed(state: DagRunState) -> tuple[list[str], bool]:
    """The keys of which something should have been said by now, and whether the DagRun should have ended."""
    steps = state.decide(_LOOKED_AT)
    keys = [release.key for release in steps.releases] + [skip.key for skip in steps.skips]
    return keys, steps.end is not None


def _order(graph: Graph, key: str) -> tuple[int, int, str]:
    name, _, index = key.partition(".")
    return graph.place.get(name, -1), int(index) if index.isdecimal() else -1, key


def _behind(graph: Graph, key: str, ended: Mapping[str, bool]) -> int:
    """How many nodes that have not ended come after this one."""
    if not key:
        return 0
    start = graph.place[key.partition(".")[0]]
    seen, left = {start}, [start]
    while left:  # ends: each node is seen once
        place = left.pop()
        for child in (*graph.children[place], *graph.needed[place]):
            if child not in seen:
                seen.add(child)
                left.append(child)
    return sum(not ended[graph.nodes[place].name] for place in seen - {start})
