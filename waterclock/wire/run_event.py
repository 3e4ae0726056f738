"""Run events to bytes and back, by hand: every run makes three, and four roles read each of them.

Writes exactly the bytes that fastavro writes with ``run_event.avsc`` (a property test holds it to that), at a fraction
of the time. Whoever changes that schema changes this file, or the test fails.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from waterclock.model.backfill import Backfilled, BackfillStatus
from waterclock.model.dag_events import DagStart, NodeEnd, NodeSkipped
from waterclock.model.events import (
    Answered,
    Detail,
    Ended,
    EventKind,
    Origin,
    Pending,
    Retrying,
    Revised,
    RunEvent,
    Skipped,
    Started,
)
from waterclock.model.job import Tier

from . import schemata
from .binary import get_bytes, get_instant, get_long, get_text, put_bytes, put_instant, put_long, put_text
from .framing import BODY_AT

FRAME = schemata.current("run_event").frame

_KIND_BYTE = {kind: put_long(place) for place, kind in enumerate(EventKind)}
_HEAD = {kind: FRAME + byte for kind, byte in _KIND_BYTE.items()}
KIND_AT = {byte[0]: kind for kind, byte in _KIND_BYTE.items()}
_ORIGIN_BYTE = {origin: put_long(place) for place, origin in enumerate(Origin)}
_ORIGIN_AT = {byte[0]: origin for origin, byte in _ORIGIN_BYTE.items()}
_NO_WORKER = put_text("") + put_long(0) + put_long(0)  # worker, incarnation, token

TIER_BYTE = {tier: put_long(tier + 1) for tier in Tier}
TIER_AT = {byte[0]: tier for tier, byte in TIER_BYTE.items()}
"""UNKNOWN, the symbol 0, is no tier to anybody: KeyError."""

_Value = TypeVar("_Value")

_make = tuple.__new__
"""Of a named tuple's class and its fields, all of them: half the price of calling the class, which sorts arguments."""


def put_event(event: RunEvent) -> bytes:
    """The framed record."""
    kind, job_id, run_id, at, attempt, worker, incarnation, token, reason, detail = event
    nobody = not (worker or incarnation or token)
    return b"".join(
        (
            _HEAD[kind],
            put_text(run_id),
            put_instant(at),
            put_long(attempt),
            _NO_WORKER if nobody else put_text(worker) + put_long(incarnation) + put_long(token),
            put_text(reason),
            put_text(job_id),
            _put_detail(detail),
        )
    )


def pending_stretches(job_id: str, pending: Pending) -> tuple[bytes, bytes]:
    """The two stretches of a PENDING that are the same for all runs of a revision: before and after the positions."""
    before = put_text("") + put_text(job_id) + b"\x02"  # reason, job id, "pending is set"
    return before, _put_pending_constants(pending) + _NO_DETAIL[1:]


def put_pending(before: bytes, after: bytes, run_id: bytes, at: int, position: tuple[int, int | None, str]) -> bytes:
    """A framed PENDING from its ready stretches; ``run_id`` is encoded already, with its length."""
    return b"".join(
        (
            _HEAD[EventKind.PENDING],
            run_id,
            put_instant(at),
            b"\0",  # no attempt yet
            _NO_WORKER,
            before,
            _put_position(*position),
            after,
        )
    )


def get_event(data: bytes) -> RunEvent:
    """The event in a framed record. Raises IndexError, KeyError or ValueError for bytes that are none."""
    kind = KIND_AT[data[BODY_AT]]
    run_id, place = get_text(data, BODY_AT + 1)
    at, place = get_long(data, place)
    attempt, place = get_long(data, place)
    worker, place = get_text(data, place)
    incarnation, place = get_long(data, place)
    token, place = get_long(data, place)
    reason, place = get_text(data, place)
    job_id, place = get_text(data, place)
    detail: Detail | None = None
    for after, read in _READERS:
        branch = data[place]
        place += 1
        if branch:
            if branch != 2:
                raise ValueError("a union out of range")
            detail, place = read(data, place)
            if place > len(data) or data[place:] != after:
                raise ValueError("two details, or the record ends elsewhere than its bytes")
            break
    else:
        if place != len(data):
            raise ValueError("the record ends elsewhere than its bytes")
    return _make(RunEvent, (kind, job_id, run_id, at, attempt, worker, incarnation, token, reason, detail))


