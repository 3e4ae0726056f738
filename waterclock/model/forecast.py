"""The load that is to come: fires by minute and tier of the next day, and the busiest minutes with their jobs.

Pure, and without a clock. Each job is counted twice: by its fire times, before jitter, and by its due times, after it.
What must hold: what is counted is what ``timetable.py`` says; a job costs at most a step a minute, however often it
fires within one (two with jitter). Bounds: jobs and steps; whoever asks is told where counting stopped. Limit: the plan
alone: what misfires, overlap, retries, triggers and later changes make of it is not in it.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import replace
from heapq import nlargest, nsmallest
from typing import Any, NamedTuple, TypeAlias

from .ids import US_PER_MINUTE, Instant
from .job import Cron, Delay, Every, JobSpec, JobStatus, JobVersion, Schedule, Tier
from .time_text import format_rfc3339
from .timetable import count_blocked, count_of, due_of, fire_edge, is_blocked, next_due
from .timing import PLAIN, Timing

MINUTES = 1_440
"""The span of a forecast: 24 hours."""

JOBS_MAX = 10_000
STEPS_MAX = 2_000_000
"""(Job, minute) pairs of one forecast: some seconds of work."""

PASSED_OVER_MAX = 10
"""Paused, ended and deleted jobs that are passed over for each that may be counted."""

BUSIEST_MAX = 60
JOBS_SHOWN = 5
"""Jobs named for one busy minute."""

_KEPT_STEPS_MAX = 500_000


class Planned(NamedTuple):
    """An active job, as far as its fires go. ``anchor_at``: see ``schedule.py``."""

    job_id: str
    tier: Tier
    schedule: Schedule
    anchor_at: Instant
    timing: Timing = PLAIN

    @property
    def version(self) -> JobVersion:
        """As the timetable asks for it."""
        spec = JobSpec("", self.schedule, self.tier, timing=self.timing)
        return JobVersion(self.job_id, 0, spec, JobStatus.ACTIVE, "", 0, self.anchor_at)

    def before_jitter(self) -> Planned:
        """The same without its jitter: due at its fire times."""
        return self._replace(timing=replace(self.timing, jitter_us=0)) if self.timing.jitter_us else self


Steps: TypeAlias = Iterable[tuple[Instant, int]]
"""(A whole minute, how many fires of a job are due there), rising."""


class PlannedLoad:
    """The load by due time. Jobs with one cron schedule and no jitter share its counting; a new one for each span."""

    def __init__(self) -> None:
        self._kept: dict[tuple[Cron, Timing, Instant, Instant], list[tuple[Instant, int]]] = {}
        self._kept_count = 0

    def __call__(self, job: Planned, begin: Instant, end: Instant) -> Steps:
        """What is due in [begin, end). Raises RequestError where a cron text does not compile."""
        if not isinstance(job.schedule, Cron) or job.timing.jitter_us:
            return _walked(job, begin, end)
        key = job.schedule, job.timing, begin, end
        found = self._kept.get(key)
        if found is None:
            found = list(_walked(job, begin, end))
            if self._kept_count + len(found) <= _KEPT_STEPS_MAX:
                self._kept[key] = found
                self._kept_count += len(found) + 1
        return found


def _walked(job: Planned, begin: Instant, end: Instant) -> Iterator[tuple[Instant, int]]:
    """From one minute in which something is due to the next: within a minute fires are counted, not walked."""
    schedule, version = job.schedule, job.version
    has_calendars = bool(job.timing.calendars)
    # Calendars that move fires bring them to one day, some seconds apart.
    may_repeat = (
        job.timing.jitter_per_fire
        or job.timing.moves
        or (schedule.seconds if isinstance(schedule, Cron) else not _is_slow(schedule))
    )
    after = begin - 1
    while (fire := next_due(version, after)) is not None and (due_at := due_of(version, fire)) < end:
        minute_at = due_at - due_at % US_PER_MINUTE
        last = min(minute_at + US_PER_MINUTE, end) - 1
        count = count_of(version, fire - 1, fire_edge(version, last)) if may_repeat else 1
        if has_calendars:  # what they block makes no run
            until = fire_edge(version, last)
            count -= count_blocked(version, fire - 1, until) if may_repeat else is_blocked(version.spec, fire)
        yield minute_at, count
        after = last


def _is_slow(schedule: Schedule) -> bool:
    return isinstance(schedule, Every) and schedule.every_us >= US_PER_MINUTE


class BusyJob(NamedTuple):
    """A job in one minute."""

    job_id: str
    tier: Tier
    fire_count: int


class BusyMinute(NamedTuple):
    """One minute, by due time. ``jobs``: those with the most fires in it, at most JOBS_SHOWN of ``job_count``."""

    minute_at: Instant
    fire_count: int
    job_count: int
    jobs: tuple[BusyJob, ...]


class Forecast:
    """Counts jobs as they are given. ``from_at`` is rounded up to a whole minute.

    ``stopped``: why not all jobs were counted, for people; "" where all were.
    """

    def __init__(self, from_at: Instant, *, jobs_max: int = JOBS_MAX, steps_max: int = STEPS_MAX) -> None:
        self.begin_at = -(-from_at // US_PER_MINUTE) * US_PER_MINUTE
        self.end_at = self.begin_at + MINUTES * US_PER_MINUTE
        self.by_minute = {tier: array("Q", bytes(8 * MINUTES)) for tier in Tier}
        """Fires of each tier by fire time, minute by minute from ``begin_at``."""
        self.due_by_minute = {tier: array("Q", bytes(8 * MINUTES)) for tier in Tier}
        """The same by due time."""
        self.stopped = ""
        self._load = PlannedLoad()
        self._jobs: list[Planned] = []
        self._jobs_max = jobs_max
        self._passed_over_count = 0
        self._steps_left = steps_max
        self._steps_max = steps_max

    @property
    def job_count(self) -> int:
        """Jobs that were counted, those without a fire in the span included."""
        return len(self._jobs)

    @property
    def delay_job_count(self) -> int:
        """Of these, those with a fixed delay: no fire of them is foreseen, for each follows from the end of a run."""
        return sum(isinstance(job.schedule, Delay) for job in self._jobs)

    @property
    def fire_count(self) -> int:
        """All fires that were counted, by fire time."""
        return sum(sum(minutes) for minutes in self.by_minute.values())

    @property
    def due_count(self) -> int:
        """All that is due in the span: jitter carries fires over its ends."""
        return sum(sum(minutes) for minutes in self.due_by_minute.values())

    def take(self, jobs: Iterable[Planned], passed_over_count: int = 0) -> bool:
        """Count these. False at a bound, where ``stopped`` says which: a job is counted whole or not at all.

        ``passed_over_count``: paused, ended and deleted jobs that were read to find them.
        """
        self._passed_over_count += passed_over_count
        if self._passed_over_count > PASSED_OVER_MAX * self._jobs_max:
            self.stopped = (
                f"{self._passed_over_count} paused, ended or deleted jobs were passed over, and there is more"
            )
            return False
        for job in jobs:
            if self.job_count >= self._jobs_max:
                self.stopped = f"{self._jobs_max} jobs were counted, and there are more"
                return False
            if self._steps_left < (2 * MINUTES if job.timing.jitter_us else MINUTES):
                self.stopped = (
                    f"{self.job_count} jobs were counted, which took {self._steps_max - self._steps_left} steps, "
                    "and there are more"
                )
                return False
            self._count(job)
            self._jobs.append(job)
        return True

    def _count(self, job: Planned) -> None:
        before, after = self.by_minute[job.tier], self.due_by_minute[job.tier]
        if not job.timing.jitter_us:
            self._add(job, before, after)
            return
        self._add(job.before_jitter(), before)
        self._add(job, after)

    def _add(self, job: Planned, *tallies: array[int]) -> None:
        for minute_at, count in self._load(job, self.begin_at, self.end_at):
            self._steps_left -= 1
            for tally in tallies:
                tally[(minute_at - self.begin_at) // US_PER_MINUTE] += count

    def busiest(self, count: int) -> list[BusyMinute]:
        """The minutes in which most is due, most first, then the earliest; none without a fire. At most BUSIEST_MAX."""
        totals = [sum(fires) for fires in zip(*self.due_by_minute.values(), strict=True)]
        numbers = nlargest(min(count, BUSIEST_MAX), range(MINUTES), key=lambda number: (totals[number], -number))
        return [self._busy(number, totals[number]) for number in numbers if totals[number]]

    def _busy(self, number: int, fire_count: int) -> BusyMinute:
        """Which jobs fire there is asked again: keeping it for every minute would cost a day's worth for each job."""
        minute_at = self.begin_at + number * US_PER_MINUTE
        job_count = 0

        def firing() -> Iterator[BusyJob]:
            nonlocal job_count
            for job in self._jobs:
                fires = sum(count for _, count in self._load(job, minute_at, minute_at + US_PER_MINUTE))
                if fires:
                    job_count += 1
                    yield BusyJob(job.job_id, job.tier, fires)

        jobs = tuple(nsmallest(JOBS_SHOWN, firing(), key=lambda job: (-job.fire_count, job.tier, job.job_id)))
        return BusyMinute(minute_at, fire_count, job_count, jobs)


def forecast_document(forecast: Forecast, busiest_count: int) -> dict[str, Any]:
    """The forecast as people and programs get it from the API and from the command line."""
    return {
        "begin_at": format_rfc3339(forecast.begin_at),
        "end_at": format_rfc3339(forecast.end_at),
        "job_count": forecast.job_count,
        "delay_job_count": forecast.delay_job_count,
        "fire_count": forecast.fire_count,
        "due_count": forecast.due_count,
        "stopped": forecast.stopped or None,
        "tiers": [
            {
                "tier": tier.word,
                "fire_count": sum(minutes),
                "by_minute": minutes.tolist(),
                "due_by_minute": forecast.due_by_minute[tier].tolist(),
            }
            for tier, minutes in forecast.by_minute.items()
        ],
        "busiest": [
            {
                "minute_at": format_rfc3339(minute.minute_at),
                "fire_count": minute.fire_count,
                "job_count": minute.job_count,
                "jobs": [
                    {"job_id": job.job_id, "tier": job.tier.word, "fire_count": job.fire_count} for job in minute.jobs
                ],
            }
            for minute in forecast.busiest(busiest_count)
        ],
    }
