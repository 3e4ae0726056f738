"""The fires of a job whose calendars move them: on_calendar ``next_allowed`` (time.md §9). Pure.

A fire of the schedule on a blocked time is moved to the same local time on the next day that allows it, at most
``DAYS_MAX`` days later and before the job's end; what cannot be moved stays where it is, and is SKIPPED(calendar). A
local time that comes twice on that day means the first, one that does not exist the end of the gap; a day that a
zone leaves out is passed over. Where a fire is there already the two are one.

So the job's fires are again a set of instants that depends on its version alone, and the functions here answer for it
what ``schedule.py`` does for the schedule. Bounds: a schedule with more than ``FIRES_OF_YEAR_MAX`` fires a year is
refused at the door, for as many may have to be moved to find one.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from . import schedule as nominal
from .blocks import Blocks, blocks_of
from .ids import US_PER_MINUTE, Instant
from .job import Cron, Schedule
from .timing import Timing
from .zones import Span, span_at, spans_from

DAYS_MAX = 366
"""How far a fire is moved at most."""

FIRES_OF_YEAR_MAX = 366 * 24
"""An hourly schedule has as many."""

_DAY = 1_440
_NOON = 720
_AROUND = 26 * 60
"""Minutes: no zone is farther from UTC."""
_CALENDAR_CORRECTION = 180
_MEMO_MAX = 256
_FAR: Instant = 2**62


def zone_of(schedule: Schedule) -> str:
    """The zone whose days a calendar's days are: a cron's own, else UTC."""
    return schedule.zone if isinstance(schedule, Cron) else "UTC"


class Moving:
    """The fires of one schedule under one timing. Shared by all jobs that mean the same."""

    __slots__ = ("_anchor_at", "_blocks", "_from_at", "_memo", "_schedule", "_until_at", "_zone")

    def __init__(self, schedule: Schedule, anchor_at: Instant, timing: Timing) -> None:
        self._schedule = schedule
        self._anchor_at = anchor_at
        self._zone = zone_of(schedule)
        self._blocks: Blocks = blocks_of(timing.compiled, self._zone)
        self._from_at = timing.from_at
        self._until_at = timing.until_at or _FAR
        self._memo: dict[Instant, Instant | None] = {}

    def next(self, after: Instant) -> Instant | None:
        """The first fire strictly after ``after``, or None."""
        if after not in self._memo:
            if len(self._memo) >= _MEMO_MAX:
                self._memo.clear()
            self._memo[after] = self._next(after)
        return self._memo[after]

    def last(self, after: Instant, until: Instant) -> Instant | None:
        """The newest fire in (after, until], or None."""
        best: Instant | None = None
        floor, at = after, until
        while (fire := self._nominal_last(after, at)) is not None:
            moved = self.target(fire)
            moved = fire if moved is None else moved  # what cannot be moved stays where it is
            if moved <= until:
                best = max(best or moved, moved)
            if moved == fire:
                floor = fire
                break
            at = fire - 1
        for fire in self._pending(floor):
            moved = self.target(fire)
            if moved is not None and after < moved <= until:
                best = max(best or moved, moved)
        return best

    def count(self, after: Instant, until: Instant) -> int:
        """How many fires lie in (after, until]. What is not blocked is counted by arithmetic."""
        total = self._nominal_count(after, until)
        moved_to: set[Instant] = set()
        sources = list(self._pending(after))
        for begin, end in self._blocks.between(after, until):
            sources += self._within(begin, end)
        for fire in sources:
            moved = self.target(fire)
            if moved is None:
                continue
            total -= after < fire
            if after < moved <= until and self._nominal_last(moved - 1, moved) is None:
                moved_to.add(moved)
        return total + len(moved_to)

    def sources(self, fire_at: Instant) -> list[Instant]:
        """The blocked fires of the schedule that are moved to ``fire_at``, in the order of time."""
        return sorted(fire for fire in self._pending(fire_at) if fire < fire_at and self.target(fire) == fire_at)

    def target(self, fire_at: Instant) -> Instant | None:
        """Where a fire of the schedule goes: itself where nothing blocks it, None where nowhere allows it."""
        if not self._blocks.covers(fire_at):
            return fire_at
        minute, rest = divmod(fire_at, US_PER_MINUTE)
        local = minute + span_at(self._zone, minute).offset
        days = 1
        while days <= DAYS_MAX:
            at = self._at_local(local + days * _DAY, rest)
            free_at = at if at is None else self._blocks.free_from(at)
            if at is not None and free_at == at:
                return at if at < self._until_at else None
            days += 1
            if at is not None:
                if free_at is None:
                    return None
                free_minute = free_at // US_PER_MINUTE
                # No local time from here to the end of the blocked range is free.
                days = max(days, (free_minute + span_at(self._zone, free_minute).offset - local) // _DAY)
        return None

    def _next(self, after: Instant) -> Instant | None:
        best: Instant | None = None
        for fire in self._pending(after):
            moved = self.target(fire)
            if moved is not None and moved > after and (best is None or moved < best):
                best = moved
        at = after
        while (fire_at := self._nominal_next(at)) is not None and (best is None or fire_at < best):
            moved = self.target(fire_at)
            if moved is None or moved == fire_at:
                return fire_at
            best = moved if best is None else min(best, moved)
            at = fire_at
        return best

    def _pending(self, at: Instant) -> Iterator[Instant]:
        """The blocked fires of the schedule up to ``at`` that may be moved beyond it: back to a wholly free day.

        Ends: as far back as a fire is moved at most.
        """
        minute = max(at // US_PER_MINUTE, 0)
        day = (minute + span_at(self._zone, minute).offset) // _DAY
        first = day
        while first > day - DAYS_MAX - 1 and not self._is_free(first - 1):
            first -= 1
        begin = (first * _DAY - _AROUND) * US_PER_MINUTE
        for start, end in self._blocks.between(begin, at):
            yield from self._within(start, end)

    def _is_free(self, day: int) -> bool:
        """Whether a local day exists and nothing of it is blocked; a few hours around it may be asked for, too."""
        noon = day * _DAY + _NOON
        if next(self._minutes_at(noon), None) is None:
            return False
        offsets = [span.offset for _, span in self._spans_around(noon)]
        begin = (day * _DAY - max(offsets)) * US_PER_MINUTE - 1
        end = ((day + 1) * _DAY - min(offsets)) * US_PER_MINUTE - 1
        return next(self._blocks.between(begin, end), None) is None

    def _within(self, after: Instant, until: Instant) -> Iterator[Instant]:
        """The fires of the schedule in (after, until]."""
        while (fire := self._nominal_next(after)) is not None and fire <= until:
            yield fire
            after = fire

    def _at_local(self, local: int, rest: int) -> Instant | None:
        """The instant of a local minute and what is left of it; None where the zone leaves that day out."""
        minute = next(self._minutes_at(local), None)
        if minute is not None:
            return minute * US_PER_MINUTE + rest
        for _, span in self._spans_around(local):
            if span.start + span.before <= local < span.start + span.offset:
                is_kept = span.offset - span.before < _CALENDAR_CORRECTION
                return span.start * US_PER_MINUTE if is_kept else None
        return None

    def _minutes_at(self, local: int) -> Iterator[int]:
        """The UTC minutes with this local time: none, one, or two."""
        for _, span in self._spans_around(local):
            if span.start <= local - span.offset < span.end:
                yield local - span.offset

    def _spans_around(self, local: int) -> Iterator[tuple[int, Span]]:
        return spans_from(self._zone, max(local - _AROUND, 0), local + _AROUND)

    def _nominal_next(self, after: Instant) -> Instant | None:
        found = nominal.next_fire(self._schedule, self._anchor_at, max(after, self._from_at - 1))
        return found if found is not None and found < self._until_at else None

    def _nominal_last(self, after: Instant, until: Instant) -> Instant | None:
        after, until = max(after, self._from_at - 1), min(until, self._until_at - 1)
        return nominal.last_fire(self._schedule, self._anchor_at, after, until) if after < until else None

    def _nominal_count(self, after: Instant, until: Instant) -> int:
        after, until = max(after, self._from_at - 1), min(until, self._until_at - 1)
        return nominal.count_fires(self._schedule, self._anchor_at, after, until) if after < until else 0


@lru_cache(maxsize=2_048)
def moving(schedule: Schedule, anchor_at: Instant, timing: Timing) -> Moving:
    """The fires of this schedule as this timing's calendars move them. Raises as the schedule's own functions do."""
    return Moving(schedule, anchor_at, timing)