def _put_detail(detail: Detail | None) -> bytes:
    if detail is None:
        return _NO_DETAIL
    before, put, after = _PUT[type(detail)]
    return before + put(detail) + after


def _put_pending(pending: Pending) -> bytes:
    return _put_position(pending.fire_at, pending.due_at, pending.entry) + _put_pending_constants(pending)


def _put_position(fire_at: int, due_at: int | None, entry: str) -> bytes:
    due = b"\0" if due_at is None else b"\x02" + put_instant(due_at)
    return put_instant(fire_at) + due + put_text(entry)


def _put_pending_constants(pending: Pending) -> bytes:
    return b"".join(
        (
            put_long(pending.revision),
            TIER_BYTE[pending.tier],
            _ORIGIN_BYTE[pending.origin],
            put_text(pending.pool),
            put_text(pending.handler),
            put_text(pending.zone),
            put_text(pending.tzdata),
            put_text(pending.linked_run),
            put_long(pending.queue_timeout_us),
            put_long(pending.run_timeout_us),
            put_long(pending.gap_to_at),
            b"\x01" if pending.is_last else b"\0",
            b"\0" if pending.dag is None else _put_dag_start(pending.dag),
            put_long(pending.backfill),
            put_text(pending.triggered_by),
            put_long(pending.hops),
        )
    )


def _put_dag_start(dag: DagStart) -> bytes:
    payload = b"\0" if dag.payload is None else b"\x02" + put_bytes(dag.payload)
    count = put_long(len(dag.rerun_from)) if dag.rerun_from else b""
    return b"\x02" + payload + count + b"".join(map(put_text, dag.rerun_from)) + b"\0"


def _get_dag_start(data: bytes, place: int) -> tuple[DagStart, int]:
    payload, place = _get_optional(data, place, get_bytes)
    names: list[str] = []
    count, place = get_long(data, place)
    while count:  # ends: each block takes bytes, and running out of them raises
        if count < 0:  # a block that says its size in bytes
            count = -count
            _size, place = get_long(data, place)
        for _ in range(count):
            name, place = get_text(data, place)
            names.append(name)
        count, place = get_long(data, place)
    return DagStart(payload, tuple(names)), place


def _get_pending(data: bytes, place: int) -> tuple[Pending, int]:
    fire_at, place = get_instant(data, place)
    due_at, place = _get_optional(data, place, get_instant)
    entry, place = get_text(data, place)
    revision, place = get_long(data, place)
    tier = TIER_AT[data[place]]
    origin = _ORIGIN_AT[data[place + 1]]
    pool, place = get_text(data, place + 2)
    handler, place = get_text(data, place)
    zone, place = get_text(data, place)
    tzdata, place = get_text(data, place)
    linked_run, place = get_text(data, place)
    queue_timeout_us, place = get_long(data, place)
    run_timeout_us, place = get_long(data, place)
    gap_to_at, place = get_long(data, place)
    is_last, place = data[place] != 0, place + 1
    dag, place = _get_optional(data, place, _get_dag_start)
    backfill, place = get_long(data, place)
    cause, place = get_text(data, place)
    hops, place = get_long(data, place)
    return _make(
        Pending,
        (revision, fire_at, due_at, tier, origin, entry, pool, handler, zone, tzdata, linked_run, queue_timeout_us,
         run_timeout_us, gap_to_at, is_last, dag, backfill, cause, hops),
    ), place  # fmt: skip


