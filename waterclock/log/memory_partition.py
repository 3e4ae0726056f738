"""One partition kept in memory: what a broker stores, and what each kind of reader may see of it.

Why: everything that the simulation and the fast tests believe about Kafka's storage is in this file. Must hold:
an offset is given once; a marker takes an offset in every partition that a transaction touched; readers of committed
records stop at the last stable offset (LSO), the first offset of the oldest open transaction, whoever wrote what lies
behind it; aborted records, markers and compaction leave gaps. Record times have Kafka's resolution, a millisecond, and
may go back from one offset to the next: they are their writers'.
Fails only by a bug of the caller: there is no I/O here and no clock.
"""

from __future__ import annotations

from bisect import bisect_left
from enum import Enum
from operator import attrgetter
from typing import NamedTuple

from waterclock.model.ids import Instant

from .port import Headers, Isolation

_offset = attrgetter("offset")


class Outcome(Enum):
    """How the part of a transaction that lies in one partition stands."""

    OPEN = "open"
    COMMITTED = "committed"
    ABORTED = "aborted"


class Span:
    """The records of one transaction in one partition, up to its marker."""

    __slots__ = ("first", "outcome")

    def __init__(self, first: int) -> None:
        self.first = first
        self.outcome = Outcome.OPEN


class Entry(NamedTuple):
    """What lies at one offset. ``span`` is None for a record outside any transaction.

    ``appended_us``: when the broker took it, by its own clock. No client is shown that; judges want it.
    """

    offset: int
    timestamp_us: Instant
    appended_us: Instant
    key: bytes | None
    value: bytes | None
    headers: Headers
    span: Span | None
    is_marker: bool


class Partition:
    """An ordered list of entries with its low watermark, high watermark and open transactions."""

    def __init__(self) -> None:
        self._entries: list[Entry] = []
        self._open: list[Span] = []
        self.low = 0
        self.high = 0

    @property
    def lso(self) -> int:
        """The last stable offset: where readers of committed records stop."""
        return self._open[0].first if self._open else self.high

    def append(
        self,
        at: Instant,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
        span: Span | None,
        stamp: Instant | None = None,
    ) -> int:
        """Store one record that comes at ``at`` and bears this stamp, or that time; returns its offset."""
        stamp_us = _in_ms(at if stamp is None else stamp)
        return self._store(Entry(self.high, stamp_us, _in_ms(at), key, value, headers, span, is_marker=False))

    def open_span(self) -> Span:
        """Begin a transaction's part here: from now on the LSO stands still until ``end``."""
        span = Span(self.high)
        self._open.append(span)
        return span

    def end(self, span: Span, at: Instant, *, commit: bool) -> None:
        """Write the marker of ``span``; what it decides shows at once, in this partition alone."""
        self._store(Entry(self.high, _in_ms(at), _in_ms(at), None, None, (), span, is_marker=True))
        span.outcome = Outcome.COMMITTED if commit else Outcome.ABORTED
        self._open.remove(span)

    def read(self, start: int, isolation: Isolation, limit: int) -> tuple[list[Entry], int]:
        """Up to ``limit`` visible records from ``start`` on, and the position behind them (past gaps and markers)."""
        committed = isolation is Isolation.COMMITTED
        end = self.lso if committed else self.high
        found: list[Entry] = []
        for index in range(bisect_left(self._entries, start, key=_offset), len(self._entries)):
            entry = self._entries[index]
            if entry.offset >= end:
                break
            if len(found) >= limit:
                return found, entry.offset
            if not entry.is_marker and not (committed and _aborted(entry)):
                found.append(entry)
        return found, max(start, end)

    def offset_at(self, at: Instant) -> int:
        """The first offset whose record time is at or after ``at``; the high watermark where there is none."""
        return next((entry.offset for entry in self._entries if entry.timestamp_us >= at), self.high)

    def compact(self) -> None:
        """Keep the newest version of each key below the LSO; drop aborted records and markers there.

        The newest entry stays, as in Kafka, whose active segment is never cleaned. Tombstones stay too.
        """
        clean_to = min(self.lso, self.high - 1)
        newest: dict[bytes | None, int] = {}
        for entry in self._entries:
            if entry.offset < clean_to and not entry.is_marker and not _aborted(entry):
                newest[entry.key] = entry.offset
        kept = frozenset(newest.values())
        self._entries = [entry for entry in self._entries if entry.offset >= clean_to or entry.offset in kept]

    def delete_before(self, offset: int) -> None:
        """Retention: forget everything below ``offset``."""
        self.low = max(self.low, min(offset, self.high))
        self._entries = self._entries[bisect_left(self._entries, self.low, key=_offset) :]

    def _store(self, entry: Entry) -> int:
        self._entries.append(entry)
        self.high = entry.offset + 1
        return entry.offset


def _in_ms(at: Instant) -> Instant:
    return at // 1_000 * 1_000


def _aborted(entry: Entry) -> bool:
    return entry.span is not None and entry.span.outcome is Outcome.ABORTED
