"""Going through all jobs, of all tenants: shelf by shelf, for whoever compares them with what was done for them.

A shelf is one partition of a tenant's list: the jobs of every sixteenth slot. What must hold: every job that is not
deleted is met, and pages of one shelf leave none out. Naming the shelves costs the cluster a look at every partition
key of that table: once for a whole check, never in a round.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from waterclock.model.ids import Instant

from . import rows
from .cells import Cells, Select
from .port import JobListing
from .tables import JOBS_BY_TENANT

_FIRST = Select(JOBS_BY_TENANT, limited=True)
_NEXT = Select(JOBS_BY_TENANT, below=2, limited=True)


class Shelf(NamedTuple):
    """One part of a tenant's list. ``pshard``: the slots of its jobs modulo ``tables.PSHARDS``."""

    tenant: str
    pshard: int


class ShelfReading(Protocol):
    """What goes through all jobs."""

    def shelves(self) -> list[Shelf]:
        """All that hold a job, ordered. Raises BackendDown."""
        ...

    def on_shelf(self, shelf: Shelf, limit: int, after: tuple[Instant, str] | None = None) -> list[JobListing]:
        """Newest first; ``after``: the (created_at, job_id) of the last line of the page before. Raises BackendDown."""
        ...


class TabularShelves:
    """The same over any cells."""

    _cells: Cells

    def shelves(self) -> list[Shelf]:
        return sorted(Shelf(*key) for key in self._cells.partition_keys("shelves", JOBS_BY_TENANT))

    def on_shelf(self, shelf: Shelf, limit: int, after: tuple[Instant, str] | None = None) -> list[JobListing]:
        (found,) = self._cells.select("on_shelf", _NEXT if after else _FIRST, [(*shelf, *(after or ()), limit)])
        return [rows.listing_of(values) for values in found]
