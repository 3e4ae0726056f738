"""Dead letters: why a run was given up, and its work record as it was, byte for byte.

The work records are read back from where STARTED found them, many at once and in offset order, before the round
begins. What must hold: a letter is written only for a verdict that was read back as accepted. How it fails: a record
that retention has removed, or a topic that is gone, leaves the letter without work, and the letter says so; a broker
that does not answer raises BackendDown, and the round is not begun.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from waterclock.log.port import Isolation, Log, Reader, Record, TopicPartition
from waterclock.model.errors import BackendDown, NotFound
from waterclock.model.events import DeadLetter, SourceRecord, Started
from waterclock.model.fingerprint import fingerprint
from waterclock.model.ids import Instant

from .shard import GivenUp

WORK_GONE = "work-record-gone"
NEVER_CLAIMED = "never-claimed"

_STRETCH_GAP = 1_000
"""Two records nearer than this are read in one stretch: reading past a few is cheaper than another seek (50 ms)."""
_BATCH = 500
_WAIT_S = 0.1
_IDLE_POLLS_MAX = 100
_POLLS_PER_ASSIGN = 20
"""After so many polls the partitions that are done are let go, or they would be read on to their ends."""


def letter(given_up: GivenUp, work: SourceRecord | None, now: Instant) -> DeadLetter:
    """The dead letter of an accepted final failure; that its work record is missing is added to the reason."""
    event, attempts, trail = given_up
    reason = event.reason
    if work is None and reason != WORK_GONE:
        reason = f"{reason}; {NEVER_CLAIMED if given_up.work_place is None else WORK_GONE}"
    return DeadLetter(
        event.run_id,
        event.job_id,
        reason,
        trail.error_class,
        trail.error_message,
        fingerprint(trail.error_class or event.reason, trail.error_message),
        attempts,
        trail.first_failure_at or event.at,
        trail.last_failure_at or event.at,
        now,
        work,
    )


def read_work(log: Log, places: Iterable[Started]) -> dict[Started, SourceRecord]:
    """The work records at ``places``; what is gone is left out. Bounded: BackendDown after 10 s without a record."""
    wanted: dict[TopicPartition, list[int]] = {}
    for topic, partition, offset in places:
        wanted.setdefault(TopicPartition(topic, partition), []).append(offset)
    kept = {place: left for place, offsets in wanted.items() if (left := _still_kept(log, place, offsets))}
    if not kept:
        return {}
    reader = log.reader(Isolation.COMMITTED, headers=True)
    try:
        return {
            Started(record.topic, record.partition, record.offset): _source(record)
            for record in _read(reader, {place: deque(_stretches(offsets)) for place, offsets in kept.items()})
        }
    finally:
        reader.close()


def _still_kept(log: Log, place: TopicPartition, offsets: list[int]) -> list[int]:
    """The offsets that retention has left, in order and each once."""
    try:
        low = log.low_watermark(place)
    except NotFound:
        return []
    return sorted({offset for offset in offsets if offset >= low})


def _stretches(offsets: list[int]) -> Iterator[list[int]]:
    """Neighbours together, in order."""
    stretch = [offsets[0]]
    for offset in offsets[1:]:
        if offset - stretch[-1] > _STRETCH_GAP:
            yield stretch
            stretch = []
        stretch.append(offset)
    yield stretch


def _read(reader: Reader, stretches: dict[TopicPartition, deque[list[int]]]) -> Iterator[Record]:
    """Waves of at most one stretch for each partition. Ends: each wave uses up the stretches it reads."""
    while stretches:
        wave = {place: waiting.popleft() for place, waiting in stretches.items()}
        yield from _read_wave(reader, wave)
        stretches = {place: waiting for place, waiting in stretches.items() if waiting}


def _read_wave(reader: Reader, wave: dict[TopicPartition, list[int]]) -> Iterator[Record]:
    """The wanted records of one stretch each. A stretch ends with its last record, or where that one is missing."""
    asked = {place: frozenset(offsets) for place, offsets in wave.items()}
    next_at = {place: offsets[0] for place, offsets in wave.items()}
    idle = 0
    while next_at:  # ends: every turn moves a place on, or is idle
        reader.assign(next_at)
        for _ in range(_POLLS_PER_ASSIGN):
            records = reader.poll(_BATCH, _WAIT_S)
            for record in records:
                place = TopicPartition(record.topic, record.partition)
                next_at[place] = record.offset + 1
                if record.offset in asked[place]:
                    yield record
            idle = 0 if records else idle + 1
            if not records:
                # Positions only now: straight after an assign a client may still tell the one from before it.
                next_at |= {place: max(at, reader.position(place)) for place, at in next_at.items()}
            if idle > _IDLE_POLLS_MAX:
                raise BackendDown("kafka", f"work records of {sorted(wave)} could not be read back")
            if all(at > wave[place][-1] for place, at in next_at.items()):
                break
        next_at = {place: at for place, at in next_at.items() if at <= wave[place][-1]}


def _source(record: Record) -> SourceRecord:
    topic, partition, offset, _, key, value, headers = record
    return SourceRecord(topic, partition, offset, key, value, headers)
