"""A balanced placement: of the seconds of a job's jitter window the least loaded one, picked once, when it is saved.

Pure. What is counted is what other jobs have due in the window of the job's next fire, second by second, as their
schedules say: a hint about the load, never more. So the job's version carries the offset that was picked, and nobody
decides anew. Bounds: steps; whoever asks is told where counting stopped. Of several seconds that are alike the job's
own hash chooses, so that jobs saved together do not all take the first.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, NamedTuple

from .forecast import Planned
from .ids import US_PER_S, Instant
from .job import JobSpec
from .time_text import format_duration, format_rfc3339
from .timetable import due_of, is_blocked, next_due, next_run, offset_of

STEPS_MAX = 200_000
"""Fires of other jobs that are looked at: about a second of work."""


class Placed(NamedTuple):
    """What was picked. ``fire_at``: the fire whose window was looked at; the counts are of other jobs' fires.

    ``job_count``: jobs that were counted; ``is_whole``: no bound left any out.
    """

    offset_us: int
    fire_at: Instant
    due_at_fire: int
    due_at_offset: int
    job_count: int
    is_whole: bool

    @property
    def words(self) -> str:
        """``09:00:00 has 41200 due; 09:00:07 has none``: in UTC, as people are told."""
        there = self.fire_at + self.offset_us
        taken = self.due_at_offset or "none"
        if not self.offset_us:
            return f"{_time(self.fire_at)} has {taken} due: no second of the window has less"
        return f"{_time(self.fire_at)} has {self.due_at_fire} due; {_time(there)} has {taken}"


def wants_placement(spec: JobSpec) -> bool:
    """Whether a second is still to be picked for this job."""
    return spec.timing.balanced and spec.timing.placed_us < 0


def with_kept_place(spec: JobSpec, standing: JobSpec) -> JobSpec:
    """The job with the second that it has as it stands, where that was picked for the same schedule and window.

    So defining a job again changes nothing, whatever the load has become.
    """
    if not wants_placement(spec) or standing.timing.placed_us < 0 or _picked_for(spec) != _picked_for(standing):
        return spec
    return replace(spec, timing=replace(spec.timing, placed_us=standing.timing.placed_us))


def _picked_for(spec: JobSpec) -> tuple[object, ...]:
    timing = spec.timing
    names = tuple(use.name for use in timing.calendars)
    return spec.schedule, timing.jitter_us, timing.balanced, timing.from_at, names, timing.on_calendar


def placed(spec: JobSpec, found: Placed) -> JobSpec:
    """The job with what was picked for it."""
    return replace(spec, timing=replace(spec.timing, placed_us=found.offset_us))


def place(
    spec: JobSpec, job_id: str, anchor_at: Instant, now: Instant, jobs: Iterable[Planned], *, is_whole: bool = True
) -> Placed | None:
    """Pick a second of the window of the job's next run; None where there is none. ``jobs``: those that are known."""
    fire_at = next_run(spec, anchor_at, now)
    if fire_at is None:
        return None
    seconds = spec.timing.jitter_us // US_PER_S
    counts = array("Q", bytes(8 * seconds))
    steps, job_count = STEPS_MAX, 0
    for job in jobs:
        if job.job_id == job_id:
            continue
        steps -= _count(job, fire_at, seconds, counts, steps)
        if steps <= 0:
            is_whole = False
            break
        job_count += 1
    least = min(counts)
    free = [second for second, count in enumerate(counts) if count == least]
    second = free[0] if free[0] == 0 else free[offset_of(job_id, len(free))]
    return Placed(second * US_PER_S, fire_at, counts[0], counts[second], job_count, is_whole)


def placement_document(found: Placed) -> dict[str, Any]:
    """What the answer to a save says of it."""
    return {
        "offset": format_duration(found.offset_us) if found.offset_us else "0s",
        "fire_time": format_rfc3339(found.fire_at),
        "due_at_fire_time": found.due_at_fire,
        "due_at_offset": found.due_at_offset,
        "jobs_counted": found.job_count,
        "is_whole": found.is_whole,
        "words": found.words,
    }


def _count(job: Planned, begin: Instant, seconds: int, counts: array[int], steps: int) -> int:
    """Add what a job has due in the window; the steps that it took, at least one."""
    version, taken = job.version, 1
    end, after = begin + seconds * US_PER_S, begin - 1
    while taken < steps and (fire := next_due(version, after)) is not None:
        due_at = due_of(version, fire)
        if due_at >= end:
            break
        if not is_blocked(version.spec, fire):
            counts[(due_at - begin) // US_PER_S] += 1
        after = due_at
        taken += 1
    return taken


def _time(at: Instant) -> str:
    return format_rfc3339(at)[11:19]
