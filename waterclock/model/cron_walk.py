"""When a compiled cron schedule fires: a walk over spans of constant UTC offset, with bit masks inside a span.

Inside a span local time is an integer line, so the work is: shift the line, look into the masks, shift back. At a
span's start local time jumps: a *gap* (nominal times that do not exist) or a *fold* (times that come twice). Minutes
are walked; a second mask picks inside the matching minute.

What must hold: fires are strictly rising, ``next`` misses none, and ``last`` and ``count`` agree with ``next`` (they
count by masks: a year of a per-second schedule is no loop). Brute force judges (``tests/oracle``).
Bounds: a search gives up after SEARCH_YEARS, in the year 9765 at the latest, and answers None.
"""

from __future__ import annotations

from typing import NamedTuple

from .cron_days import Days
from .ids import US_PER_MINUTE, US_PER_S, Instant
from .zones import TIME_END, Span, span_at, spans_back, spans_from

_DAY = 1_440
_YEAR = 366 * _DAY

SEARCH_YEARS = 41
"""How far ``next`` looks. Leap-day weekdays (``0 0 * 2 1#5``) recur after 28 years, after 40 across 2100."""

CALENDAR_CORRECTION = 180
"""A gap of so many minutes or more (Casey, Apia) is a change of calendar: nothing is moved to its end."""

_MEMO_MAX = 16
"""Of each walk, about 100 bytes each. A herd asks for one minute, who goes round the jobs for a new one each time: for
every one of the 16,384 expressions that are kept, day and night."""


class GapTimes(NamedTuple):
    """Nominal times that do not exist: the first and the last as seconds on the local line, and how many.

    ``served``: they are, by one fire at the end of the gap.
    """

    first: int
    last: int
    times: int
    served: bool


