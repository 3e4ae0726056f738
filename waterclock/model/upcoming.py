"""When a job fires next, as people are told: by the command line and by the API, from one place.

Pure. A job that is paused, deleted or over fires never, nor does one whose schedule does not compile any more. Limit:
what overlap, quotas or a catch-up make of a fire is decided later; this is the plan. A fixed delay has no plan: its
fires follow from the ends of its runs.
"""

from __future__ import annotations

from .ids import US_PER_S, Instant
from .job import JobSpec, JobStatus, JobVersion
from .timetable import due_of, next_run
from .untellable import schedule_error

HORIZON_US = 50 * 366 * 86_400 * US_PER_S
"""How far ahead a fire is looked for: about fifty years."""


def upcoming(spec: JobSpec, status: JobStatus, anchor_at: Instant, now: Instant, count: int) -> list[Instant]:
    """The next ``count`` fires after ``now``, or as many as there are. ``anchor_at``: see ``schedule.py``.

    Those that a calendar blocks are left out: they make no run. What a document's ``H`` means must be in ``spec``
    already. With jitter a fire is due later: :func:`due_times`. Of a schedule with ``max_runs`` at most so many: how
    many it has made is not known here.
    """
    if schedule_error(spec.schedule):
        return []
    count = min(count, spec.timing.max_runs or count)
    fires: list[Instant] = []
    after: Instant | None = now
    while status is JobStatus.ACTIVE and len(fires) < count and after is not None:
        after = next_run(spec, anchor_at, after)
        if after is None or after > now + HORIZON_US:
            break
        fires.append(after)
    return fires


def next_fire_of(spec: JobSpec, status: JobStatus, anchor_at: Instant, now: Instant) -> Instant | None:
    """The next fire after ``now``, or None."""
    return next(iter(upcoming(spec, status, anchor_at, now, 1)), None)


def due_times(job_id: str, spec: JobSpec, anchor_at: Instant, fires: list[Instant]) -> list[Instant]:
    """When these fires of a job are due, jitter included."""
    version = JobVersion(job_id, 0, spec, JobStatus.ACTIVE, "", 0, anchor_at)
    return [due_of(version, fire_at) for fire_at in fires]
