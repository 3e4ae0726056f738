"""Reading a stretch of a partition to its end: state topics, leases, doubtful rounds, dumps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from waterclock.model.errors import BackendDown

from .port import Isolation, Log, Record, TopicPartition

_BATCH = 1_000
_WAIT_S = 0.1
_IDLE_POLLS = 100
_ALONE_POLLS = 5

PART = 20_000
"""Records between two looks at the time: some tenths of a second."""


def read_range(
    log: Log,
    isolation: Isolation,
    partition: TopicPartition,
    start: int,
    end: int,
    *,
    idle_polls: int = _IDLE_POLLS,
    headers: bool = False,
) -> Iterator[Record]:
    """The records of ``partition`` in [start, end), in order.

    Never waits for ``offset == end - 1``: markers, aborted records and compaction leave gaps, so it reads until the
    position has reached ``end``. Bounded: after ``idle_polls`` polls of 0.1 s that bring nothing it raises BackendDown
    (with ``Isolation.COMMITTED`` somebody's open transaction may hold the end back).
    """
    if start >= end:
        return
    reader = log.reader(isolation, headers=headers)
    try:
        reader.assign({partition: start})
        idle = 0
        while reader.position(partition) < end:
            records = reader.poll(_BATCH, _WAIT_S)
            idle = 0 if records else idle + 1
            if idle > idle_polls:
                raise BackendDown("kafka", f"{partition.topic}[{partition.partition}] stopped before offset {end}")
            for record in records:
                if record.offset < end:
                    yield record
    finally:
        reader.close()


def is_one_committed(log: Log, records: Mapping[TopicPartition, int]) -> bool:
    """Whether a transaction that has ended was committed: ``records`` are some of its own, one of each partition.

    The first is asked for alone, as it nearly always tells at once; behind somebody's open transaction it does not, and
    then all are asked for together, and the first answer counts. False is as safe of any of them: its partition ends
    before the record, or a reader of committed records was brought past it. Bounded as ``read_range`` is; raises
    BackendDown.
    """
    first = dict(list(records.items())[:1])
    for asked, polls in ((first, _ALONE_POLLS), (records, _IDLE_POLLS - _ALONE_POLLS)):
        told = _told_of(log, asked, polls)
        if told is not None:
            return told
    places = ", ".join(f"{place.topic}[{place.partition}]" for place in records)
    raise BackendDown("kafka", f"stopped before the records of a round: {places}")


def _told_of(log: Log, records: Mapping[TopicPartition, int], polls: int) -> bool | None:
    """None: no partition tells within so many polls."""
    wanted = {place: offset for place, offset in records.items() if offset < log.high_watermark(place)}
    if not wanted:
        return False
    reader = log.reader(Isolation.COMMITTED)
    try:
        reader.assign(wanted)
        for _ in range(polls):
            for record in reader.poll(_BATCH, _WAIT_S):
                if wanted[TopicPartition(record.topic, record.partition)] == record.offset:
                    return True
            if any(reader.position(place) > offset for place, offset in wanted.items()):
                return False
    finally:
        reader.close()
    return None


def newest_by_key(log: Log, partition: TopicPartition) -> dict[str, bytes]:
    """What a compacted topic says, as ``gather_newest`` does, all at once."""
    found: dict[str, bytes] = {}
    for _ in gather_newest(log, partition, found):
        pass
    return found


def gather_newest(log: Log, partition: TopicPartition, found: dict[str, bytes]) -> Iterator[None]:
    """What a compacted topic says: by key its newest value, in the order in which these were written.

    To the high watermark as of now. Compaction comes late, and never to the newest segment: most of what is read says
    what is not so any more, so whoever calls decodes what is left. It comes into ``found``, ``PART`` records at a time.
    Raises BackendDown, as ``read_range`` does.
    """
    low, end = log.low_watermark(partition), log.high_watermark(partition)
    for number, record in enumerate(read_range(log, Isolation.COMMITTED, partition, low, end), 1):
        if number % PART == 0:
            yield
        key = (record.key or b"").decode(errors="replace")
        found.pop(key, None)  # what is written anew stands behind what is not
        if record.value is not None:
            found[key] = record.value