class CronWalk:
    """One set of masks in one zone under one pair of rules. Shared by all jobs that mean the same.

    ``minutes``: bits 0..1439 of the local day; ``seconds``: bits 0..59; ``shift``: a gap's nominal times fire once at
    its end; ``first_only``: of a time that comes twice only the first fires. Instants are microseconds, UTC; there are
    no fires before 1970.
    """

    __slots__ = ("_days", "_first_minute", "_first_only", "_memo", "_minutes", "_seconds", "_shift", "_zone")

    def __init__(self, minutes: int, seconds: int, days: Days, zone: str, *, shift: bool, first_only: bool) -> None:
        assert minutes > 0
        assert seconds > 0
        self._minutes = minutes
        self._seconds = seconds
        self._days = days
        self._zone = zone
        self._shift = shift
        self._first_only = first_only
        self._first_minute = _lowest(minutes)
        self._memo: dict[int, int | None] = {}

    def next(self, after: Instant) -> Instant | None:
        """The first fire strictly after ``after``; None where there is none within SEARCH_YEARS."""
        minute, second = divmod(max(after // US_PER_S + 1, 0), 60)
        if not self._seconds >> second:
            minute, second = minute + 1, 0
        found = self._minute_from(minute)
        if found is not None and found == minute and not self._seconds_at(found) >> second:
            # Only a moved fire stands in this minute, at its second 0, and that is over.
            found = self._minute_from(minute + 1)
        if found is None:
            return None
        skip = second if found == minute else 0
        return found * US_PER_MINUTE + (skip + _lowest(self._seconds_at(found) >> skip)) * US_PER_S

    def fires_within(self, after: Instant, years: int) -> bool:
        """Whether a fire comes within so many years (a few months more do not matter), at little cost if none does."""
        minute = after // US_PER_MINUTE
        return self._search(minute, minute + years * _YEAR) is not None

    def last(self, after: Instant, until: Instant) -> Instant | None:
        """The newest fire in (after, until], or None."""
        minute, second = divmod(until // US_PER_S, 60)
        floor = max(after // US_PER_MINUTE, 0)
        found = self._minute_upto(minute, floor)
        mask = 0
        if found is not None:
            mask = self._seconds_at(found)
            if found == minute:
                mask &= (2 << second) - 1
                if not mask:
                    found = self._minute_upto(minute - 1, floor)
                    mask = 0 if found is None else self._seconds_at(found)
        if found is None:
            return None
        at = found * US_PER_MINUTE + (mask.bit_length() - 1) * US_PER_S
        return at if at > after else None

    def count(self, after: Instant, until: Instant) -> int:
        """How many fires lie in (after, until]. Cost grows with the months and transitions between, not the fires."""
        begin, end = max(after // US_PER_S + 1, 0), min(until // US_PER_S + 1, TIME_END * 60)
        if begin >= end:
            return 0
        first, head = divmod(begin, 60)
        last, tail = divmod(end, 60)
        if first == last:
            return (self._fires_at(first) >> head & (1 << tail - head) - 1).bit_count()
        total = (self._fires_at(first) >> head).bit_count()
        if tail:
            total += (self._fires_at(last) & (1 << tail) - 1).bit_count()
        return total + self._count_minutes(first + 1, last)

    def in_gap(self, span: Span) -> GapTimes | None:
        """What the schedule names inside the gap in local time at the span's start, or None."""
        begin, end = span.start + span.before, span.start + span.offset
        first, last = self._first_in(begin, end), self._last_in(begin, end)
        if first is None or last is None:
            return None
        times = self._count_in(begin, end) * self._seconds.bit_count()
        newest = last * 60 + self._seconds.bit_length() - 1
        return GapTimes(first * 60 + _lowest(self._seconds), newest, times, self._moves_to_start(span))

    def _minute_from(self, minute: int) -> int | None:
        """The first UTC minute at or after ``minute`` with a fire in it. A herd asks for one minute again and again."""
        try:
            return self._memo[minute]
        except KeyError:
            if len(self._memo) >= _MEMO_MAX:
                self._memo.clear()
            found = self._memo[minute] = self._search(minute, minute + SEARCH_YEARS * _YEAR)
            return found

    def _search(self, minute: int, end: int) -> int | None:
        """The first UTC minute with a fire in [minute, about end): a span that begins before ``end`` is seen whole."""
        for at, span in spans_from(self._zone, minute, end):
            if at == span.start and self._moves_to_start(span):
                return at
            found = self._first_in(self._real_from(span, at), span.end + span.offset)
            if found is not None:
                return found - span.offset
        return None

    def _minute_upto(self, minute: int, floor: int) -> int | None:
        """The last UTC minute in [floor, minute] with a fire in it."""
        for at, span in spans_back(self._zone, minute, floor):
            begin = max(span.start, floor)
            found = self._last_in(self._real_from(span, begin), at + 1 + span.offset)
            if found is not None:
                return found - span.offset
            if begin == span.start and self._moves_to_start(span):
                return begin
        return None

    def _count_minutes(self, minute: int, end: int) -> int:
        """Fires in the UTC minutes [minute, end)."""
        real = moved = 0
        for at, span in spans_from(self._zone, minute, end):
            begin, stop = self._real_from(span, at), min(span.end, end) + span.offset
            real += self._count_in(begin, stop)
            if at == span.start and self._moves_to_start(span):
                merged = self._seconds & 1 and self._first_in(begin, begin + 1) is not None
                moved += 0 if merged else 1
        return real * self._seconds.bit_count() + moved

    def _seconds_at(self, minute: int) -> int:
        """The seconds, as bits, of a UTC minute that is known to have a fire."""
        return 1 if self._seconds == 1 else self._fires_at(minute)

    def _fires_at(self, minute: int) -> int:
        """The seconds, as bits, at which any UTC minute fires."""
        span = span_at(self._zone, minute)
        begin = self._real_from(span, minute)
        real = begin == minute + span.offset and self._first_in(begin, begin + 1) is not None
        moved = minute == span.start and self._moves_to_start(span)
        return (self._seconds if real else 0) | moved

    def _real_from(self, span: Span, minute: int) -> int:
        """The local minute of ``minute``, past the stretch that comes a second time where the first alone counts."""
        local = minute + span.offset
        if self._first_only and span.offset < span.before:
            return max(local, span.start + span.before)
        return local

    def _moves_to_start(self, span: Span) -> bool:
        """Whether nominal times inside the gap at the span's start are served there."""
        return (
            self._shift
            and 0 < span.offset - span.before < CALENDAR_CORRECTION
            and self._first_in(span.start + span.before, span.start + span.offset) is not None
        )

    def _first_in(self, begin: int, end: int) -> int | None:
        """The first matching local minute in [begin, end)."""
        if begin >= end:
            return None
        day, minute = divmod(begin, _DAY)
        last_day = (end - 1) // _DAY
        found = self._days.first_from(day, last_day)
        if found == day:
            rest = self._minutes >> minute
            if rest:
                at = begin + _lowest(rest)
                return at if at < end else None
            found = self._days.first_from(day + 1, last_day)
        if found is None:
            return None
        at = found * _DAY + self._first_minute
        return at if at < end else None

    def _last_in(self, begin: int, end: int) -> int | None:
        """The last matching local minute in [begin, end)."""
        if begin >= end:
            return None
        day, minute = divmod(end - 1, _DAY)
        first_day = begin // _DAY
        found = self._days.last_upto(day, first_day)
        mask = self._minutes
        if found == day:
            mask &= (2 << minute) - 1
            if not mask:
                found, mask = self._days.last_upto(day - 1, first_day), self._minutes
        if found is None:
            return None
        at = found * _DAY + mask.bit_length() - 1
        return at if at >= begin else None

    def _count_in(self, begin: int, end: int) -> int:
        """How many local minutes in [begin, end) match."""
        if begin >= end:
            return 0
        day, minute = divmod(begin, _DAY)
        last_day, stop = divmod(end, _DAY)
        total = self._days.count(day, last_day) * self._minutes.bit_count()
        if self._days.matches(day):
            total -= (self._minutes & (1 << minute) - 1).bit_count()
        if stop and self._days.matches(last_day):
            total += (self._minutes & (1 << stop) - 1).bit_count()
        return total


def _lowest(mask: int) -> int:
    """The number of the lowest bit that is set."""
    return (mask & -mask).bit_length() - 1