def _put_skipped(skipped: Skipped) -> bytes:
    revision, from_at, to_at, fire_count, tier, due_at, run_instead, cap, gap_to_at = skipped
    longs = put_long(revision) + put_instant(from_at) + put_instant(to_at) + put_long(fire_count)
    return longs + TIER_BYTE[tier] + put_instant(due_at) + put_text(run_instead) + put_text(cap) + put_long(gap_to_at)


def _get_skipped(data: bytes, place: int) -> tuple[Skipped, int]:
    revision, place = get_long(data, place)
    from_at, place = get_long(data, place)
    to_at, place = get_long(data, place)
    fire_count, place = get_long(data, place)
    tier = TIER_AT[data[place]]
    due_at, place = get_instant(data, place + 1)
    run_instead, place = get_text(data, place)
    cap, place = get_text(data, place)
    gap_to_at, place = get_long(data, place)
    return Skipped(revision, from_at, to_at, fire_count, tier, due_at, run_instead, cap, gap_to_at), place


def _put_started(started: Started) -> bytes:
    topic, partition, offset = started
    return put_text(topic) + put_long(partition) + put_long(offset)


def _get_started(data: bytes, place: int) -> tuple[Started, int]:
    topic, place = get_text(data, place)
    partition, place = get_long(data, place)
    offset, place = get_long(data, place)
    return _make(Started, (topic, partition, offset)), place


def _put_ended(ended: Ended) -> bytes:
    started_at, error_class, error_message, error_trace, result, emitted, retry_after_us = ended
    texts = put_text(error_class) + put_text(error_message) + put_text(error_trace)
    kept = b"\0" if result is None else b"\x02" + put_bytes(result)
    return put_instant(started_at) + texts + kept + put_long(emitted) + put_long(retry_after_us)


def _get_ended(data: bytes, place: int) -> tuple[Ended, int]:
    started_at, place = get_long(data, place)
    error_class, place = get_text(data, place)
    error_message, place = get_text(data, place)
    error_trace, place = get_text(data, place)
    result, place = _get_optional(data, place, get_bytes)
    emitted, place = get_long(data, place)
    retry_after_us, place = get_long(data, place)
    fields = (started_at, error_class, error_message, error_trace, result, emitted, retry_after_us)
    return _make(Ended, fields), place


def _put_revised(revised: Revised) -> bytes:
    revision, stamp_at, edge_at, action, gaps = revised
    head = put_long(revision) + put_instant(stamp_at) + put_instant(edge_at) + put_text(action)
    if not gaps:
        return head + b"\0"
    pairs = b"".join(put_instant(from_at) + put_instant(to_at) for from_at, to_at in gaps)
    return head + put_long(len(gaps)) + pairs + b"\0"


def _get_revised(data: bytes, place: int) -> tuple[Revised, int]:
    revision, place = get_long(data, place)
    stamp_at, place = get_long(data, place)
    edge_at, place = get_long(data, place)
    action, place = get_text(data, place)
    gaps: list[tuple[int, int]] = []
    count, place = get_long(data, place)
    while count:  # ends: each block takes bytes, and running out of them raises
        if count < 0:  # a block that says its size in bytes
            count = -count
            _size, place = get_long(data, place)
        for _ in range(count):
            from_at, place = get_long(data, place)
            to_at, place = get_long(data, place)
            gaps.append((from_at, to_at))
        count, place = get_long(data, place)
    return Revised(revision, stamp_at, edge_at, action, tuple(gaps)), place


def _put_answered(answered: Answered) -> bytes:
    command_id, offset, verdict, revision, *texts = answered
    head = put_text(command_id) + put_long(offset) + put_text(verdict) + put_long(revision)
    return head + b"".join(map(put_text, texts))


