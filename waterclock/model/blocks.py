"""Which instants a job's calendars block, in the zone of its schedule: sorted ranges, made some years at a time.

A day of a calendar is a local day; where it begins and ends in UTC the spans of the zone say (``zones.py``), so a day
of 23 or 25 hours is blocked whole, and in a fold around midnight just the local times of that date. Several calendars
block what any of them does.

What must hold: whatever asks gets the same answer on every node, for it depends on the compiled texts and the zone
alone. Bounds: ``blocks_of`` keeps ``_KEPT_MAX`` sets of calendars, each at most ``_CHUNKS_KEPT_MAX`` stretches of
about four years; a search gives up after ``SEARCH_YEARS``.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from .calendar import Calendar, Range, Side, calendar_from_text, joined_ranges
from .cron_walk import SEARCH_YEARS
from .ids import US_PER_S, Instant
from .zones import TIME_END, spans_from

_CHUNK_BITS = 27
"""A stretch is 2^27 seconds: about four years."""

_CHUNKS_KEPT_MAX = 16
_KEPT_MAX = 512
_DAY_MINUTES = 1_440
_SEARCH_CHUNKS = (SEARCH_YEARS * 366 * 86_400 >> _CHUNK_BITS) + 1


class Blocks:
    """What some calendars block in one zone. Instants are microseconds, UTC."""

    __slots__ = ("_calendars", "_chunks", "_zone")

    def __init__(self, calendars: Sequence[Calendar], zone: str) -> None:
        self._calendars = tuple(calendars)
        self._zone = zone
        self._chunks: dict[int, tuple[array[int], array[int]]] = {}

    def covers(self, at: Instant) -> bool:
        """Whether the instant is blocked."""
        second = at // US_PER_S
        starts, ends = self._chunk(second >> _CHUNK_BITS)
        place = bisect_right(starts, second) - 1
        return place >= 0 and second < ends[place]

    def free_from(self, at: Instant) -> Instant | None:
        """The first instant at or after ``at`` that is not blocked; None where there is none within SEARCH_YEARS."""
        second = at // US_PER_S
        number = second >> _CHUNK_BITS
        for each in range(number, number + _SEARCH_CHUNKS):
            starts, ends = self._chunk(each)
            place = bisect_right(starts, second) - 1
            if place < 0 or second >= ends[place]:
                return max(at, second * US_PER_S)
            second = ends[place]
            if second < (each + 1) << _CHUNK_BITS:
                return second * US_PER_S
        return None

    def blocked_from(self, at: Instant) -> Instant | None:
        """The start of the blocked range that ``at`` lies in, or of the stretch if that is later; None: it is free."""
        second = at // US_PER_S
        starts, ends = self._chunk(second >> _CHUNK_BITS)
        place = bisect_right(starts, second) - 1
        return starts[place] * US_PER_S if place >= 0 and second < ends[place] else None

    def between(self, after: Instant, until: Instant) -> Iterator[tuple[Instant, Instant]]:
        """The parts (start, end] of (after, until] that are blocked, as whole microseconds, in the order of time.

        A blocked range [a, b) of seconds is the instants (a - 1 us, b - 1 us].
        """
        first, last = (after + 1) // US_PER_S, until // US_PER_S
        held: tuple[Instant, Instant] | None = None
        for number in range(first >> _CHUNK_BITS, (last >> _CHUNK_BITS) + 1):
            starts, ends = self._chunk(number)
            for place in range(max(bisect_right(starts, first) - 1, 0), len(starts)):
                if starts[place] > last:
                    break
                start, end = max(starts[place] * US_PER_S - 1, after), min(ends[place] * US_PER_S - 1, until)
                if start >= end:
                    continue
                if held is not None and held[1] == start:  # one range, cut where two stretches meet
                    held = held[0], end
                    continue
                if held is not None:
                    yield held
                held = start, end
        if held is not None:
            yield held

    def _chunk(self, number: int) -> tuple[array[int], array[int]]:
        found = self._chunks.get(number)
        if found is None:
            if len(self._chunks) >= _CHUNKS_KEPT_MAX:
                self._chunks.clear()
            begin, end = number << _CHUNK_BITS, (number + 1) << _CHUNK_BITS
            blocked: list[Range] = []
            for calendar in self._calendars:
                blocked += _blocked(calendar, self._zone, begin, end)
            joined = joined_ranges(blocked)
            found = array("q", (start for start, _ in joined)), array("q", (end for _, end in joined))
            self._chunks[number] = found
        return found


@lru_cache(maxsize=_KEPT_MAX)
def blocks_of(compiled: tuple[str, ...], zone: str) -> Blocks:
    """What the calendars of these compiled texts block. Raises RequestError where one cannot be read."""
    return Blocks([_calendar(text) for text in compiled], zone)


_calendar = lru_cache(maxsize=_KEPT_MAX)(calendar_from_text)


def _blocked(calendar: Calendar, zone: str, begin: int, end: int) -> Iterable[Range]:
    """What a calendar blocks of the seconds [begin, end)."""
    blocked = _covered(calendar.exclude, zone, begin, end)
    if calendar.include.is_empty:
        return blocked
    return [*blocked, *_rest(_covered(calendar.include, zone, begin, end), begin, end)]


def _covered(side: Side, zone: str, begin: int, end: int) -> list[Range]:
    found = [each for each in side.ranges if each[0] < end and begin < each[1]]
    if side.weekdays or side.days:
        found += _days(side, zone, begin, end)
    return joined_ranges((max(start, begin), min(stop, end)) for start, stop in found)


def _days(side: Side, zone: str, begin: int, end: int) -> Iterator[Range]:
    """The local days of a side, span by span of constant offset: there local time is UTC and a number.

    Of whole minutes: a stretch begins and ends within one, so up to a minute more than was asked for.
    """
    first, last = max(begin // 60, 0), min(-(-end // 60), TIME_END)
    for minute, span in spans_from(zone, first, last):
        low, high = minute + span.offset, min(span.end, last) + span.offset
        day = low // _DAY_MINUTES
        mask = side.day_mask(day, (high - 1) // _DAY_MINUTES)
        while mask:
            free = (mask & -mask).bit_length() - 1
            mask >>= free
            length = (~mask & (mask + 1)).bit_length() - 1
            mask >>= length
            start = max((day + free) * _DAY_MINUTES, low)
            day += free + length
            yield (start - span.offset) * 60, (min(day * _DAY_MINUTES, high) - span.offset) * 60


def _rest(ranges: Iterable[Range], begin: int, end: int) -> Iterator[Range]:
    """What of [begin, end) lies in none of the ranges, which rise."""
    at = begin
    for start, stop in ranges:
        if at < start:
            yield at, start
        at = stop
    if at < end:
        yield at, end
