"""After an absence longer than rows live, everything is decided as if none had expired."""

from __future__ import annotations

from itertools import count

import pytest
from waterclock.dispatcher import bucket_walk, rebuild, window
from waterclock.dispatcher.bucket_walk import BucketWalk
from waterclock.dispatcher.rebuild import Held

from waterclock.model.events import EventKind, RunEvent, Skipped
from waterclock.model.ids import US_PER_S, Instant, make_run_id
from waterclock.model.job import CommandKind, Cron, Dates, JobSpec, Once
from waterclock.model.timing import Misfire, Timing
from waterclock.store import tabular
from waterclock.store.memory import WriteFault
from waterclock.store.port import DueRow, TimeIndex

from .dispatcher_world import START, World, every

HOUR_US = 3_600 * US_PER_S
REBUILD_AFTER_US, DUE_KEPT_US = rebuild.REBUILD_AFTER_US, tabular.DUE_KEPT_US
OFTEN = Cron("*/10 * * * *")


@pytest.fixture(autouse=True)
def _a_smaller_world(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows live for three hours here, for the window goes through an absence minute by minute."""
    monkeypatch.setattr(window, "SLOTS_PER_SLICE", 256)
    monkeypatch.setattr(tabular, "DUE_KEPT_US", 3 * HOUR_US)
    monkeypatch.setattr(rebuild, "REBUILD_AFTER_US", 2 * HOUR_US)


def test_rows_are_made_anew_a_day_before_they_are_gone() -> None:
    assert DUE_KEPT_US - REBUILD_AFTER_US == 24 * HOUR_US


def world_that_was_away(specs: dict[str, JobSpec], away_us: int, *, dies: bool = True) -> World:
    world = World(partitions=1)
    for job_id, spec in specs.items():
        world.command(CommandKind.CREATE, job_id, spec)
    world.run(5)
    if dies:
        world.cluster.kill(f"d1-{world.lives}")
    world.clock.advance(away_us)
    if dies:
        world.dispatcher = world.start()
    return world


def catch_up(world: World) -> None:
    for _ in range(20_000):
        world.steps(1)
        shard = world.dispatcher._shards.get(0)
        is_ahead = shard is not None and shard.horizon_at > world.clock.now() + 60 * US_PER_S
        if shard is not None and is_ahead and not shard.gaps and shard.jump is None:
            return
        world.clock.advance(1_000)
    raise AssertionError("the window did not come to the present, or a gap stays open")


def decided(events: list[RunEvent], job_id: str, since: Instant) -> tuple[list[str], int]:
    runs = [e.run_id for e in events if e.kind is EventKind.PENDING and e.job_id == job_id and e.at >= since]
    skips = [e.detail for e in events if e.kind is EventKind.SKIPPED and e.job_id == job_id and e.at >= since]
    return runs, sum(skip.fire_count for skip in skips if isinstance(skip, Skipped))


@pytest.mark.parametrize("misfire", list(Misfire))
@pytest.mark.parametrize("away_hours", [1, 4])
def test_the_policies_decide_beyond_the_life_of_rows_as_within_it(misfire: Misfire, away_hours: int) -> None:
    timing = Timing(misfire=misfire, catch_up_max=3, catch_up_window_us=30 * 24 * HOUR_US)
    specs = {"acme:often": JobSpec("demo.noop", OFTEN, timing=timing)}
    world = world_that_was_away(specs, away_hours * HOUR_US)
    back_at = world.clock.now()
    catch_up(world)
    runs, skipped = decided(world.events(), "acme:often", back_at)
    wanted = {Misfire.LATEST: 1, Misfire.SKIP: 0, Misfire.ALL: 3}[misfire]
    assert (len(runs), len(runs) + skipped) == (wanted, 6 * away_hours)


def test_one_offs_and_dates_of_the_absence_are_decided() -> None:
    at = START + HOUR_US // 2
    timing = Timing(catch_up_window_us=30 * 24 * HOUR_US)
    specs = {
        "acme:once": JobSpec("demo.noop", Once(at), timing=timing),
        "acme:dates": JobSpec("demo.noop", Dates((at, at + HOUR_US, at + 5 * HOUR_US)), timing=timing),
    }
    world = world_that_was_away(specs, 4 * HOUR_US)
    catch_up(world)
    assert world.runs("acme:once") == [make_run_id("acme:once", at)]
    assert world.runs("acme:dates") == [make_run_id("acme:dates", at + HOUR_US)]
    world.clock.advance(at + 5 * HOUR_US - world.clock.now() + US_PER_S)
    catch_up(world)
    assert world.runs("acme:dates")[-1] == make_run_id("acme:dates", at + 5 * HOUR_US)


def test_a_pause_that_came_during_the_absence_is_heeded() -> None:
    world = world_that_was_away({"acme:often": JobSpec("demo.noop", OFTEN)}, 2 * HOUR_US)
    before = len(world.runs())
    world.cluster.kill(f"d1-{world.lives}")
    world.command(CommandKind.PAUSE, "acme:often")
    world.clock.advance(2 * HOUR_US)
    world.dispatcher = world.start()
    catch_up(world)
    assert len(world.runs()) == before
    (paused,) = [e for e in world.events(EventKind.SKIPPED) if e.reason == "paused"]
    assert isinstance(paused.detail, Skipped)
    assert paused.detail.fire_count == 12, "those up to the pause; the others when it ends"


def test_an_owner_that_was_cut_off_from_the_store_for_days_makes_rows_anew_too() -> None:
    timing = Timing(catch_up_window_us=30 * 24 * HOUR_US)
    specs = {"acme:often": JobSpec("demo.noop", OFTEN, timing=timing)}
    world = world_that_was_away(specs, 4 * HOUR_US, dies=False)
    back_at = world.clock.now()
    catch_up(world)
    runs, skipped = decided(world.events(), "acme:often", back_at)
    assert (len(runs), skipped) == (1, 23)


def test_a_write_in_doubt_is_made_again_before_anything_is_loaded() -> None:
    specs = {f"acme:h{number}": JobSpec("demo.noop", OFTEN) for number in range(20)}
    world = world_that_was_away(specs, 4 * HOUR_US)
    faults = iter([WriteFault.HALF, WriteFault.LOST])
    world.tables.on_call = lambda _, operation: next(faults, None) if operation == "write_due:anew" else None
    catch_up(world)
    assert {run_id.partition("@")[0] for run_id in world.runs()} == set(specs)


def test_a_short_absence_reads_no_job() -> None:
    world = world_that_was_away({"acme:tick": every(30)}, HOUR_US)
    asked: list[str] = []
    world.tables.on_call = lambda _, operation: asked.append(operation)
    for _ in range(200):
        world.steps(1)
    assert "on_shelf" not in asked


def test_rows_made_anew_win_over_those_that_have_expired() -> None:
    """Such a row hides, as a tombstone does, what is written below its own stamp: that of the fire before it."""
    world = World(partitions=1)
    world.command(CommandKind.CREATE, "acme:often", JobSpec("demo.noop", OFTEN))
    world.run(200, 0.5)
    (before,) = world.runs("acme:often")
    world.cluster.kill(f"d1-{world.lives}")
    world.clock.advance(4 * HOUR_US)
    world.dispatcher = world.start()
    back_at = world.clock.now()
    catch_up(world)
    runs, skipped = decided(world.events(), "acme:often", back_at)
    assert before not in runs
    assert (len(runs), skipped) == (1, 23)


def test_a_gap_that_is_open_for_longer_than_rows_live_loses_nothing() -> None:
    timing = Timing(catch_up_window_us=30 * 24 * HOUR_US)
    specs = {f"acme:often{number}": JobSpec("demo.noop", OFTEN, timing=timing) for number in range(5)}
    world = world_that_was_away(specs, HOUR_US)
    back_at = world.clock.now()
    for _ in range(1_000):
        world.steps(1)
        shard = world.dispatcher._shards.get(0)
        if shard is not None and shard.gaps:
            break
    else:
        raise AssertionError("no gap was opened")
    assert not any(decided(world.events(), job_id, back_at)[0] for job_id in specs)
    world.cluster.kill(f"d1-{world.lives}")
    world.clock.advance(4 * HOUR_US)
    world.dispatcher = world.start()
    catch_up(world)
    for job_id in specs:
        runs, skipped = decided(world.events(), job_id, back_at)
        assert (len(runs), len(runs) + skipped) == (2, 6 * 5), "one decision for each of two gaps, and every fire once"


def test_what_is_on_time_goes_on_while_the_rows_of_an_old_gap_are_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    timing = Timing(catch_up_window_us=30 * 24 * HOUR_US)
    specs = {f"acme:often{number}": JobSpec("demo.noop", OFTEN, timing=timing) for number in range(20)}
    world = world_that_was_away({**specs, "acme:tick": every(1)}, HOUR_US)
    while not (shard := world.dispatcher._shards.get(0)) or shard.horizon_at <= world.clock.now() + 60 * US_PER_S:
        world.steps(1)
    assert shard.gaps
    monkeypatch.setattr(rebuild, "PAGE", 1)
    monkeypatch.setattr(rebuild, "REBUILD_AFTER_US", 10 * 60 * US_PER_S)
    held: set[Held] = set()
    during = 0
    for _ in range(100):
        world.clock.advance(US_PER_S)
        now = world.clock.now()
        during += world.dispatcher._rebuilds.held(shard, now) is Held.GAPS
        world.steps(1)
        held.add(world.dispatcher._rebuilds.held(shard, now))
        assert make_run_id("acme:tick", now // US_PER_S * US_PER_S) in world.runs("acme:tick")
    assert during >= 20, "a page each step: the gap had to wait"
    assert Held.ALL not in held
    assert Held.NOTHING in held


def test_a_machine_that_slept_between_two_pages_makes_all_of_them_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was made before has expired by the time that it is read."""
    monkeypatch.setattr(rebuild, "PAGE", 1)
    specs = {f"acme:h{number}": JobSpec("demo.noop", OFTEN) for number in range(8)}
    world = world_that_was_away(specs, 4 * HOUR_US)
    naps = {3: 4 * HOUR_US, 6: 4 * HOUR_US}
    pages: list[str] = []

    def nap(_: str, operation: str) -> None:
        if operation == "write_due:anew":
            pages.append(operation)
            world.clock.advance(naps.pop(len(pages), 0))

    world.tables.on_call = nap
    catch_up(world)
    assert not naps
    assert {run_id.partition("@")[0] for run_id in world.runs()} == set(specs)


def test_a_machine_that_slept_while_a_jump_of_the_edge_was_prepared_prepares_it_anew() -> None:
    """The rows beyond the edge that the jump has written have expired by the time that it is made."""
    timing = Timing(catch_up_window_us=30 * 24 * HOUR_US)
    specs = {f"acme:often{number}": JobSpec("demo.noop", OFTEN, timing=timing) for number in range(5)}
    world = world_that_was_away(specs, HOUR_US)
    back_at = world.clock.now()
    while not (shard := world.dispatcher._shards.get(0)) or shard.jump is None or not shard.jump.gap.row_count:
        world.steps(1)
    world.clock.jump(4 * HOUR_US)
    catch_up(world)
    for job_id in specs:
        runs, skipped = decided(world.events(), job_id, back_at)
        assert len(runs) + skipped == 6 * 5


def test_what_a_process_made_anew_is_not_believed_by_itself_hours_later() -> None:
    """It lost the shard and got it back: what it had made has expired meanwhile."""
    world = world_that_was_away({"acme:often": JobSpec("demo.noop", OFTEN)}, 4 * HOUR_US)
    rebuilds = world.dispatcher._rebuilds
    while not any(work.is_done for work in rebuilds._works.values()):
        world.steps(1)
    world.clock.advance(4 * HOUR_US)
    world.dispatcher._drop_all()
    catch_up(world)
    assert len(world.runs("acme:often")) == 1


@pytest.mark.parametrize("nap_at", [1, 2, 3, 5])
def test_a_machine_that_slept_while_a_gap_was_read_reads_it_again(monkeypatch: pytest.MonkeyPatch, nap_at: int) -> None:
    """Its rows had expired when they were read, and nobody had looked whether any had since. The group saw nothing."""
    timing = Timing(catch_up_window_us=30 * 24 * HOUR_US)
    world = world_that_was_away({"acme:often": JobSpec("demo.noop", OFTEN, timing=timing)}, HOUR_US)
    monkeypatch.setattr(bucket_walk, "BUCKETS_MIN", 8 * 256)
    reads, right = count(1), BucketWalk.read

    def nap(walk: BucketWalk, index: TimeIndex) -> list[DueRow]:
        if world.dispatcher._shards[0].gaps and next(reads) == nap_at:
            world.clock.jump(4 * HOUR_US)
        return right(walk, index)

    monkeypatch.setattr(BucketWalk, "read", nap)
    catch_up(world)
    assert next(reads) > nap_at
    runs, skipped = decided(world.events(), "acme:often", START)
    assert len(runs) + skipped == 6 * 5
