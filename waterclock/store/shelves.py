"""Going through all jobs, of all tenants: shelf by shelf, for whoever compares them with what was done for them.

A shelf is one partition of a tenant's list: the jobs of every sixteenth slot. What must hold: every job that is not
deleted is met, and pages of one shelf leave none out. Naming the shelves costs the cluster a look at every partition
key of that table: once for a whole check, never in a round; whoever works beside rounds names them in pages.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple, Protocol

from waterclock.model.ids import Instant, slot_of

from . import rows
from .cells import Cells, Select
from .listing import JobListing
from .made_runs import RunsReading
from .port import DueRow, TimeIndex
from .tables import JOBS_BY_TENANT, PSHARDS

_FIRST = Select(JOBS_BY_TENANT, limited=True)
_NEXT = Select(JOBS_BY_TENANT, below=2, limited=True)


class Shelf(NamedTuple):
    """One part of a tenant's list. ``pshard``: the slots of its jobs modulo ``tables.PSHARDS``."""

    tenant: str
    pshard: int


class Place(NamedTuple):
    """How far somebody is: ``done`` is the last shelf gone through; on ``shelf`` the line ``after`` was met last."""

    done: Shelf | None
    shelf: Shelf | None
    after: tuple[Instant, str] | None


class ShelfReading(Protocol):
    """What goes through all jobs."""

    def shelves(self) -> list[Shelf]:
        """All that hold a job, ordered. Raises BackendDown."""
        ...

    def shelves_after(self, after: Shelf | None, limit: int) -> list[Shelf]:
        """The same in pages, in an order that is the store's own: at most ``limit`` behind ``after``. BackendDown."""
        ...

    def on_shelf(self, shelf: Shelf, limit: int, after: tuple[Instant, str] | None = None) -> list[JobListing]:
        """Newest first; ``after``: the (created_at, job_id) of the last line of the page before. Raises BackendDown."""
        ...


class JobIndex(TimeIndex, ShelfReading, RunsReading, Protocol):
    """What a shard's owner needs that also goes through its jobs, and tells how far it is."""

    def standing_due(self, rows: Sequence[DueRow]) -> list[bool]:
        """For each of these, whether a row stands under its key. Many at once. Raises BackendDown."""
        ...


class TabularShelves:
    """The same over any cells."""

    _cells: Cells

    def shelves(self) -> list[Shelf]:
        return sorted(Shelf(*key) for key in self._cells.partition_keys("shelves", JOBS_BY_TENANT))

    def shelves_after(self, after: Shelf | None, limit: int) -> list[Shelf]:
        found = self._cells.partition_keys_after("shelves_after", JOBS_BY_TENANT, after and tuple(after), limit)
        return [Shelf(*key) for key in found]

    def on_shelf(self, shelf: Shelf, limit: int, after: tuple[Instant, str] | None = None) -> list[JobListing]:
        (found,) = self._cells.select("on_shelf", _NEXT if after else _FIRST, [(*shelf, *(after or ()), limit)])
        return [rows.listing_of(values) for values in found]


_SHELVES_PAGE = 500


class JobPages:
    """Goes once through the jobs of some slots, a little at each call: for work that is done beside rounds.

    Nothing moves when a read fails; ``copy.copy`` keeps the place for whoever has to take a page again, and ``place``
    is what somebody else can go on from. A job that is made meanwhile may be missed.
    """

    def __init__(self, slots: Collection[int], place: Place | None = None) -> None:
        self._slots = frozenset(slots)
        self._pshards = {slot % PSHARDS for slot in slots}
        self._shelves: tuple[Shelf, ...] = ()
        self._last: Shelf | None = place.done if place else None
        """Of the shelves that were named."""
        self._done = self._last
        self._named_all = False
        self._after: tuple[Instant, str] | None = None
        """Where the first of ``_shelves`` goes on."""
        self._resumed = place

    @property
    def place(self) -> Place:
        """How far it is, for whoever goes on with the same slots."""
        if not self._shelves:
            return self._resumed or Place(self._last, None, None)
        return Place(self._done, self._shelves[0], self._after)

    def onward(self, store: ShelfReading, limit: int) -> list[JobListing] | None:
        """The next jobs, deleted ones too, ``limit`` at most and maybe none; None: all were met. Raises BackendDown."""
        if not self._shelves:
            if self._named_all:
                return None
            named = store.shelves_after(self._last, _SHELVES_PAGE)
            self._shelves = tuple(shelf for shelf in named if shelf.pshard in self._pshards)
            self._last, self._named_all = named[-1] if named else self._last, len(named) < _SHELVES_PAGE
            if self._resumed and self._shelves:
                # Else the shelf is gone, or a new one stands before it.
                self._after = self._resumed.after if self._shelves[0] == self._resumed.shelf else None
                self._resumed = None
            return []
        page = store.on_shelf(self._shelves[0], limit, self._after)
        if len(page) < limit:
            self._done, self._shelves, self._after = self._shelves[0], self._shelves[1:], None
        else:
            self._after = (page[-1].created_at, page[-1].job_id)
        return [line for line in page if slot_of(line.job_id) in self._slots]
