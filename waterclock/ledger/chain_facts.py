"""The newest run of a job's chain, where its schedule is a fixed delay: whether it has ended, and from when.

One for each job, whatever the log holds of it. Kept for every run that the timeline did not make in its order, for only
the job's versions, which are read later, say whether it has a chain at all. Limit: of a DagRun only the ends that its
engine says are known; one that is cancelled or over its time is taken to be open for ever.
"""

from __future__ import annotations

from waterclock.model.delay_rules import counted_end
from waterclock.model.events import EventKind, Origin, Pending, RunEvent, RunStatus
from waterclock.model.ids import Instant, parse_run_id
from waterclock.model.reduce import RunState, reduce

_DAG_ENDS = frozenset({EventKind.DAG_SUCCEEDED, EventKind.DAG_FAILED})


class ChainRun:
    """One run, followed through the log. ``ended_at``: from when its end counts, 0: it is open. ``known_at``: since
    when the log says so."""

    __slots__ = ("ended_at", "fire_at", "is_last", "known_at", "revision", "run_id", "state")

    def __init__(self, event: RunEvent, detail: Pending) -> None:
        self.run_id = event.run_id
        self.fire_at: Instant = parse_run_id(event.run_id).fire_at
        self.revision = detail.revision
        self.is_last = detail.is_last
        self.state = RunState(RunStatus.PENDING, is_dag=detail.dag is not None)
        self.ended_at: Instant = 0
        self.known_at: Instant = 0

    def take(self, event: RunEvent, at: Instant, token: int) -> None:
        """An event of this run; ``at``: its record time, ``token``: its offset as a fencing token."""
        if self.state.is_dag:
            is_over = event.kind in _DAG_ENDS and not self.ended_at
        else:
            self.state = reduce(self.state, event, token).state or self.state
            is_over = self.state.final and not self.ended_at
        if is_over:
            self.ended_at, self.known_at = counted_end(event.at, at, self.fire_at, at), at


def begun_by(event: RunEvent) -> ChainRun | None:
    """The run, if its PENDING is one that a chain may have made. Raises RequestError where the id is none."""
    detail = event.detail
    if not isinstance(detail, Pending) or detail.origin is not Origin.SCHEDULE or detail.due_at is not None:
        return None
    return None if detail.gap_to_at or event.kind is not EventKind.PENDING else ChainRun(event, detail)
