"""Work records to bytes and back, by hand: the other half of what every run writes and reads.

Writes exactly the bytes that fastavro writes with ``work_record.avsc`` (a property test holds it to that). What is the
same for all runs of a job's revision stands last in the record, so its bytes are made once and kept.
"""

from __future__ import annotations

from typing import TypeAlias

from waterclock.model.events import WorkRecord
from waterclock.model.job import Tier

from . import schemata
from .binary import get_bytes, get_instant, get_long, get_text, put_bytes, put_instant, put_long, put_text
from .framing import BODY_AT
from .run_event import TIER_AT, TIER_BYTE

FRAME = schemata.current("work_record").frame

_A_HANDLERS = put_text("") + b"\0" + put_text("") + put_text("")
"""The end of most records: no executor, not at most once, the default policy, started by no run's end."""

_make = tuple.__new__

_TAIL_KEPT_BYTES, _TAILS_KEPT = 96, 1_000
_Tail: TypeAlias = tuple[Tier, str, str, bytes, str, bool, str, str]
_tails: dict[bytes, _Tail] = {}
"""What records said lately behind their revision: the same for whole applications, so that thousands of runs in flight
share its texts. Short ones only, and so many; then it begins anew."""

_AS_MADE = put_long(-1) + put_text("") + put_long(0) + put_long(-1) + put_text("")
"""What stands behind the attempt of most records: nothing to verify, never redriven, no node, of no backfill."""


def put_work(work: WorkRecord) -> bytes:
    """The framed record."""
    head = put_work_head(put_text(work.run_id), work.fire_at, work.due_at, work.attempt)
    doubted = work.verify_from != -1 or work.verify_state or work.redrives
    if doubted or work.dag_from != -1 or work.backfill:
        doubts = put_long(work.verify_from) + put_text(work.verify_state) + put_long(work.redrives)
        doubts += put_long(work.dag_from) + put_text(work.backfill)
        head = head[: -len(_AS_MADE)] + doubts
    return head + work_tail(work)


def put_work_head(run_id: bytes, fire_at: int, due_at: int, attempt: int) -> bytes:
    """The framed record up to its constant tail; ``run_id`` is encoded already, with its length."""
    return b"".join((FRAME, run_id, put_instant(fire_at), put_instant(due_at), put_long(attempt), _AS_MADE))


def work_tail(work: WorkRecord) -> bytes:
    """The bytes that are the same for all runs of a revision."""
    return b"".join(
        (
            put_text(work.job_id),
            put_long(work.revision),
            TIER_BYTE[work.tier],
            put_text(work.pool),
            put_text(work.handler),
            put_bytes(work.payload),
            put_text(work.executor),
            b"\x01" if work.at_most_once else b"\0",
            put_text(work.policy),
            put_text(work.triggered_by),
        )
    )


def get_work(data: bytes) -> WorkRecord:
    """The work in a framed record. Raises IndexError, KeyError or ValueError for bytes that are none."""
    run_id, place = get_text(data, BODY_AT)
    fire_at, place = get_instant(data, place)
    due_at, place = get_instant(data, place)
    attempt, place = get_long(data, place)
    doubts = (-1, "", 0, -1, "")
    if data[place : place + len(_AS_MADE)] == _AS_MADE:
        place += len(_AS_MADE)
    else:
        verify_from, place = get_long(data, place)
        verify_state, place = get_text(data, place)
        redrives, place = get_long(data, place)
        dag_from, place = get_long(data, place)
        backfill, place = get_text(data, place)
        doubts = (verify_from, verify_state, redrives, dag_from, backfill)
    job_id, place = get_text(data, place)
    revision, place = get_long(data, place)
    tier, pool, handler, payload, executor, once, policy, triggered_by = _tail(data[place:])
    head = (run_id, fire_at, due_at, attempt, job_id, revision, tier, pool, handler, payload)
    return _make(WorkRecord, (*head, executor, once, policy, *doubts, triggered_by))


def _tail(data: bytes) -> _Tail:
    known = _tails.get(data)
    if known is not None:
        return known
    found = _read_tail(data)
    if len(data) <= _TAIL_KEPT_BYTES:
        if len(_tails) >= _TAILS_KEPT:
            _tails.clear()
        _tails[data] = found
    return found


def _read_tail(data: bytes) -> _Tail:
    tier = TIER_AT[data[0]]
    pool, place = get_text(data, 1)
    handler, place = get_text(data, place)
    payload, place = get_bytes(data, place)
    if data[place:] == _A_HANDLERS:
        return tier, pool, handler, payload, "", False, "", ""
    executor, place = get_text(data, place)
    once = data[place]
    policy, place = get_text(data, place + 1)
    triggered_by, place = get_text(data, place)
    if once > 1 or place != len(data):
        raise ValueError("an odd boolean, or the record ends elsewhere than its bytes")
    return tier, pool, handler, payload, executor, once == 1, policy, triggered_by
