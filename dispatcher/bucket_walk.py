"""A walk over many buckets of the time index, in the order of time: what a gap holds is read by it.

Most buckets of a long absence are empty, and some are very full. So a step takes more of them the fewer rows the last
one brought, and is bounded both ways. Reading and going on are apart: what failed in between is done again.
"""

from __future__ import annotations

from collections.abc import Sequence

from waterclock.model.ids import US_PER_MINUTE, Instant, minute_of
from waterclock.store.port import DueRow, TimeIndex

BUCKETS_MAX = 1_024
"""Of one step: about 0.15 s where all are empty."""

BUCKETS_MIN = 8

_MANY_ROWS = 400
_FEW_ROWS = 100


class BucketWalk:
    """Over the buckets of ``slots``, from the minute of ``from_at`` up to that of ``until_at``, included."""

    def __init__(self, slots: Sequence[int], from_at: Instant, until_at: Instant) -> None:
        self._slots = slots
        self._minute = minute_of(from_at)
        self._end = minute_of(until_at) + 1
        self._taken = 0
        self._buckets = BUCKETS_MIN

    @property
    def is_over(self) -> bool:
        return self._minute >= self._end

    @property
    def horizon_at(self) -> Instant:
        """All rows before it have been read."""
        return self._minute * US_PER_MINUTE

    def read(self, index: TimeIndex) -> list[DueRow]:
        """The rows of the next buckets; it stays where it is until ``go_on``. Raises BackendDown."""
        return index.load_due(self._slots[self._taken : self._taken + self._buckets], self._minute, self._minutes)

    def go_on(self, row_count: int) -> None:
        """Past what was read, which were so many rows."""
        minutes = self._minutes
        self._taken += self._buckets
        if self._taken >= len(self._slots):
            self._minute, self._taken = self._minute + minutes, 0
        if row_count > _MANY_ROWS:
            self._buckets = BUCKETS_MIN
        elif row_count < _FEW_ROWS:
            self._buckets = min(2 * self._buckets, BUCKETS_MAX)

    @property
    def _minutes(self) -> int:
        """How many minutes the next step takes: only of whole ones more than one."""
        whole = self._buckets // len(self._slots) if self._taken == 0 else 1
        return max(1, min(whole, self._end - self._minute))
