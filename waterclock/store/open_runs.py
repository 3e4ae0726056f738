"""Runs that have not ended, as history has them: what a bulk cancel goes through.

What must hold: a bound on what is looked through, and who reaches it is told where to go on. Limits: history lags by
about a second, so a run of this moment may be missing, or may have ended; whoever cancels it then changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from waterclock.model.errors import RequestError
from waterclock.model.events import RunStatus
from waterclock.model.ids import Instant

from .port import Reading, RunRow

OPEN = (RunStatus.PENDING, RunStatus.RUNNING, RunStatus.RETRYING)
"""The statuses that are not final."""

LOOKED_THROUGH_MAX = 10_000
"""Runs that one search of a request looks through. A page counts as ten at least: so it ends after 1,000 idle jobs."""

PATIENT_MAX = 1_000_000
"""The same, of somebody who can wait for minutes."""

_PAGE = 500
_PAGE_COUNTS = 10
_JOBS_PAGE = 100
_PLACE = re.compile(r"(\d{1,18})\|([^|]{1,200})\|(\d{0,18})\|(\d{1,19})\Z", re.ASCII)


class Place(NamedTuple):
    """Where a search ended: the next one goes on behind this run, or with the first run of the job (``fire_at`` None).

    ``created_at``: of the job, by which a tenant's jobs are ordered; 0 in a search through one job.
    """

    created_at: Instant
    job_id: str
    fire_at: Instant | None = None
    series: int = 0

    def __str__(self) -> str:
        fire_at = "" if self.fire_at is None else self.fire_at
        return f"{self.created_at}|{self.job_id}|{fire_at}|{self.series}"


def parse_place(text: str) -> Place:
    """The place that such a text names. Raises RequestError."""
    match = _PLACE.match(text)
    if match is None or int(match[4]) >= 2**63:
        raise unknown_place()
    return Place(int(match[1]), match[2], int(match[3]) if match[3] else None, int(match[4]))


def unknown_place() -> RequestError:
    """Nowhere that this search could have ended."""
    return RequestError(
        "This is not where such a search ended", pointer="/cursor", hint="Hand it back as it came, with the same filter"
    )


class OpenRuns(NamedTuple):
    """The runs found, and where to go on; None: nothing was left out."""

    rows: list[RunRow]
    next_at: Place | None = None

    @property
    def is_whole(self) -> bool:
        """Nothing was left out."""
        return self.next_at is None


def open_runs(
    store: Reading,
    tenant: str,
    job_id: str,
    statuses: frozenset[RunStatus],
    before: Instant | None,
    limit: int,
    after: Place | None = None,
    looked_through_max: int = LOOKED_THROUGH_MAX,
) -> OpenRuns:
    """Runs of one job ("": of every job of the tenant) with one of these statuses, made at or before ``before``.

    Of each job newest fire first. ``after``: ``next_at`` of the search before. Raises RequestError where it is none.
    """
    if after is not None and not (after.job_id == job_id if job_id else after.job_id.startswith(f"{tenant}:")):
        raise unknown_place()
    found: list[RunRow] = []
    looked_through = 0
    for place, rows in _of_job(store, job_id, 0, after) if job_id else _of_tenant(store, tenant, after):
        for row in rows:
            if row.status in statuses and (before is None or row.dispatched_at <= before):
                if len(found) == limit:
                    last = found[-1]
                    return OpenRuns(found, place if place.job_id != last.job_id else _behind(place, last))
                found.append(row)
        looked_through += max(_PAGE_COUNTS, len(rows))
        if looked_through >= looked_through_max:
            return OpenRuns(found, _behind(place, rows[-1]) if rows else place)
    return OpenRuns(found)


def _of_tenant(store: Reading, tenant: str, after: Place | None) -> Iterator[tuple[Place, list[RunRow]]]:
    """Job by job, newest first; where each page began."""
    if after is not None:
        yield from _of_job(store, after.job_id, after.created_at, after)
    job = None if after is None else (after.created_at, after.job_id)
    while True:  # ends: each page reaches further back
        listings = store.jobs(tenant, _JOBS_PAGE, job)
        for listing in listings:
            yield from _of_job(store, listing.job_id, listing.created_at, None)
        if len(listings) < _JOBS_PAGE:
            return
        job = (listings[-1].created_at, listings[-1].job_id)


def _of_job(
    store: Reading, job_id: str, created_at: Instant, after: Place | None
) -> Iterator[tuple[Place, list[RunRow]]]:
    """Page by page, newest fire first; at least one page, which may be empty."""
    place = Place(created_at, job_id) if after is None else after
    while True:  # ends: each page reaches further back
        is_first = place.fire_at is None
        rows = store.runs(job_id, _PAGE, place.fire_at, None if is_first else place.series)
        yield place, rows
        if len(rows) < _PAGE:
            return
        place = _behind(place, rows[-1])


def _behind(place: Place, row: RunRow) -> Place:
    return place._replace(fire_at=row.fire_at, series=row.series)
