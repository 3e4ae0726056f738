"""Runs that have not ended, as history has them: what a bulk cancel goes through.

What must hold: a bound on what is looked through, and who reaches it is told. Limits: history lags by about a second,
so a run of this moment may be missing, or may have ended since; whoever cancels it then changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from waterclock.model.events import RunStatus
from waterclock.model.ids import Instant

from .port import Reading, RunRow

OPEN = (RunStatus.PENDING, RunStatus.RUNNING, RunStatus.RETRYING)
"""The statuses that are not final."""

_PAGE = 500
_PAGES_MAX = 20
_JOBS_MAX = 1_000
_NEWEST_OF_EACH = 100


class OpenRuns(NamedTuple):
    """The runs found, and whether nothing was left out."""

    rows: list[RunRow]
    is_whole: bool


def open_runs(
    store: Reading, tenant: str, job_id: str, statuses: frozenset[RunStatus], before: Instant | None, limit: int
) -> OpenRuns:
    """Runs of one job ("": of every job of the tenant) with one of these statuses, made at or before ``before``.

    Of one job its newest 10,000 runs are looked through, of every job the newest 100 each, of 1,000 jobs at most.
    """
    found: list[RunRow] = []
    is_whole = True
    for row in _of_job(store, job_id) if job_id else _of_tenant(store, tenant):
        if row is None:
            is_whole = False
        elif row.status in statuses and (before is None or row.dispatched_at <= before):
            if len(found) == limit:
                return OpenRuns(found, is_whole=False)
            found.append(row)
    return OpenRuns(found, is_whole)


def _of_job(store: Reading, job_id: str) -> Iterator[RunRow | None]:
    """The newest runs; None where there may be more."""
    before: Instant | None = None
    series: int | None = None
    for _ in range(_PAGES_MAX):
        rows = store.runs(job_id, _PAGE, before, series)
        yield from rows
        if len(rows) < _PAGE:
            return
        before, series = rows[-1].fire_at, rows[-1].series
    yield None


def _of_tenant(store: Reading, tenant: str) -> Iterator[RunRow | None]:
    listings = store.jobs(tenant, _JOBS_MAX)
    for listing in listings:
        rows = store.runs(listing.job_id, _NEWEST_OF_EACH)
        yield from rows
        if len(rows) == _NEWEST_OF_EACH:
            yield None
    if len(listings) == _JOBS_MAX:
        yield None
