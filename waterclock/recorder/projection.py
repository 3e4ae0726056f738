"""Events to rows: what Cassandra shows of a run (pure).

Must hold: a row is a function of the run and of its write stamp alone, so that a replay, in whatever batches, writes
the same cells: ``wts = dispatched_at + attempt * 64 + rank``, and each rank is reached by one accepted event of that
attempt (``dispatched_at`` is that of the run's first event, be it HELD or PENDING). Between RUNNING and RETRYING, rank
10 is an open attempt, or DagRun, that was asked to stop, and rank 12 one that has ended and waits for its verdict. What
was done last about a dead letter is a row of its own, by the record time of the redrive's PENDING or of the command
that discarded it.

A run of a backfill takes the place of a SKIPPED row, so it is stamped half an hour later: no clocks are that far apart.

A run that is HELD has the row of a PENDING one whose ``reason`` says why it waits; its release is rank 4. Where it is
dropped after all, its row still tells what its HELD has told. A DagRun has no attempts: how often it was paused and
resumed stands in their place.
"""

from __future__ import annotations

import orjson

from waterclock.model.errors import RequestError
from waterclock.model.events import (
    EXPIRED,
    FINAL,
    Ended,
    EventKind,
    Origin,
    Outcome,
    Pending,
    Retrying,
    RunEvent,
    RunStatus,
    Skipped,
)
from waterclock.model.fingerprint import fingerprint
from waterclock.model.ids import NAME_MAX, TENANT_MAX, US_PER_S, Instant, RunId, parse_run_id
from waterclock.model.job import Command, CommandKind, JobSpec
from waterclock.model.reduce import RunState
from waterclock.model.time_text import format_rfc3339
from waterclock.store.port import AttemptRow, AuditRow, FailureRow, LetterAction, LetterRow, RunRow

_RANK = {
    RunStatus.PENDING: 0,
    RunStatus.RUNNING: 8,
    RunStatus.RETRYING: 16,
    RunStatus.SUCCEEDED: 32,
    RunStatus.FAILED: 32,
    RunStatus.CANCELLED: 32,
    RunStatus.SKIPPED: 32,
}
_ASKS_FOR_AN_END = frozenset({EventKind.CANCEL_REQUESTED, EventKind.RUN_EXPIRED})
_TURNS = frozenset({EventKind.DAG_PAUSED, EventKind.DAG_RESUMED})
_RANK_RELEASED = 4
_RANK_ASKED_TO_STOP = 10
_RANK_UNDECIDED = 12
_ATTEMPT_STEP = 64
_GAVE_WAY_US = 1_800 * US_PER_S
"""Runs of backfills are stamped so much later: a row SKIPPED that gave way must not win because of somebody's clock."""
_ERROR_MAX = 300
"""Characters of an error in the list of failures."""
_SERIES_END = 2**63
_JOB_ID_MAX = TENANT_MAX + 1 + NAME_MAX
"""No job id is longer; Cassandra refuses a key of 64 KiB, and would the whole batch with it."""


class Known:
    """What the events of one open run have told beyond its state; changed in place, once for each event."""

    __slots__ = (
        "dispatched_at",
        "ended",
        "ended_at",
        "job_id",
        "next_attempt_at",
        "node",
        "pending",
        "reason",
        "series",
        "started_at",
        "turns",
        "was_held",
    )

    def __init__(self, event: RunEvent, pending: Pending, dispatched_at: Instant) -> None:
        self.job_id = event.job_id
        self.series = parse_run_id(event.run_id).series if "~" in event.run_id else 0
        self.node = event.run_id.partition("/")[2]
        self.pending = pending
        self.dispatched_at = dispatched_at
        self.started_at: Instant = 0
        self.ended_at: Instant = 0
        self.ended: Ended | None = None
        self.reason = event.reason if event.kind is EventKind.HELD else ""
        self.was_held = event.kind is EventKind.HELD
        self.next_attempt_at: Instant = 0
        self.turns = 0


