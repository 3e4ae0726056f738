"""Work records to bytes and back, by hand: the other half of what every run writes and reads.

Writes exactly the bytes that fastavro writes with ``work_record.avsc`` (a property test holds it to that). What is the
same for all runs of a job's revision stands last in the record, so its bytes are made once and kept.
"""

from __future__ import annotations

from waterclock.model.events import WorkRecord

from . import schemata
from .binary import get_bytes, get_instant, get_long, get_text, put_bytes, put_instant, put_long, put_text
from .framing import BODY_AT
from .run_event import TIER_AT, TIER_BYTE

FRAME = schemata.current("work_record").frame

_A_HANDLERS = put_text("") + b"\0"
"""The end of most records: no executor, and not at most once."""


def put_work(work: WorkRecord) -> bytes:
    """The framed record."""
    return put_work_head(put_text(work.run_id), work.fire_at, work.due_at, work.attempt) + work_tail(work)


def put_work_head(run_id: bytes, fire_at: int, due_at: int, attempt: int) -> bytes:
    """The framed record up to its constant tail; ``run_id`` is encoded already, with its length."""
    return b"".join((FRAME, run_id, put_instant(fire_at), put_instant(due_at), put_long(attempt)))


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
        )
    )


def get_work(data: bytes) -> WorkRecord:
    """The work in a framed record. Raises IndexError, KeyError or ValueError for bytes that are none."""
    run_id, place = get_text(data, BODY_AT)
    fire_at, place = get_instant(data, place)
    due_at, place = get_instant(data, place)
    attempt, place = get_long(data, place)
    job_id, place = get_text(data, place)
    revision, place = get_long(data, place)
    tier = TIER_AT[data[place]]
    pool, place = get_text(data, place + 1)
    handler, place = get_text(data, place)
    payload, place = get_bytes(data, place)
    if data[place:] == _A_HANDLERS:
        return WorkRecord(run_id, fire_at, due_at, attempt, job_id, revision, tier, pool, handler, payload)
    executor, place = get_text(data, place)
    once = data[place]
    if once > 1 or place + 1 != len(data):
        raise ValueError("an odd boolean, or the record ends elsewhere than its bytes")
    return WorkRecord(
        run_id, fire_at, due_at, attempt, job_id, revision, tier, pool, handler, payload, executor, once == 1
    )
