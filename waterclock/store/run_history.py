"""Reading the runs of jobs: from the drawers, and beside them from the table that held history before.

A day is that of a run's fire time. Lists look into the days since history begins, and behind those into the days that
backfills of the job have come to, for their runs may be of any past.

What must hold: of one run in both the picture with the greater stamp counts, as if both were one table, whichever was
written last; and a page is the page of both together. The older table gets no more rows, and its last ones expire 30
days after the recorders of the release before were stopped. Whether it has any is looked at once, when a store is
opened: so no recorder of the release before may run beside this one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

import structlog

from waterclock.clock import Clock
from waterclock.model.errors import BackendDown
from waterclock.model.ids import Instant

from . import rows
from .backfills import TabularBackfills
from .cells import Cells, Select, Values
from .drawers import drawer_key, drawer_of, run_in_drawer
from .port import RunRow
from .tables import RUNS, RUNS_BY_DRAWER

RUN_DAYS = 33
"""Day partitions that a list of runs looks into: tomorrow's (clocks differ), today's and those of 31 days before."""

_PAST_DAYS = 25
"""Days of backfills that are looked into at once."""

_BACKFILLS_MAX = 200
"""Backfills of a job whose days are known: the newest ones told of in 30 days."""

_RUN = Select(RUNS_BY_DRAWER, equal=3)
_OLD_RUN = Select(RUNS, equal=2)

_log = structlog.get_logger()


def has_old_runs(cells: Cells) -> bool:
    """Whether anything is left in the older table. Without an answer: yes, which costs reads and hides nothing."""
    try:
        return bool(cells.partition_keys_after("has_old_runs", RUNS, None, 1))
    except BackendDown as trouble:
        _log.warning("history of the release before is read as well", trouble=str(trouble))
        return True


def waves(keys: range) -> Iterator[range]:
    """The keys in growing portions, for a search that mostly ends early: 2, 6 and the rest."""
    yield from (keys[:2], keys[2:8], keys[8:])


class TabularRuns(TabularBackfills):
    """What a store reads of runs, over any cells. ``_has_old_runs``: the older table is read as well."""

    _clock: Clock
    _has_old_runs: bool

    def run(self, job_id: str, fire_at: Instant, series: int) -> RunRow | None:
        (found,) = self._cells.select("run", _RUN, [drawer_key(job_id, fire_at, series)])
        new = [run_in_drawer(values) for values in found]
        if not self._has_old_runs:
            return new[0] if new else None
        (found,) = self._cells.select("run", _OLD_RUN, [(job_id, rows.day_of(fire_at), fire_at, series)])
        both = _together(new, [rows.run_row(job_id, values) for values in found])
        return both[0] if both else None

    def runs(
        self, job_id: str, limit: int, before: Instant | None = None, before_series: int | None = None
    ) -> list[RunRow]:
        edge = self._clock.now() + rows.US_PER_DAY if before is None else before
        bound = (edge,) if before_series is None else (edge, before_series)
        newest = rows.day_of(edge)
        found: list[RunRow] = []
        for days in chain(waves(range(newest, newest - RUN_DAYS, -1)), self._past_days(job_id, newest - RUN_DAYS)):
            asked = [(day, *bound) for day in days]
            for page in self._pages("runs", job_id, asked, limit - len(found), relaxed=True):
                found += page
            if len(found) >= limit:
                break
        return found[:limit]

    def _past_days(self, job_id: str, newest: int) -> Iterator[range]:
        """The days up to ``newest`` in which backfills have made runs, newest first. Asked once a list comes to it."""
        spans = [
            (min(rows.day_of(told.position_at), newest), rows.day_of(told.from_at))
            for _, told, _ in self.backfills_of_job(job_id, _BACKFILLS_MAX)
            if told.made_count
        ]
        reached = newest + 1
        for last, first in sorted(spans, reverse=True):
            days = range(min(last, reached - 1), first - 1, -1)
            reached = min(reached, first)
            yield from (days[start : start + _PAST_DAYS] for start in range(0, len(days), _PAST_DAYS))

    def _pages(
        self, operation: str, job_id: str, places: Sequence[Values], limit: int, *, relaxed: bool
    ) -> list[list[RunRow]]:
        """For each (day, before) or (day, before, series): the newest ``limit`` runs of that day behind it."""
        drawer = drawer_of(job_id)
        pages: dict[Values, list[RunRow]] = {}
        for width in sorted({len(place) for place in places}):
            asked = [place for place in places if len(place) == width]
            query = Select(RUNS_BY_DRAWER, equal=1, below=width - 1, limited=True, relaxed=relaxed)
            keys = [(day, drawer, job_id, *bound, limit) for day, *bound in asked]
            for place, found in zip(asked, self._cells.select(operation, query, keys), strict=True):
                pages[place] = [run_in_drawer(values) for values in found]
            if self._has_old_runs:
                query = Select(RUNS, below=width - 1, limited=True, relaxed=relaxed)
                keys = [(job_id, *place, limit) for place in asked]
                for place, found in zip(asked, self._cells.select(operation, query, keys), strict=True):
                    pages[place] = _together(pages[place], [rows.run_row(job_id, values) for values in found])[:limit]
        return [pages[place] for place in places]


def _together(new: Sequence[RunRow], old: Sequence[RunRow]) -> list[RunRow]:
    """One row for each run of either, newest first."""
    found = {(row.fire_at, row.series): row for row in new}
    for row in old:
        place = row.fire_at, row.series
        found[place] = _later(found[place], row) if place in found else row
    return [found[place] for place in sorted(found, reverse=True)]


def _later(one: RunRow, other: RunRow) -> RunRow:
    """The picture that counts. A state that brought no result leaves the one that stands."""
    later, earlier = (one, other) if one.wts >= other.wts else (other, one)
    return later._replace(result=earlier.result) if later.result is None else later
