"""Should a job have succeeded by now? Asked of the projection, for one job, by whoever watches it and by people.

A job says ``expect_within``: at any moment a run of it should have SUCCEEDED within so long before. The time counts
from the end of its newest success; where there is none, or the job was made, resumed or, having ended by its
``max_runs``, allowed to go on since, from then. A job that somebody has paused is waited for by nobody, nor one that
has ended or whose schedule is over. One that its dispatcher has paused, because its runs fail, is: nobody may overlook
that.

Limits: history lags by a moment; it is looked through newest fire first, ``LOOKED_THROUGH_MAX`` runs at most: a job
that made more than that since its last success is overdue all the same.
"""

from __future__ import annotations

from typing import NamedTuple

from waterclock.model.events import RunStatus
from waterclock.model.ids import Instant
from waterclock.model.job import JobStatus, JobVersion
from waterclock.model.timetable import last_of, next_of
from waterclock.model.untellable import schedule_error

from .port import JobRow, Reading

LOOKED_THROUGH_MAX = 2_000
_PAGE = 50
_VERSIONS_MAX = 50
_OWNER = "dispatcher"
"""Who pauses a job for its failures: the actor of its command."""


class Expectation(NamedTuple):
    """``succeeded_at``: when the newest success ended, 0: none did. ``by``: until when the next one is waited for."""

    succeeded_at: Instant
    by: Instant
    is_overdue: bool


def expectation_of(store: Reading, row: JobRow, now: Instant) -> Expectation | None:
    """What is waited for; None where nobody waits. Raises BackendDown."""
    within_us = row.spec.timing.expect_within_us
    if not within_us or not is_waited_for(row):
        return None
    succeeded_at = _newest_success(store, row.job_id)
    by = succeeded_at + within_us
    if by >= now:
        return Expectation(succeeded_at, by, is_overdue=False)
    since = max(succeeded_at, _began_at(store, row))
    if _is_over(row, since, now):
        return None
    return Expectation(succeeded_at, since + within_us, is_overdue=since + within_us < now)


def is_waited_for(job: JobRow | JobVersion) -> bool:
    """Whether a success of it is to be expected at all: it is active, or nobody but its dispatcher has paused it."""
    return job.status is JobStatus.ACTIVE or (job.pause is not None and job.pause.actor == _OWNER)


def _newest_success(store: Reading, job_id: str) -> Instant:
    before: Instant | None = None
    series: int | None = None
    for _ in range(LOOKED_THROUGH_MAX // _PAGE):
        page = store.runs(job_id, _PAGE, before, series)
        ended_at = max((run.ended_at for run in page if run.status is RunStatus.SUCCEEDED), default=0)
        if ended_at or len(page) < _PAGE:
            return ended_at
        before, series = page[-1].fire_at, page[-1].series
    return 0


def _began_at(store: Reading, row: JobRow) -> Instant:
    """Since when it is active without a break: a pause, its end by ``max_runs``, a delete. No edit is one.

    A pause by its dispatcher is none while it stands; the resume that ends it begins anew, as any.
    """
    since, is_on_top = row.updated_at, True
    for version in store.history(row.job_id, _VERSIONS_MAX):
        is_on_top = is_on_top and version.status is not JobStatus.ACTIVE
        if version.status is not JobStatus.ACTIVE and not (is_on_top and is_waited_for(version)):
            return since
        since = version.stamp_at
    return row.created_at


def _is_over(row: JobRow, since: Instant, now: Instant) -> bool:
    """Whether it has no fire any more, and had none that could have succeeded."""
    if schedule_error(row.spec.schedule):
        return False  # it should fire
    version = JobVersion(row.job_id, row.revision, row.spec, row.status, "", row.updated_at, row.anchor_at)
    return next_of(version, now) is None and last_of(version, since, now) is None
