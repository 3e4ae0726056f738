"""Work records, read back from where STARTED found them: many at once, in offset order.

One reader is kept for all reads, and holds nothing between them: making one costs ten milliseconds of processor, each
time. How it fails: a record that retention has removed, or a topic that is gone or was made anew, is left out; a broker
that does not answer raises BackendDown, and the next read begins with a new reader.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

import structlog

from waterclock.log.port import Isolation, Log, Reader, Record, TopicPartition
from waterclock.model.errors import BackendDown, NotFound, UndecodableRecord
from waterclock.model.events import SourceRecord, Started, WorkRecord
from waterclock.wire.fit_work import fit_work

_log = structlog.get_logger()

_STRETCH_GAP = 1_000
"""Two records nearer than this are read in one stretch: reading past a few is cheaper than another seek (50 ms)."""
_BATCH = 500
_WAIT_S = 0.1
_IDLE_POLLS_MAX = 100
_POLLS_PER_ASSIGN = 20
"""After so many polls the partitions that are done are let go, or they would be read on to their ends."""


class WorkRecords:
    """Reads records of one Log by their places; call it from one thread."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._reader: Reader | None = None

    def read(self, places: Iterable[Started]) -> dict[Started, SourceRecord]:
        """As ``records``, in the form in which dead letters keep them."""
        return {place: source_of(record) for place, record in self.records(places).items()}

    def records(self, places: Iterable[Started]) -> dict[Started, Record]:
        """The records at ``places``; what is gone is left out. Bounded: BackendDown after 10 s without a record."""
        wanted: dict[TopicPartition, list[int]] = {}
        for topic, partition, offset in places:
            wanted.setdefault(TopicPartition(topic, partition), []).append(offset)
        kept = {place: left for place, offsets in wanted.items() if (left := _still_kept(self._log, place, offsets))}
        if not kept:
            return {}
        if self._reader is None:
            self._reader = self._log.reader(Isolation.COMMITTED, headers=True)
        try:
            found = {
                Started(record.topic, record.partition, record.offset): record
                for record in _read(
                    self._reader, {place: deque(_stretches(offsets)) for place, offsets in kept.items()}
                )
            }
            self._reader.assign({})  # or it would read on to the ends
        except BaseException:
            self.close()
            raise
        return found

    def close(self) -> None:
        """Give the reader up; the next read makes another."""
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()


def work_in(source: SourceRecord, run_id: str) -> WorkRecord | None:
    """The work in a record that was read back; None where it is no work, or another run's (a topic made anew)."""
    try:
        work = fit_work(source.value or b"")
    except UndecodableRecord as error:
        _log.warning("work record unreadable", topic=source.topic, offset=source.offset, reason=error.message)
        return None
    return work if work.run_id == run_id else None


def _still_kept(log: Log, place: TopicPartition, offsets: list[int]) -> list[int]:
    """The offsets that can be there, in order and each once: what retention has left of a topic as long as it is now.

    One that lies beyond the end speaks of a topic that was made anew; to wait for it would stop every round of ours.
    """
    try:
        low, end = log.low_watermark(place), log.high_watermark(place)
    except NotFound:
        return []
    return sorted({offset for offset in offsets if low <= offset < end})


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


def source_of(record: Record) -> SourceRecord:
    """The record, whole."""
    topic, partition, offset, _, key, value, headers = record
    return SourceRecord(topic, partition, offset, key, value, headers)
