"""Jobs that a filter means: what a bulk change goes through, newest first.

What must hold: a bound on what is looked through, and who reaches it is told where to go on. The order is that of the
tenant's list, which changes never disturb, so going on behind a job neither repeats nor misses one that was there.
"""

from __future__ import annotations

from typing import NamedTuple

from waterclock.model.ids import Instant, split_job_id
from waterclock.model.job import JobStatus, Tier

from .listing import JobListing
from .port import JobRow, Reading

LOOKED_THROUGH_MAX = 2_000
"""Jobs that one search looks through before a request acts."""

COUNTED_MAX = 10_000
"""The same, of a request that only counts."""

PATIENT_MAX = 1_000_000
"""The same, of somebody who can wait for minutes."""

STANDING = frozenset({JobStatus.ACTIVE, JobStatus.PAUSED, JobStatus.ENDED})
_PAGE = 200

Place = tuple[Instant, str]
"""(created_at, job id) of a job in its tenant's list."""


class JobFilter(NamedTuple):
    """``prefix``: of the name; ``handler``: as lists show it, the handler's name or where the executor goes. "" and
    empty sets: any."""

    prefix: str = ""
    tiers: frozenset[Tier] = frozenset()
    handler: str = ""
    statuses: frozenset[JobStatus] = STANDING


class FoundJobs(NamedTuple):
    """The jobs found, and behind which place to go on; None: nothing was left out."""

    rows: list[JobRow]
    next_at: Place | None = None


def jobs_meant(
    store: Reading,
    tenant: str,
    wanted: JobFilter,
    limit: int,
    after: Place | None = None,
    looked_through_max: int = LOOKED_THROUGH_MAX,
) -> FoundJobs:
    """At most ``limit`` jobs of the tenant, newest first, behind ``after``. Raises BackendDown."""
    found: list[JobRow] = []
    for _ in range(-(-looked_through_max // _PAGE)):
        lines = store.jobs(tenant, _PAGE, after)
        candidates = [line for line in lines if _may_be_meant(line, wanted)]
        rows = store.job_rows([line.job_id for line in candidates])
        for line, row in zip(candidates, rows, strict=True):
            if row is not None and _is_meant(row, wanted):
                if len(found) == limit:
                    return FoundJobs(found, place_of(found[-1]))
                found.append(row)
            after = (line.created_at, line.job_id)
        if len(lines) < _PAGE:
            return FoundJobs(found)
        after = (lines[-1].created_at, lines[-1].job_id)
    return FoundJobs(found, after)


def place_of(row: JobRow) -> Place:
    """Where a job stands in its tenant's list."""
    return row.created_at, row.job_id


def _may_be_meant(line: JobListing, wanted: JobFilter) -> bool:
    """By what the list itself tells: most rows need not be read."""
    return line.status in wanted.statuses and split_job_id(line.job_id)[1].startswith(wanted.prefix)


def _is_meant(row: JobRow, wanted: JobFilter) -> bool:
    return (
        row.status in wanted.statuses
        and (not wanted.tiers or row.spec.tier in wanted.tiers)
        and (not wanted.handler or row.spec.label == wanted.handler)
    )