def follow_touched(known: Known, event: RunEvent, state: RunState) -> None:
    """Take in what an event of another run has made of this one: a DagRun, or a node of one."""
    if state.status in FINAL:
        known.next_attempt_at, known.ended_at = 0, event.at
        if not state.is_dag:  # why a DagRun was to end was said before; this is a node's word
            known.reason = event.reason
    elif known.started_at == 0 and state.is_dag:
        known.started_at = event.at


def follow(known: Known, event: RunEvent, state: RunState) -> None:
    """Take in an accepted event; ``state`` is the one after it."""
    detail, kind = event.detail, event.kind
    if isinstance(detail, Pending):
        known.pending, known.reason = detail, ""
    elif kind is EventKind.STARTED:
        known.started_at, known.ended_at, known.ended, known.reason = event.at, 0, None, ""
        known.next_attempt_at = 0
    elif isinstance(detail, Ended):
        known.ended = detail
        known.ended_at = event.at
        known.started_at = detail.started_at or known.started_at
        asked = known.reason if state.cancel_requested else ""  # why it was asked to stop
        is_over = state.expired and state.status is RunStatus.FAILED  # with its DagRun, of which no event names it
        known.reason = event.reason or (EXPIRED if is_over else asked)
    elif isinstance(detail, Retrying):
        known.next_attempt_at = detail.due_at
    elif kind in _TURNS:
        known.turns += 1
    elif kind in _ASKS_FOR_AN_END or state.status in FINAL:
        known.reason, known.next_attempt_at = event.reason, 0
        if kind is EventKind.RUN_FAILED:
            known.ended_at = known.ended_at or event.at
        elif state.status in FINAL:
            known.ended_at = event.at  # it ends now, whenever its last attempt did


def run_row(known: Known, state: RunState) -> RunRow:
    """The row of a run as it is now."""
    status, attempt, outcome, worker, _, token, _, asked_to_stop, _, _, paused = state
    pending = known.pending
    ended = known.ended
    return RunRow(
        known.job_id,
        pending.fire_at,
        known.series,
        pending.revision,
        pending.tier,
        pending.origin,
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
        pending.zone,
        pending.tzdata,
        0,
        0,
        stamp_of(known, state),
        known.next_attempt_at,
        pending.linked_run or pending.triggered_by,
        asked_to_stop,
        pending.is_last,
        is_dag=pending.dag is not None,
        paused=paused,
        rerun_from=pending.dag.rerun_from if pending.dag is not None else (),
    )


def stamp_of(known: Known, state: RunState) -> int:
    """The write stamp of a run's row, as it is now."""
    rank = _RANK[state.status]
    if state.status is RunStatus.PENDING and known.was_held and not state.held:
        rank = _RANK_RELEASED
    elif state.undecided:
        rank = _RANK_UNDECIDED
    elif state.status is RunStatus.RUNNING and state.ending:
        rank = _RANK_ASKED_TO_STOP
    gave_way_us = _GAVE_WAY_US if known.pending.backfill else 0
    return known.dispatched_at + (state.attempt + known.turns) * _ATTEMPT_STEP + rank + gave_way_us


def error_text(ended: Ended | None) -> str:
    """An error as people read it: class and message, then the short trace."""
    if ended is None or not (ended.error_class or ended.error_message or ended.error_trace):
        return ""
    head = ": ".join(part for part in (ended.error_class, ended.error_message) if part)
    return f"{head}\n{ended.error_trace}" if ended.error_trace else head


def dropped_row(known: Known, state: RunState, event: RunEvent, skipped: Skipped) -> RunRow:
    """The row of a run that was held and is not made after all: a skip, and still what its HELD has told."""
    # It is the last of its schedule no more: what is dropped does not count.
    return run_row(known, state)._replace(
        ended_at=event.at,
        reason=_skip_reason(event, skipped),
        skipped_count=skipped.fire_count,
        skipped_to=skipped.to_at,
        is_last=False,
    )


