"""When a job fires next, as people are told: by the command line and by the API, from one place.

Pure. A job that is paused, deleted or over fires never. Limit: what overlap, quotas or a catch-up make of a fire is
decided later; this is the plan.
"""

from __future__ import annotations

from .ids import US_PER_S, Instant
from .job import JobSpec, JobStatus
from .schedule import fires_between

HORIZON_US = 50 * 366 * 86_400 * US_PER_S
"""How far ahead a fire is looked for: about fifty years."""


def upcoming(
    spec: JobSpec, status: JobStatus, anchor_at: Instant, now: Instant, count: int, *, job_id: str = ""
) -> list[Instant]:
    """The next ``count`` fires after ``now``, or as many as there are. ``anchor_at``: see ``schedule.py``."""
    if status is not JobStatus.ACTIVE:
        return []
    return fires_between(spec.schedule, anchor_at, now, now + HORIZON_US, count, job_id=job_id)


def next_fire_of(spec: JobSpec, status: JobStatus, anchor_at: Instant, now: Instant) -> Instant | None:
    """The next fire after ``now``, or None."""
    return next(iter(upcoming(spec, status, anchor_at, now, 1)), None)
