"""What becomes of an attempt that ended badly: the verdict, as a pure function.

First form: never again. Every ended attempt without a cancel request gets RUN_FAILED at once; the ladder, retry
policies and RETRYING come with the failure path. What must hold: the verdict names the attempt that the fold holds as
ended, so the reducer accepts it exactly once.
"""

from __future__ import annotations

from waterclock.model.events import EventKind, Outcome, RunEvent
from waterclock.model.ids import Instant, job_of_run
from waterclock.model.reduce import RunState

from .trail import Trail

_REASONS = {
    Outcome.FAILED: "failed",
    Outcome.TIMED_OUT: "timed-out",
    Outcome.LOST: "lost",
    Outcome.CANCELLED: "cancelled",
}


def decide(run_id: str, state: RunState, trail: Trail, now: Instant) -> RunEvent:
    """The verdict on a run whose last attempt ended badly. The reason: the error's class, or else the outcome."""
    reason = trail.error_class or _REASONS[state.outcome]
    return RunEvent(EventKind.RUN_FAILED, job_of_run(run_id), run_id, now, state.attempt, reason=reason)
