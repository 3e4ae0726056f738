"""The active jobs of tenants, page by page: for whoever looks at what is to come.

Which tenants there are no table says: known are the one that is set, those bound to topics, and those of API keys. Jobs
of another, made by a command line, are found by naming it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from waterclock.model.forecast import Planned
from waterclock.model.job import JobStatus
from waterclock.model.untellable import schedule_error

from .port import Access, Reading

PAGE = 500
_KEYS_MAX = 10_000


def known_tenants(store: Access, named: Iterable[str]) -> list[str]:
    """``named``, and those of keys (of the first 10,000), in order."""
    return sorted({*named, *(key.tenant for key in store.keys(_KEYS_MAX))})


class Page(NamedTuple):
    """``jobs``: the active ones of a page of listings; the others were passed over."""

    jobs: list[Planned]
    passed_over_count: int


def planned_pages(store: Reading, tenants: Iterable[str]) -> Iterator[Page]:
    """Pages of at most PAGE listings, newest jobs first. The caller stops at its own bound. Raises BackendDown."""
    for tenant in tenants:
        after: tuple[int, str] | None = None
        while True:  # ends with the tenant's listings, or with the caller
            lines = store.jobs(tenant, PAGE, after)
            rows = store.job_rows([line.job_id for line in lines if line.status is not JobStatus.DELETED])
            jobs = [
                Planned(row.job_id, row.spec.tier, row.spec.schedule, row.anchor_at, row.spec.timing)
                for row in rows
                if row is not None and row.status is JobStatus.ACTIVE and not schedule_error(row.spec.schedule)
            ]
            yield Page(jobs, len(lines) - len(jobs))
            if len(lines) < PAGE:
                break
            after = lines[-1].created_at, lines[-1].job_id
