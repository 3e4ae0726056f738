"""Which runs of a job history holds, day by day, and how far history is written: for whoever makes runs of past fires.

What must hold: read by a quorum, as it was written, and not by any one replica: a run that is there is seen. What a
recorder has told of its position stays true, whoever told it: rows below it were acknowledged by then.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import orjson

from waterclock.model.errors import UndecodableRecord
from waterclock.model.events import RunStatus
from waterclock.model.ids import US_PER_S, Instant

from .backfill_port import Recorded
from .cells import Put
from .port import RunRow, Store
from .run_history import TabularRuns
from .tables import UPKEEP
from .upkeep import UpkeepKeeping

DAY_US = 86_400 * US_PER_S

HISTORY_DAYS = 31
"""Of a day before that no row is left: history is kept for 30 days."""

RECORDED = "recorded"
"""The recorders' word of how far they are, kept in ``upkeep``; by shard. ``offset``: every run event below it is in
history; ``generation``: of the topic."""

_PAGE = 200


class RunsPlace(NamedTuple):
    """Where to read on in one UTC day: runs before (``before``, ``series``), newest first."""

    day: int
    before: Instant
    series: int | None = None


class MadeRun(NamedTuple):
    """One row. ``is_held``: it waits for others, if it is PENDING."""

    fire_at: Instant
    series: int
    status: RunStatus
    is_held: bool


class RunsPage(NamedTuple):
    """Some rows of one day; ``next_place`` None: there are no more."""

    runs: tuple[MadeRun, ...]
    next_place: RunsPlace | None


class RunsReading(UpkeepKeeping, Protocol):
    """What tells of a job's runs. Raises BackendDown."""

    def made_runs(self, job_id: str, places: Sequence[RunsPlace]) -> list[RunsPage]:
        """A page of each of these days, in their order."""
        ...


class UpkeptStore(Store, RunsReading, Protocol):
    """All of a store: what works tell in it, too, and which runs it holds."""


def recorded_to(store: UpkeepKeeping, shard: int, generation: int) -> int:
    """Up to which offset of run-events history is written, at least; 0 where nobody has said so. Raises BackendDown."""
    try:
        told = store.told(RECORDED, str(shard))
        if told is None or told.parts.get("generation") != generation:
            return 0
        return int(told.parts.get("offset", 0))
    except (UndecodableRecord, TypeError, ValueError):
        return 0  # the log is read from its beginning then: slow, and nothing is missed


def recorded_put(row: Recorded) -> Put:
    """The write of a recorder's word."""
    parts = orjson.dumps({"generation": row.generation, "offset": row.offset}).decode()
    return Put(UPKEEP, (RECORDED, str(row.shard), parts, row.at), row.at)


class TabularMadeRuns(TabularRuns):
    """The same over any cells."""

    def made_runs(self, job_id: str, places: Sequence[RunsPlace]) -> list[RunsPage]:
        asked = [tuple(place[: 2 if place.series is None else 3]) for place in places]
        pages = self._pages("made_runs", job_id, asked, _PAGE, relaxed=False)
        return [_page(place, page) for place, page in zip(places, pages, strict=True)]


def _page(place: RunsPlace, read: Sequence[RunRow]) -> RunsPage:
    runs = tuple(MadeRun(row.fire_at, row.series, row.status, bool(row.reason)) for row in read)
    if len(read) < _PAGE:
        return RunsPage(runs, None)
    return RunsPage(runs, RunsPlace(place.day, read[-1].fire_at, read[-1].series))
