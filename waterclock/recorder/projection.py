"""Events to rows: what Cassandra shows of a run (pure).

Must hold: a row is a function of the run and of its write stamp alone, so that a replay, in whatever batches, writes
the same cells: ``wts = dispatched_at + attempt * 64 + rank``, and each rank is reached by one accepted event of that
attempt. Rank 12, between RUNNING and RETRYING, is an attempt that has ended and waits for its verdict.

Not shown yet: HELD runs (the event names neither revision nor tier; they come with the overlap policies).
"""

from __future__ import annotations

import orjson

from waterclock.model.events import FINAL, Ended, EventKind, Origin, Outcome, Pending, RunEvent, RunStatus, Skipped
from waterclock.model.fingerprint import fingerprint
from waterclock.model.ids import Instant, parse_run_id
from waterclock.model.job import Command
from waterclock.model.reduce import RunState
from waterclock.store.port import AttemptRow, AuditRow, FailureRow, RunRow

_RANK = {
    RunStatus.PENDING: 0,
    RunStatus.RUNNING: 8,
    RunStatus.RETRYING: 16,
    RunStatus.SUCCEEDED: 32,
    RunStatus.FAILED: 32,
    RunStatus.CANCELLED: 32,
    RunStatus.SKIPPED: 32,
}
_RANK_UNDECIDED = 12
_ATTEMPT_STEP = 64


class Known:
    """What the events of one open run have told beyond its state; changed in place, once for each event."""

    __slots__ = ("dispatched_at", "ended", "ended_at", "job_id", "pending", "reason", "series", "started_at")

    def __init__(self, event: RunEvent, pending: Pending, dispatched_at: Instant) -> None:
        self.job_id = event.job_id
        self.series = parse_run_id(event.run_id).series if "~" in event.run_id else 0
        self.pending = pending
        self.dispatched_at = dispatched_at
        self.started_at: Instant = 0
        self.ended_at: Instant = 0
        self.ended: Ended | None = None
        self.reason = ""


def follow(known: Known, event: RunEvent, state: RunState) -> None:
    """Take in an accepted event; ``state`` is the one after it."""
    detail = event.detail
    if event.kind is EventKind.STARTED:
        known.started_at, known.ended_at, known.ended, known.reason = event.at, 0, None, ""
    elif isinstance(detail, Ended):
        known.ended = detail
        known.ended_at = event.at
        known.started_at = detail.started_at or known.started_at
        known.reason = event.reason
    elif state.status in FINAL:
        known.ended_at = known.ended_at or event.at
        known.reason = event.reason


def run_row(known: Known, state: RunState) -> RunRow:
    """The row of a run as it is now."""
    status, attempt, outcome, worker, _, token, _, _ = state
    revision, fire_at, _, tier, origin, _, _, _, zone, tzdata, _, _, _ = known.pending
    rank = _RANK_UNDECIDED if state.undecided else _RANK[status]
    ended = known.ended
    return RunRow(
        known.job_id,
        fire_at,
        known.series,
        revision,
        tier,
        origin,
        status,
        outcome,
        attempt,
        known.dispatched_at,
        known.started_at,
        known.ended_at,
        worker,
        token,
        "" if outcome is Outcome.SUCCEEDED else error_text(ended),
        None if ended is None else ended.result,
        known.reason,
        zone,
        tzdata,
        0,
        0,
        known.dispatched_at + attempt * _ATTEMPT_STEP + rank,
    )


def error_text(ended: Ended | None) -> str:
    """An error as people read it: class and message, then the short trace."""
    if ended is None or not (ended.error_class or ended.error_message or ended.error_trace):
        return ""
    head = ": ".join(part for part in (ended.error_class, ended.error_message) if part)
    return f"{head}\n{ended.error_trace}" if ended.error_trace else head


def skipped_row(event: RunEvent, skipped: Skipped, dispatched_at: Instant) -> RunRow:
    """The one row of a skipped range, under its first fire."""
    return RunRow(
        event.job_id,
        skipped.from_at,
        0,
        skipped.revision,
        skipped.tier,
        Origin.SCHEDULE,
        RunStatus.SKIPPED,
        Outcome.NONE,
        0,
        dispatched_at,
        0,
        0,
        "",
        0,
        "",
        None,
        event.reason,
        "",
        "",
        skipped.fire_count,
        skipped.to_at,
        dispatched_at + _RANK[RunStatus.SKIPPED],
    )


def attempt_row(known: Known, state: RunState, recorded_at: Instant) -> AttemptRow:
    """The last attempt, which another will follow. ``recorded_at``: the record time of the RETRYING."""
    return AttemptRow(
        known.job_id,
        known.pending.fire_at,
        known.series,
        "",
        state.attempt,
        state.outcome,
        known.started_at,
        known.ended_at,
        state.worker,
        state.token,
        error_text(known.ended),
        recorded_at,
    )


def failure_row(known: Known, event: RunEvent, recorded_at: Instant) -> FailureRow:
    """A run's line in the failure list, under the same fingerprint as its dead letter."""
    ended = known.ended
    error_class, message = ("", "") if ended is None else (ended.error_class, ended.error_message)
    return FailureRow(
        known.job_id,
        known.pending.fire_at,
        known.series,
        "",
        known.ended_at,
        event.reason,
        fingerprint(error_class or event.reason, message),
        recorded_at,
    )


def audit_row(command: Command, recorded_at: Instant, partition: int, offset: int) -> AuditRow:
    """A command as received. The specs themselves stay in ``job_versions``."""
    told = {
        "command_id": command.command_id,
        "expected_revision": command.expected_revision,
        "handler": command.spec.label if command.spec is not None else "",
        "idempotency_key": command.idempotency_key,
        "note": command.note,
    }
    detail = orjson.dumps({name: value for name, value in told.items() if value}).decode()
    return AuditRow(command.job_id, recorded_at, partition, offset, command.actor, command.kind.value.lower(), detail)
