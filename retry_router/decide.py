"""What becomes of an attempt that ended badly: the verdict, as a pure function.

First form: never again. Every ended attempt without a cancel request gets RUN_FAILED at once; the ladder, retry
policies and RETRYING come with the failure path. What must hold: the verdict names the attempt that the fold holds as
ended, so the reducer accepts it exactly once.
"""

from __future__ import annotations

from typing import NamedTuple

from waterclock.model.events import Ended, EventKind, Outcome, RunEvent, Started
from waterclock.model.ids import Instant, job_of_run
from waterclock.model.reduce import RunState

_REASONS = {
    Outcome.FAILED: "failed",
    Outcome.TIMED_OUT: "timed-out",
    Outcome.LOST: "lost",
    Outcome.CANCELLED: "cancelled",
}


class Trail(NamedTuple):
    """What is kept of a failed run until its end: its work record's place, and its failures."""

    work: Started | None
    error_class: str
    error_message: str
    first_failure_at: Instant
    last_failure_at: Instant


def follow(before: Started | Trail | None, event: RunEvent) -> Started | Trail | None:
    """The trail after an accepted STARTED or a bad outcome. A run that goes well has only its STARTED's detail."""
    detail = event.detail
    if event.kind is EventKind.STARTED:
        started = detail if isinstance(detail, Started) else None
        return before._replace(work=started) if isinstance(before, Trail) else started
    error_class, message = (detail.error_class, detail.error_message) if isinstance(detail, Ended) else ("", "")
    if isinstance(before, Trail):
        return before._replace(error_class=error_class, error_message=message, last_failure_at=event.at)
    return Trail(before, error_class, message, event.at, event.at)


def decide(run_id: str, state: RunState, trail: Started | Trail | None, now: Instant) -> RunEvent:
    """The verdict on a run whose last attempt ended badly. The reason: the error's class, or else the outcome."""
    error_class = trail.error_class if isinstance(trail, Trail) else ""
    reason = error_class or _REASONS[state.outcome]
    return RunEvent(EventKind.RUN_FAILED, job_of_run(run_id), run_id, now, state.attempt, reason=reason)
