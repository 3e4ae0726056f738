"""The look for stuck nodes: what history tells of a DagRun, and who serves its pools, put before ``stuck_nodes.py``."""

from __future__ import annotations

from collections.abc import Collection

from waterclock.model.events import FINAL
from waterclock.model.ids import Instant
from waterclock.model.stuck_nodes import NodeUnderWay, Stuck, find_stuck
from waterclock.store.dag_port import NodeRow

from .reading import DagRunSeen


def stuck_in(seen: DagRunSeen, served_pools: Collection[str] | None, now: Instant) -> list[Stuck]:
    """The findings of one DagRun; [] where it goes on, waits for others, is to end or has ended.

    ``served_pools``: those that have a living worker; None: nobody could tell.
    """
    state = seen.fresh_state()
    if state is None or not seen.is_open or seen.is_ending or seen.is_held:
        return []
    under_way = [_under_way(seen, row) for row in seen.nodes.values() if row.status not in FINAL]
    return find_stuck(state, under_way, served_pools, is_paused=seen.row.paused, moved_at=seen.moved_at, now=now)


def _under_way(seen: DagRunSeen, row: NodeRow) -> NodeUnderWay:
    assert seen.graph is not None
    assert seen.spec is not None
    place = seen.graph.place.get(row.node.partition(".")[0])
    pool = seen.spec.pool if place is None else seen.graph.nodes[place].pool or seen.spec.pool
    since = max(row.dispatched_at, row.started_at, row.ended_at)
    return NodeUnderWay(row.node, row.status, row.outcome, since, pool, row.next_attempt_at)
