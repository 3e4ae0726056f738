"""Runs in drawers, and beside them those of the table before: one history, whichever of the two holds what of it."""

from __future__ import annotations

import itertools

import pytest

from tests.old_runs import old_put
from waterclock.model.events import Outcome, RunStatus
from waterclock.model.ids import US_PER_S
from waterclock.model.job import Tier
from waterclock.store.drawers import drawer_of
from waterclock.store.made_runs import MadeRun, RunsPlace
from waterclock.store.port import History, RunRow
from waterclock.store.tabular import TabularStore

from .world import US_PER_DAY, StoreWorld

WAIT_S = 30.0
HOUR_US = 3_600 * US_PER_S


def record(world: StoreWorld, *runs: RunRow) -> None:
    world.store.record(History(runs)).wait(WAIT_S)


def record_as_before(world: StoreWorld, *runs: RunRow) -> None:
    """As the release before the drawers did."""
    assert isinstance(world.store, TabularStore)
    world.store._cells.write("record", [old_put(run) for run in runs]).wait(WAIT_S)


def test_every_field_of_a_run_is_read_back(world: StoreWorld) -> None:
    run = world.run(
        series=1 << 50, tier=Tier.LOW, origin="REDRIVE", status=RunStatus.RETRYING, outcome=Outcome.TIMED_OUT,
        attempt=3, error="ValueError: nö\n\tat x", result=b"\x00\xff", reason="attempts", skipped_count=4,
        skipped_to=world.now + 9, fence=1 << 50, next_attempt_at=world.now + 5, linked_run="acme:x@20261121T090000Z",
        cancel_requested=True, is_last=True, is_dag=True, paused=True, rerun_from=("load", "report"),
    )  # fmt: skip
    record(world, run, world.run("before"))
    record_as_before(world, run._replace(job_id=world.job_id("before"), series=7))

    assert world.other.run(run.job_id, run.fire_at, run.series) == run
    assert world.other.run(world.job_id("before"), run.fire_at, 7) == run._replace(
        job_id=world.job_id("before"), series=7
    )


def test_jobs_of_one_drawer_do_not_see_one_anothers_runs(world: StoreWorld) -> None:
    shared = drawer_of(world.job_id("n0"))
    names = (name for name in map("n{}".format, itertools.count()) if drawer_of(world.job_id(name)) == shared)
    names = [*itertools.islice(names, 3)]
    runs = {name: [world.run(name, fire_at=world.now - i * US_PER_S) for i in range(5)] for name in names}
    record(world, *(run for each in runs.values() for run in each))

    for name in names:
        assert world.store.runs(world.job_id(name), 3) == runs[name][:3]
        assert world.store.runs(world.job_id(name), 50) == runs[name]


def test_history_of_the_table_before_is_read_as_it_was(world: StoreWorld) -> None:
    runs = [world.run(fire_at=world.now - day * US_PER_DAY, result=b"x") for day in (0, 0.5, 3, 12)]  # type: ignore[operator]
    runs = [run._replace(fire_at=int(run.fire_at)) for run in runs]
    record_as_before(world, *runs)

    assert [world.store.run(run.job_id, run.fire_at, 0) for run in runs] == runs
    assert world.store.runs(world.job_id(), 50) == runs
    assert world.store.runs(world.job_id(), 2) == runs[:2]
    assert world.store.runs(world.job_id(), 2, before=runs[1].fire_at) == runs[2:]


@pytest.mark.parametrize("newer", ["drawer", "before"])
def test_the_later_picture_wins_whichever_table_holds_it(world: StoreWorld, newer: str) -> None:
    done = world.run(wts=world.now + 96)
    begun = world.run(status=RunStatus.RUNNING, outcome=Outcome.NONE, wts=world.now + 72, result=None)
    record(world, done if newer == "drawer" else begun)
    record_as_before(world, begun if newer == "drawer" else done)

    day = world.now // US_PER_DAY
    assert world.store.run(world.job_id(), world.now, 0) == done
    assert world.store.runs(world.job_id(), 5) == [done]
    (page,) = world.store.made_runs(world.job_id(), [RunsPlace(day, world.now + 1)])  # type: ignore[attr-defined]
    assert page.runs == (MadeRun(world.now, 0, RunStatus.SUCCEEDED, False),)


def test_a_later_picture_without_a_result_leaves_that_of_the_table_before(world: StoreWorld) -> None:
    record_as_before(world, world.run(result=b"first"))
    record(world, world.run(result=None, wts=world.now + 1))

    assert world.store.run(world.job_id(), world.now, 0) == world.run(result=b"first", wts=world.now + 1)


def test_pages_over_both_tables_leave_none_out_and_tell_none_twice(world: StoreWorld) -> None:
    runs = [world.run(fire_at=world.now - i * 2 * HOUR_US, series=s) for i in range(30) for s in (9, 0)]
    record(world, *(run for i, run in enumerate(runs) if i % 3))
    record_as_before(world, *(run._replace(wts=run.wts - 1, error="older") for i, run in enumerate(runs) if i % 3 == 1))
    record_as_before(world, *(run for i, run in enumerate(runs) if not i % 3))

    seen: list[RunRow] = []
    while page := world.store.runs(
        world.job_id(), 7, seen[-1].fire_at if seen else None, seen[-1].series if seen else None
    ):
        seen += page
    assert seen == runs


def test_whoever_makes_runs_of_past_fires_sees_those_of_both_tables_page_by_page(world: StoreWorld) -> None:
    midnight = world.now // US_PER_DAY * US_PER_DAY - US_PER_DAY
    runs = [world.run(fire_at=midnight + i * US_PER_S, wts=world.now) for i in range(450)]
    record(world, *(run for i, run in enumerate(runs) if i % 5))
    record_as_before(world, *runs[::5])

    place: RunsPlace | None = RunsPlace(midnight // US_PER_DAY, midnight + US_PER_DAY)
    seen: list[MadeRun] = []
    while place is not None:
        (page,) = world.store.made_runs(world.job_id(), [place])  # type: ignore[attr-defined]
        seen += page.runs
        place = page.next_place
    assert [run.fire_at for run in seen] == [run.fire_at for run in reversed(runs)]
