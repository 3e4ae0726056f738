"""Backfills as people read them, the recorders' word, and which runs a day holds: alike on both sides."""

from __future__ import annotations

from waterclock.model.backfill import Backfilled, BackfillStatus
from waterclock.model.events import Outcome, RunStatus
from waterclock.model.ids import US_PER_S
from waterclock.model.job import Tier
from waterclock.store import made_runs
from waterclock.store.backfill_port import BackfillRow, Recorded
from waterclock.store.made_runs import DAY_US, MadeRun, RunsPlace, recorded_to
from waterclock.store.port import History, RunRow
from waterclock.store.tabular import TabularStore

from .world import StoreWorld


def both(world: StoreWorld) -> tuple[TabularStore, TabularStore]:
    assert isinstance(world.store, TabularStore)
    assert isinstance(world.other, TabularStore)
    return world.store, world.other


def told(world: StoreWorld, number: int, status: BackfillStatus = BackfillStatus.RUNNING, seq: int = 2) -> Backfilled:
    at = world.now
    counts = (3, 1, 1, 0, 0, 0, 0)
    return Backfilled(number, seq, status, at, at + 1, at, 9, Tier.LOW, 4, *counts, at, at, 0, "ann", "é\n", "")


def test_the_word_of_the_later_event_wins_and_lists_are_newest_first(world: StoreWorld) -> None:
    one, other = both(world)
    job, next_job = world.job_id("a"), world.job_id("b")
    done = BackfillRow(job, told(world, 7, BackfillStatus.DONE, seq=3), world.now)
    late = BackfillRow(job, told(world, 7), world.now)
    newer = BackfillRow(job, told(world, 8), world.now)
    others = BackfillRow(next_job, told(world, 3), world.now)
    one.record(History(backfills=[done, newer, others])).wait(30.0)
    other.record(History(backfills=[late])).wait(30.0)
    read = [done, newer, others]
    assert other.backfill(job, 7) == read[0]
    assert other.backfill(job, 6) is None
    assert list(other.backfills_of_job(job, 10)) == [read[1], read[0]]
    first = other.backfills(world.tenant, 2)
    assert list(first) == [read[2], read[1]]
    assert list(other.backfills(world.tenant, 2, (first[-1].job_id, first[-1].told.number))) == [read[0]]


def test_a_position_that_was_told_is_read_back_for_its_generation_alone(world: StoreWorld) -> None:
    one, other = both(world)
    shard = abs(hash(world.tenant)) % 1_000_000 + 1_000
    assert recorded_to(other, shard, 1) == 0
    one.record(History(recorded=[Recorded(shard, 1, 41, world.now)])).wait(30.0)
    assert (recorded_to(other, shard, 1), recorded_to(other, shard, 2)) == (41, 0)


def test_the_runs_of_days_come_page_by_page_and_none_is_left_out(world: StoreWorld) -> None:
    one, other = both(world)
    job, day = world.job_id("runs"), world.now // DAY_US
    fires = [day * DAY_US + second * US_PER_S for second in range(made_runs._PAGE + 7)]
    rows = [_row(job, fire, 0, RunStatus.SUCCEEDED) for fire in fires]
    rows += [_row(job, fires[3], 77, RunStatus.PENDING, "overlap"), _row(job, fires[0] - DAY_US, 0, RunStatus.SKIPPED)]
    one.record(History(runs=rows)).wait(30.0)
    places = [RunsPlace(day, (day + 1) * DAY_US), RunsPlace(day - 1, day * DAY_US), RunsPlace(day - 2, day * DAY_US)]
    found: list[MadeRun] = []
    for _ in range(5):
        pages = other.made_runs(job, places)
        found += [run for page in pages for run in page.runs]
        places = [page.next_place for page in pages if page.next_place is not None]
    assert places == []
    assert sorted(found) == sorted(MadeRun(row.fire_at, row.series, row.status, bool(row.reason)) for row in rows)


def _row(job_id: str, fire_at: int, series: int, status: RunStatus, reason: str = "") -> RunRow:
    return RunRow(job_id, fire_at, series, 1, Tier.LOW, "SCHEDULE", status, Outcome.NONE, 0, fire_at, 0, 0, "", 0, "",
                  None, reason, "", "", 0, 0, fire_at)  # fmt: skip
