"""Ends and records that have to come together: what of a job's window is open, what closes it, what that makes. Pure.

``all``: the newest end for each condition counts for so long as the window is (a record is an end here, too); with the
last one that is missing the run is made. Where they do not come together the window lapses: that is said, and one
begins with what still counts. ``any``: the first end opens a window, and when it is over one run is made for all that
came. What must hold: each end has a part in one run at most, and every window ends in a run or in a word about it. All
follows from the commands of the log and their append times, never from a clock: so a replay, and a successor, decide
alike.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from waterclock.model.cause import Cause
from waterclock.model.errors import UndecodableRecord
from waterclock.model.gathering import Arrival, Gathering
from waterclock.model.ids import Instant, tenant_of_job
from waterclock.model.shared_room import finds_room
from waterclock.model.triggers import Triggers
from waterclock.wire import codec

WINDOWS_MAX = 20_000
"""Open windows of one shard, each of 16 ends of half a kilobyte at the most: 160 MB. An end beyond it is SKIPPED."""


class Step(NamedTuple):
    """What a command does to a window. ``after``: as it stands, None: none does. ``cause``: of the run that it makes.

    ``lapsed``: the window that was over without a run, ``missing`` the places of the conditions that nothing had met.
    """

    after: Gathering | None
    cause: Cause | None = None
    lapsed: Gathering | None = None
    missing: tuple[int, ...] = ()


def arrive(on: Triggers, before: Gathering | None, job_id: str, arrival: Arrival) -> Step:
    """An end has come."""
    if not on.wants_all:
        kept = (*before.arrivals, arrival) if before else (arrival,)
        hops = max(each.hops for each in kept)
        if before is not None and arrival.at >= before.closes_at:  # nobody has closed it yet: it is in time
            return Step(None, Cause(arrival.source, hops))
        newest = arrival._replace(hops=hops)
        return Step(before._replace(arrivals=(newest,)) if before else _opened(on, job_id, (newest,)))
    step = _lapsed(on, before, arrival.at)
    others = [_without(each, arrival.places) for each in step.after.arrivals] if step.after else []
    arrivals = (*(each for each in others if each.places), arrival)
    if not _missing(on, arrivals):
        return step._replace(after=None, cause=Cause(arrival.source, max(each.hops for each in arrivals)))
    after = step.after._replace(arrivals=arrivals) if step.after else _opened(on, job_id, arrivals)
    return step._replace(after=after)


def close(on: Triggers, before: Gathering, at: Instant) -> Step:
    """The window's time is over, by the log: ``at`` is not before ``closes_at``."""
    if on.wants_all:
        return _lapsed(on, before, at)
    newest = before.arrivals[-1]
    return Step(None, Cause(newest.source, newest.hops))


def _lapsed(on: Triggers, before: Gathering | None, at: Instant) -> Step:
    if before is None or at < before.closes_at:
        return Step(before)
    kept = tuple(each for each in before.arrivals if each.at + on.within_us > at)
    missing = _missing(on, before.arrivals)
    return Step(_opened(on, before.job_id, kept) if kept else None, lapsed=before, missing=missing)


def _opened(on: Triggers, job_id: str, arrivals: tuple[Arrival, ...]) -> Gathering:
    """A window that begins with the oldest of these."""
    first = min(arrivals, key=lambda each: (each.at, each.number))
    return Gathering(job_id, first.at, first.number, first.at + on.within_us, arrivals)


def _without(arrival: Arrival, places: tuple[int, ...]) -> Arrival:
    return arrival._replace(places=tuple(place for place in arrival.places if place not in places))


def _missing(on: Triggers, arrivals: Iterable[Arrival]) -> tuple[int, ...]:
    met = {place for each in arrivals for place in each.places}
    return tuple(place for place in range(len(on.conditions)) if place not in met)


class Gatherings:
    """The open windows of one shard, and when to look at each again: one entry for a job, however much comes."""

    def __init__(self) -> None:
        self._open: dict[str, Gathering] = {}
        self._count_of: Counter[str] = Counter()
        """By tenant."""
        self._due: list[tuple[Instant, str]] = []
        """A heap; an entry that is not its job's in ``_look_at`` is stale."""
        self._look_at: dict[str, Instant] = {}
        self.asked: set[str] = set()
        """Jobs whose window's end was asked for, of which nothing came since."""

    def __len__(self) -> int:
        return len(self._open)

    def get(self, job_id: str) -> Gathering | None:
        return self._open.get(job_id)

    def has_room(self, job_id: str) -> bool:
        """Whether a window of this job may be opened."""
        return finds_room(self._count_of[tenant_of_job(job_id)], len(self._open), WINDOWS_MAX)

    def put(self, gathering: Gathering) -> None:
        """As it stands from now on."""
        self._count_of[tenant_of_job(gathering.job_id)] += gathering.job_id not in self._open
        self._open[gathering.job_id] = gathering
        self.asked.discard(gathering.job_id)
        look_at = self._look_at.get(gathering.job_id)
        if look_at is None or look_at > gathering.closes_at:
            self.look_at(gathering.job_id, gathering.closes_at)

    def drop(self, job_id: str) -> Gathering | None:
        """Nothing is open any more; answers what was."""
        gone = self._open.pop(job_id, None)
        self.asked.discard(job_id)
        if gone is not None:
            tenant = tenant_of_job(job_id)
            self._count_of[tenant] -= 1
            if not self._count_of[tenant]:
                del self._count_of[tenant]
        return gone

    def next_at(self) -> Instant | None:
        """When to look again."""
        return self._due[0][0] if self._due else None

    def over(self, now: Instant, most: int) -> Iterator[Gathering]:
        """Windows that are over, after ``most`` looks at the most. Who asks for their end says when to look again."""
        for _ in range(most):
            if not self._due or self._due[0][0] > now:
                return
            at, job_id = heapq.heappop(self._due)
            if self._look_at.get(job_id) != at:
                continue
            del self._look_at[job_id]
            gathering = self._open.get(job_id)
            if gathering is not None and gathering.closes_at > now:
                self.look_at(job_id, gathering.closes_at)
            elif gathering is not None:
                yield gathering

    def look_at(self, job_id: str, at: Instant) -> None:
        """Look at a job's window then, and not before."""
        self._look_at[job_id] = at
        heapq.heappush(self._due, (at, job_id))

    def restore(self, kept: Iterable[tuple[str, bytes]]) -> list[str]:
        """What a predecessor kept; answers the keys of what cannot be read."""
        strange = []
        for key, value in kept:
            try:
                self.put(codec.decode_gathering(value))
            except UndecodableRecord:
                strange.append(key)
        return strange
