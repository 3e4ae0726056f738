"""Reading a stretch of a partition to its end: state topics, leases, doubtful rounds, dumps."""

from __future__ import annotations

from collections.abc import Iterator

from waterclock.model.errors import BackendDown

from .port import Isolation, Log, Record, TopicPartition

_BATCH = 1_000
_WAIT_S = 0.1

PART = 20_000
"""Records between two looks at the time: some tenths of a second."""


def read_range(
    log: Log,
    isolation: Isolation,
    partition: TopicPartition,
    start: int,
    end: int,
    *,
    idle_polls: int = 100,
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
