"""When the broker committed what stands in a partition, as its own log says: by the time stamps of the markers.

Read from the segments on disk, headers alone: the data batches of a transaction name their producer, and what ends it
in a partition is a control batch of the same producer (KIP-98; the layout of a batch: Kafka's documentation, 5.3). So
nobody has to read beside a system that is being measured. Milliseconds, by the broker's clock. Readers get a record
later: once every older transaction of its partition has ended too. Must hold: it is the only broker, it rests, and no
segment has been deleted.
"""

from __future__ import annotations

import bisect
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_HEADER = struct.Struct(">qiibIhiqqqhii")
_LENGTH_FROM = 12
_IN_TRANSACTION, _IS_CONTROL = 0x10, 0x20
_COMMIT = 1
_TYPE_AT = _HEADER.size + 7
"""Of a control batch: its one record begins with five numbers of a byte each, then the key: version and type."""


class _Batch(NamedTuple):
    first: int
    last: int
    attributes: int
    at_ms: int
    producer: int
    is_commit: bool


class CommitTimes:
    """Of one partition, whose segments lie in ``folder``."""

    def __init__(self, folder: Path) -> None:
        self._first: list[int] = []
        self._until: list[tuple[int, int]] = []
        pending: dict[int, list[_Batch]] = {}
        found: list[tuple[int, int, int]] = []
        for segment in sorted(folder.glob("*.log")):
            for batch in _batches(segment.read_bytes()):
                if batch.attributes & _IS_CONTROL:
                    ended = pending.pop(batch.producer, [])
                    found += [(each.first, each.last, batch.at_ms) for each in ended if batch.is_commit]
                elif batch.attributes & _IN_TRANSACTION:
                    pending.setdefault(batch.producer, []).append(batch)
                else:
                    found.append((batch.first, batch.last, batch.at_ms))
        for first, last, at_ms in sorted(found):
            self._first.append(first)
            self._until.append((last, at_ms))

    def at_s(self, offset: int) -> float:
        """Seconds since the epoch. Raises KeyError where nothing of that offset was committed."""
        place = bisect.bisect_right(self._first, offset) - 1
        if place < 0 or self._until[place][0] < offset:
            raise KeyError(offset)
        return self._until[place][1] / 1_000


def _batches(segment: bytes) -> Iterator[_Batch]:
    at = 0
    while at + _HEADER.size <= len(segment):
        first, length, _, magic, _, attributes, last, _, at_ms, producer, _, _, _ = _HEADER.unpack_from(segment, at)
        if at + _LENGTH_FROM + length > len(segment):
            return  # it is still being written
        if magic != 2:
            raise RuntimeError(f"a batch of format {magic} at byte {at}")
        is_control = bool(attributes & _IS_CONTROL)
        is_commit = is_control and struct.unpack_from(">h", segment, at + _TYPE_AT)[0] == _COMMIT
        yield _Batch(first, first + last, attributes, at_ms, producer, is_commit)
        at += _LENGTH_FROM + length
