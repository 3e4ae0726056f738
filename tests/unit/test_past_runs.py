"""Runs of backfills are of any past: lists and a bulk cancel find them, however long ago their fires are."""

from __future__ import annotations

import pytest

from waterclock.clock import ManualClock
from waterclock.model.backfill import Backfilled, BackfillStatus
from waterclock.model.events import Origin, Outcome, RunStatus
from waterclock.model.ids import US_PER_S
from waterclock.model.job import Tier
from waterclock.store.backfill_port import BackfillRow
from waterclock.store.memory import MemoryStore
from waterclock.store.open_runs import OPEN, open_runs
from waterclock.store.port import History, RunRow

JOB = "acme:nightly"
DAY_US = 86_400 * US_PER_S
NOW = 20_000 * DAY_US + 3_600 * US_PER_S


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore(ManualClock(NOW))


def run(store: MemoryStore, days_ago: int, status: RunStatus = RunStatus.RUNNING) -> None:
    row = RunRow(JOB, NOW - days_ago * DAY_US, 0, 1, Tier.LOW, Origin.BACKFILL, status, Outcome.NONE, 1, NOW, NOW, 0,
                 "w", 1, "", None, "", "", "", 0, 0, NOW)  # fmt: skip
    store.record(History([row])).wait(1)


def backfill(store: MemoryStore, number: int, first_days_ago: int, last_days_ago: int, made: int = 1) -> None:
    from_at, position_at = NOW - first_days_ago * DAY_US, NOW - last_days_ago * DAY_US
    told = Backfilled(number, 1, BackfillStatus.CANCELLED, from_at, position_at + DAY_US, position_at, 1, Tier.LOW, 10,
                      made, made, 0, 0, 0, 0, 0, NOW, NOW, NOW, "ann", "", "")  # fmt: skip
    store.record(History(backfills=[BackfillRow(JOB, told, NOW)])).wait(1)


def days_ago(rows: list[RunRow]) -> list[int]:
    return [(NOW - row.fire_at) // DAY_US for row in rows]


def test_a_bulk_cancel_finds_the_open_runs_of_a_backfill_of_a_past_long_ago(store: MemoryStore) -> None:
    for ago in (400, 399, 398):
        run(store, ago)
    backfill(store, 7, 400, 398)
    found = open_runs(store, "acme", JOB, frozenset(OPEN), None, 100)
    assert (days_ago(found.rows), found.is_whole) == ([398, 399, 400], True)


@pytest.mark.parametrize("limit", [1, 2, 3, 100])
def test_pages_of_a_jobs_runs_go_on_into_the_past_of_its_backfills(store: MemoryStore, limit: int) -> None:
    made = [0, 3, 20, 33, 34, 60, 61, 90, 150, 151, 700]
    for ago in made:
        run(store, ago, RunStatus.SUCCEEDED)
    backfill(store, 7, 151, 33)  # some of its days lists look into anyway
    backfill(store, 8, 100, 60)  # all of its days are the other's, too
    backfill(store, 9, 700, 700)
    found: list[RunRow] = []
    while True:
        place = (found[-1].fire_at, found[-1].series) if found else (None, None)
        page = store.runs(JOB, limit, *place)
        found += page
        if len(page) < limit:
            break
    assert days_ago(found) == made


def test_no_past_is_looked_into_where_no_backfill_has_made_a_run(store: MemoryStore) -> None:
    run(store, 400)
    backfill(store, 7, 20_000, 0, made=0)
    assert store.runs(JOB, 10) == []
