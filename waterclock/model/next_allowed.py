"""Where a fire on a blocked time goes: the same local time on the next day that allows it (time.md §9). Pure.

Within ``DAYS_MAX`` days and before the job's end; else nowhere. A local time that comes twice on that day means the
first, one that does not exist the end of the gap; a day that a zone leaves out is passed over.

What must hold: many blocked fires cost little more than one. Of all that have one local time the newest is asked
first, and each older one looks no further than to the one behind it: so each day is looked at once for each local time,
whatever the calendars are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from .blocks import Blocks
from .ids import US_PER_MINUTE, Instant
from .zones import Span, span_at, spans_from

DAYS_MAX = 366
"""How far a fire is moved at most."""

_DAY = 1_440
_AROUND = 26 * 60
"""Minutes: no zone is farther from UTC."""
_CALENDAR_CORRECTION = 180


class NextAllowed:
    """The days on which the fires of blocked times come, in one zone, for jobs that end at one instant."""

    __slots__ = ("_blocks", "_until_at", "_zone")

    def __init__(self, blocks: Blocks, zone: str, until_at: Instant) -> None:
        self._blocks = blocks
        self._zone = zone
        self._until_at = until_at

    def reach(self, at: Instant) -> Instant:
        """Nothing that is blocked before this instant is moved to ``at`` or beyond: a wholly free day lies between.

        At most a few days more than ``DAYS_MAX`` before ``at``.
        """
        day = self._local(max(at, 0) // US_PER_MINUTE) // _DAY
        first = day
        while first > max(day - DAYS_MAX - 1, 0) and not self._is_free(first - 1):
            first -= 1
        return (first * _DAY - _AROUND) * US_PER_MINUTE

    def targets(self, fires: Iterable[Instant]) -> Iterator[tuple[Instant, Instant | None]]:
        """(fire, where it goes) for blocked fires, in no order; None where nowhere allows it."""
        by_time: dict[tuple[int, int], list[tuple[int, Instant]]] = {}
        for fire in fires:
            minute, rest = divmod(fire, US_PER_MINUTE)
            local = self._local(minute)
            by_time.setdefault((local % _DAY, rest), []).append((local, fire))
        for (_, rest), found in by_time.items():
            yield from self._of_one_time(sorted(found, reverse=True), rest)

    def _of_one_time(self, fires: Iterable[tuple[int, Instant]], rest: int) -> Iterator[tuple[Instant, Instant | None]]:
        """Of the fires at one local time, newest first: (local minute, instant)."""
        free: tuple[int, Instant] | None = None
        looked_from: int | None = None
        for local, fire in fires:
            end = local + (DAYS_MAX + 1) * _DAY
            free = self._first_free(local + _DAY, end if looked_from is None else min(looked_from, end), rest) or free
            looked_from = local + _DAY
            is_near = free is not None and free[0] < end and free[1] < self._until_at
            yield fire, free[1] if free is not None and is_near else None

    def _first_free(self, local: int, end: int, rest: int) -> tuple[int, Instant] | None:
        """The first of the local minutes ``local``, a day later, ... before ``end`` that is free, and its instant."""
        while local < end:
            at = self._at_local(local, rest)
            if at is None:
                local += _DAY
                continue
            free_at = self._blocks.free_from(at)
            if free_at is None:
                return None
            if free_at == at:
                return local, at
            # No local time from here to the end of the blocked range is free.
            local += max((self._local(free_at // US_PER_MINUTE) - local) // _DAY, 1) * _DAY
        return None

    def _is_free(self, day: int) -> bool:
        """Whether each time of a local day exists and none is blocked; a few hours around it may be asked for, too."""
        spans = [span for _, span in self._spans_around(day * _DAY + _DAY // 2)]
        for span in spans:
            begin, end = span.start + span.before, span.start + span.offset
            if end - begin >= _CALENDAR_CORRECTION and begin < (day + 1) * _DAY and day * _DAY < end:
                return False
        offsets = [span.offset for span in spans]
        start = (day * _DAY - max(offsets)) * US_PER_MINUTE - 1
        stop = ((day + 1) * _DAY - min(offsets)) * US_PER_MINUTE - 1
        return next(self._blocks.between(start, stop), None) is None

    def _at_local(self, local: int, rest: int) -> Instant | None:
        """The instant of a local minute and what is left of it; None where the zone leaves that day out."""
        spans = [span for _, span in self._spans_around(local)]
        for span in spans:
            if span.start <= local - span.offset < span.end:
                return (local - span.offset) * US_PER_MINUTE + rest
        for span in spans:
            if span.start + span.before <= local < span.start + span.offset:
                is_kept = span.offset - span.before < _CALENDAR_CORRECTION
                return span.start * US_PER_MINUTE if is_kept else None
        return None

    def _local(self, minute: int) -> int:
        return minute + span_at(self._zone, minute).offset

    def _spans_around(self, local: int) -> Iterator[tuple[int, Span]]:
        return spans_from(self._zone, max(local - _AROUND, 0), local + _AROUND)