def _get_answered(data: bytes, place: int) -> tuple[Answered, int]:
    command_id, place = get_text(data, place)
    offset, place = get_long(data, place)
    verdict, place = get_text(data, place)
    revision, place = get_long(data, place)
    run_id, place = get_text(data, place)
    problem, place = get_text(data, place)
    message, place = get_text(data, place)
    pointer, place = get_text(data, place)
    hint, place = get_text(data, place)
    first_command_id, place = get_text(data, place)
    held, place = get_text(data, place)
    skipped, place = get_text(data, place)
    why = (problem, message, pointer, hint, first_command_id)
    return Answered(command_id, offset, verdict, revision, run_id, *why, held, skipped), place


def _put_retrying(retrying: Retrying) -> bytes:
    return put_instant(retrying.due_at) + put_long(retrying.delay_us)


def _get_retrying(data: bytes, place: int) -> tuple[Retrying, int]:
    due_at, place = get_instant(data, place)
    delay_us, place = get_long(data, place)
    return Retrying(due_at, delay_us), place


def _put_node_skipped(skipped: NodeSkipped) -> bytes:
    result = b"\0" if skipped.result is None else b"\x02" + put_bytes(skipped.result)
    return put_long(skipped.counts_as) + result


def _get_node_skipped(data: bytes, place: int) -> tuple[NodeSkipped, int]:
    counts_as, place = get_long(data, place)
    result, place = _get_optional(data, place, get_bytes)
    return NodeSkipped(NodeEnd(counts_as), result), place


def _put_backfilled(told: Backfilled) -> bytes:
    number, seq, status, *ends, revision, tier = told[:8]
    head = put_long(number) + put_long(seq) + put_text(status) + b"".join(map(put_instant, ends))
    head += put_long(revision) + TIER_BYTE[tier]
    return head + b"".join(map(put_long, told[8:19])) + b"".join(map(put_text, told[19:]))


def _get_backfilled(data: bytes, place: int) -> tuple[Backfilled, int]:
    number, place = get_long(data, place)
    seq, place = get_long(data, place)
    status, place = get_text(data, place)
    from_at, place = get_long(data, place)
    to_at, place = get_long(data, place)
    position_at, place = get_long(data, place)
    revision, place = get_long(data, place)
    head = (number, seq, BackfillStatus(status), from_at, to_at, position_at, revision, TIER_AT[data[place]])
    longs: list[int] = []
    place += 1
    for _ in range(11):
        each, place = get_long(data, place)
        longs.append(each)
    actor, place = get_text(data, place)
    note, place = get_text(data, place)
    reason, place = get_text(data, place)
    return Backfilled._make((*head, *longs, actor, note, reason)), place


def _get_optional(
    data: bytes, place: int, read: Callable[[bytes, int], tuple[_Value, int]]
) -> tuple[_Value | None, int]:
    branch = data[place]
    if not branch:
        return None, place + 1
    if branch != 2:
        raise ValueError("a union out of range")
    return read(data, place + 1)


_DETAILS: tuple[Callable[[bytes, int], tuple[Detail, int]], ...] = (
    _get_pending,
    _get_skipped,
    _get_started,
    _get_ended,
    _get_revised,
    _get_answered,
    _get_retrying,
    _get_node_skipped,
    _get_backfilled,
)
_NO_DETAIL = bytes(len(_DETAILS))
_READERS = [(_NO_DETAIL[place:], read) for place, read in enumerate(_DETAILS, 1)]
"""With what must follow a detail: that no other one is there."""
_PUTTERS: dict[type[Detail], Callable[[Any], bytes]] = {
    Pending: _put_pending,
    Skipped: _put_skipped,
    Started: _put_started,
    Ended: _put_ended,
    Revised: _put_revised,
    Answered: _put_answered,
    Retrying: _put_retrying,
    NodeSkipped: _put_node_skipped,
    Backfilled: _put_backfilled,
}
_PUT = {
    detail: (_NO_DETAIL[:place] + b"\x02", put, _NO_DETAIL[place + 1 :])
    for place, (detail, put) in enumerate(_PUTTERS.items())
}
"""By detail: the unions before it and its own branch, its bytes, the unions after it."""