def _skip_reason(event: RunEvent, skipped: Skipped) -> str:
    return f"{event.reason}: {skipped.cap}" if skipped.cap else event.reason


def skipped_row(event: RunEvent, skipped: Skipped, dispatched_at: Instant) -> RunRow:
    """The one row of a skipped range, under its first fire; of a run of a series that was dropped, its own.

    Limit: whether that was a trigger's, a rerun's or a redrive's is not in the event, so it is told as a trigger's.
    """
    series = parse_run_id(event.run_id).series if "~" in event.run_id else 0
    return RunRow(
        event.job_id,
        skipped.from_at,
        series,
        skipped.revision,
        skipped.tier,
        Origin.TRIGGER if series else Origin.SCHEDULE,
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
        _skip_reason(event, skipped),
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
        known.node,
        state.attempt,
        state.outcome,
        known.started_at,
        known.ended_at,
        state.worker,
        state.token,
        error_text(known.ended),
        recorded_at,
    )


def failure_row(known: Known, event: RunEvent, attempts: int, recorded_at: Instant) -> FailureRow:
    """A run's line in the failure list, under the same fingerprint as its dead letter."""
    ended = known.ended
    error_class, message = ("", "") if ended is None else (ended.error_class, ended.error_message)
    return FailureRow(
        known.job_id,
        known.pending.fire_at,
        known.series,
        known.node,
        known.ended_at,
        event.reason,
        fingerprint(error_class or event.reason, message),
        recorded_at,
        error_class or event.reason,
        message[:_ERROR_MAX],
        attempts,
    )


def _letter_place(run_id: str) -> RunId | None:
    """The run whose letter is meant; None where the text names none, or one that no table could hold."""
    try:
        run = parse_run_id(run_id)
    except RequestError:
        return None
    return run if run.series < _SERIES_END else None


def redriven_row(event: RunEvent, pending: Pending) -> LetterRow | None:
    """What a redrive's PENDING says of the letter of the run that was given up; None where it names none.

    By when the brokers took the command, as a DISCARD counts: of the two the last one stands. (Of one that was HELD by
    its dispatcher's clock.)
    """
    place = _letter_place(pending.linked_run)
    return None if place is None else LetterRow(*place, LetterAction.REDRIVEN, event.run_id, "", event.at)


def discarded_row(command: Command, recorded_at: Instant) -> LetterRow | None:
    """What a DISCARD says of a letter; None for any other command, and for one that the dispatcher refuses."""
    if command.kind is not CommandKind.DISCARD:
        return None
    place = _letter_place(command.run_id)
    if place is None or place.job_id != command.job_id:
        return None
    return LetterRow(*place, LetterAction.DISCARDED, "", command.actor, recorded_at)


def audit_row(command: Command, recorded_at: Instant, partition: int, offset: int) -> AuditRow:
    """A command as received, before anybody has judged it. The specs themselves stay in ``job_versions``.

    Anybody may produce commands: what cannot be told of one is left out or cut, and never stops who writes.
    """
    told = {
        "command_id": command.command_id,
        "expected_revision": command.expected_revision,
        "handler": _label(command.spec) if command.spec is not None else "",
        "idempotency_key": command.idempotency_key,
        "note": command.note,
        "run_id": command.run_id,
        "triggered_by": command.triggered_by,
        "backfill": command.backfill_id,
        "from": format_rfc3339(command.from_at) if command.from_at else "",
        "to": format_rfc3339(command.to_at) if command.to_at else "",
    }
    detail = orjson.dumps({name: value for name, value in told.items() if value}).decode()
    job_id = command.job_id[:_JOB_ID_MAX]
    return AuditRow(job_id, recorded_at, partition, offset, command.actor, command.kind.value.lower(), detail)


def _label(spec: JobSpec) -> str:
    """What a spec runs; of one that nobody has checked it may not be known."""
    try:
        return spec.label
    except (ValueError, LookupError, TypeError, AttributeError):  # a URL that is none, a program without a name
        return ""
