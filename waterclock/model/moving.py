"""The fires of a job whose calendars move them: on_calendar ``next_allowed`` (time.md §9). Pure.

A fire of the schedule on a blocked time is moved to the next day that allows it (``next_allowed.py``); what cannot be
moved stays where it is, and is SKIPPED(calendar). Where a fire is there already the two are one. So the job's fires
are again a set of instants that depends on its version alone, and the functions here answer for it what
``schedule.py`` does for the schedule.

They are of two kinds: the schedule's own fires that nothing blocks, found by arithmetic, and the *displaced* ones,
which were moved or could not be. Those are made a season at a time, and kept. Bounds: a schedule with more than
``FIRES_OF_YEAR_MAX`` fires a year is refused at the door, so a season looks at as many and a quarter more; of one
schedule ``_SEASONS_KEPT_MAX`` seasons are kept, with a few thousand fires at most.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator
from functools import lru_cache

from . import schedule as nominal
from .blocks import Blocks, blocks_of
from .cron import compile_cron
from .ids import US_PER_S, Instant
from .job import Cron, Schedule
from .next_allowed import DAYS_MAX, NextAllowed
from .timing import Timing

FIRES_OF_YEAR_MAX = 366 * 24
"""An hourly schedule has as many."""

_SEASON_US = (1 << 23) * US_PER_S
"""About 97 days."""
_SEASONS_KEPT_MAX = 6
"""A fire may be a year away, and whoever asks for it goes through all that lies between: five, and one for a look back.
With fewer kept than one walk needs, each would find nothing that the one before has left."""
_FAR_BACK_US = (DAYS_MAX + 3) * 86_400 * US_PER_S
"""From farther back nothing is moved to now."""
_FAR: Instant = 2**62


def zone_of(schedule: Schedule) -> str:
    """The zone whose days a calendar's days are: a cron's own, else UTC."""
    return schedule.zone if isinstance(schedule, Cron) else "UTC"


class Moving:
    """The fires of one schedule under one timing. Shared by all jobs that mean the same."""

    __slots__ = ("_anchor_at", "_blocks", "_days", "_displaced", "_from_at", "_schedule", "_sources", "_until_at")

    def __init__(self, schedule: Schedule, anchor_at: Instant, timing: Timing) -> None:
        self._schedule = schedule
        self._anchor_at = anchor_at
        self._from_at = timing.from_at
        self._until_at = timing.until_at or _FAR
        self._blocks: Blocks = blocks_of(timing.compiled, zone_of(schedule))
        self._days = NextAllowed(self._blocks, zone_of(schedule), self._until_at)
        self._displaced: dict[int, array[int]] = {}
        self._sources: tuple[int, dict[Instant, list[Instant]]] = -1, {}

    def next(self, after: Instant) -> Instant | None:
        """The first fire strictly after ``after``, or None."""
        season = (after + 1) // _SEASON_US
        while True:  # ends: each step goes on to a later season, and the schedule's own search has an end
            end = (season + 1) * _SEASON_US
            fires = self._season(season)
            place = bisect_right(fires, after)
            displaced = fires[place] if place < len(fires) else None
            own = self._next_free(after, end if displaced is None else displaced)
            if own is not None or displaced is not None:
                return displaced if own is None else own
            after, season = end - 1, season + 1
            if self._nominal_last(after - _FAR_BACK_US, after) is None:  # nothing is on its way
                following = self._nominal_next(after)
                if following is None:
                    return None
                season = following // _SEASON_US

    def last(self, after: Instant, until: Instant) -> Instant | None:
        """The newest fire in (after, until], or None."""
        while after < until and self._nominal_last(after - _FAR_BACK_US, until) is not None:
            season = until // _SEASON_US
            floor = max(season * _SEASON_US - 1, after)
            fires = self._season(season)
            place = bisect_right(fires, until) - 1
            displaced = fires[place] if place >= 0 and fires[place] > after else None
            own = self._last_free(floor if displaced is None else displaced, until)
            if own is not None or displaced is not None:
                return displaced if own is None else own
            until = floor
        return None

    def count(self, after: Instant, until: Instant) -> int:
        """How many fires lie in (after, until]. What is not blocked is counted by arithmetic."""
        total = self._nominal_count(after, until)
        total -= sum(self._nominal_count(*part) for part in self._blocks.between(after, until))
        if self._nominal_last(after - _FAR_BACK_US, until) is None:
            return total
        for season in range((after + 1) // _SEASON_US, until // _SEASON_US + 1):
            fires = self._season(season)
            total += bisect_right(fires, until) - bisect_right(fires, after)
        return total

    def sources(self, fire_at: Instant) -> list[Instant]:
        """The blocked fires of the schedule that are moved to ``fire_at``, in the order of time."""
        season = fire_at // _SEASON_US
        if self._sources[0] != season:
            found: dict[Instant, list[Instant]] = {}
            for fire, target in self._moves(season):
                if target is not None:
                    found.setdefault(target, []).append(fire)
            self._sources = season, found
        return sorted(self._sources[1].get(fire_at, ()))

    def _season(self, number: int) -> array[int]:
        """The displaced fires of a season: where nothing of the schedule's own is, in the order of time."""
        found = self._displaced.get(number)
        if found is None:
            begin, end = number * _SEASON_US, (number + 1) * _SEASON_US
            stuck: set[Instant] = set()
            moved: set[Instant] = set()
            for fire, target in self._moves(number):
                if target is None:
                    stuck.add(fire)
                else:
                    moved.add(target)
            stuck |= {at for at in moved if begin <= at < end and self._nominal_last(at - 1, at) is None}
            found = array("q", sorted(at for at in stuck if begin <= at < end))
            if len(self._displaced) >= _SEASONS_KEPT_MAX:
                self._displaced.clear()
            self._displaced[number] = found
        return found

    def _moves(self, number: int) -> Iterator[tuple[Instant, Instant | None]]:
        """All blocked fires of the schedule that may come to lie in a season, and where they go."""
        begin, end = number * _SEASON_US, (number + 1) * _SEASON_US
        return self._days.targets(self._blocked(self._days.reach(begin) - 1, end - 1))

    def _blocked(self, after: Instant, until: Instant) -> Iterator[Instant]:
        """The blocked fires of the schedule in (after, until]."""
        fire = self._nominal_next(after)
        for start, end in self._blocks.between(after, until):
            if fire is not None and fire <= start:
                fire = self._nominal_next(start)
            while fire is not None and fire <= end:
                yield fire
                fire = self._nominal_next(fire)
            if fire is None:
                return

    def _next_free(self, after: Instant, until: Instant) -> Instant | None:
        """The schedule's first fire in (after, until) that nothing blocks. Goes from one blocked time to the next."""
        fire = self._nominal_next(after)
        while fire is not None and fire < until:
            free_at = self._blocks.free_from(fire)
            if free_at == fire:
                return fire
            fire = None if free_at is None else self._nominal_next(free_at - 1)
        return None

    def _last_free(self, after: Instant, until: Instant) -> Instant | None:
        """The schedule's newest fire in (after, until] that nothing blocks."""
        fire = self._nominal_last(after, until)
        while fire is not None:
            begins_at = self._blocks.blocked_from(fire)
            if begins_at is None:
                return fire
            fire = self._nominal_last(after, begins_at - 1)
        return None

    def _nominal_next(self, after: Instant) -> Instant | None:
        found = nominal.next_fire(self._schedule, self._anchor_at, max(after, self._from_at - 1))
        return found if found is not None and found < self._until_at else None

    def _nominal_last(self, after: Instant, until: Instant) -> Instant | None:
        after, until = max(after, self._from_at - 1), min(until, self._until_at - 1)
        return nominal.last_fire(self._schedule, self._anchor_at, after, until) if after < until else None

    def _nominal_count(self, after: Instant, until: Instant) -> int:
        after, until = max(after, self._from_at - 1), min(until, self._until_at - 1)
        return nominal.count_fires(self._schedule, self._anchor_at, after, until) if after < until else 0


_KEPT_MAX = 4_096
"""Schedules, each with its anchor: at one more each look begins anew, a thousand times as long. An hourly one without
weekends keeps 35 kB."""


@lru_cache(maxsize=_KEPT_MAX)
def moving(schedule: Schedule, anchor_at: Instant, timing: Timing) -> Moving:
    """The fires of this schedule as this timing's calendars move them. Raises as the schedule's own functions do."""
    if isinstance(schedule, Cron):
        compile_cron(schedule)  # before anybody asks for the days of a zone that nobody knows
    return Moving(schedule, anchor_at, timing)
