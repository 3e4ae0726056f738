"""The part of the Store port that speaks of DagRuns and their nodes. Values and what is asked."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from waterclock.model.events import Outcome, RunStatus
from waterclock.model.ids import Instant, RunId
from waterclock.model.job import Tier


class NodeRow(NamedTuple):
    """History of one node run, as ``RunRow`` is that of a run. ``node``: what stands behind the slash of its run id.

    ``counts_as``: a ``NodeEnd``, 0 while it is open. Of a node that never ran ``dispatched_at`` and ``ended_at`` tell
    when that was decided. ``wts``: as of a run.
    """

    job_id: str
    fire_at: Instant
    series: int
    node: str
    revision: int
    tier: Tier
    status: RunStatus
    outcome: Outcome
    attempt: int
    dispatched_at: Instant
    started_at: Instant
    ended_at: Instant
    worker: str
    fence: int
    error: str
    result: bytes | None
    reason: str
    wts: int
    next_attempt_at: Instant = 0
    cancel_requested: bool = False
    counts_as: int = 0


class DagReading(Protocol):
    """What people read of DagRuns. Raises BackendDown."""

    def dag_nodes(self, job_id: str, fire_at: Instant, series: int, limit: int, after: str = "") -> list[NodeRow]:
        """The node runs of a DagRun that are known, in the order of their keys, behind ``after``."""
        ...

    def dag_node(self, run: RunId) -> NodeRow | None:
        """One node run."""
        ...
