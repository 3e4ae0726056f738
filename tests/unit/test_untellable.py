"""Jobs whose schedule does not compile any more, here because their zone is gone: what their shard's owner does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs
from waterclock.dispatcher import rebuild
from waterclock.dispatcher.pace import Pace
from waterclock.dispatcher.position import Position
from waterclock.dispatcher.rebuild import Held
from waterclock.dispatcher.shard import Shard

from tests.unit.backfill_world import BackfillWorld
from tests.unit.dispatcher_world import NAMES, START, World, every
from tests.unit.lost_zone import MARS, know, zone_in
from waterclock.clusters.doctor_upkeep import judge_sweep
from waterclock.clusters.finding import State
from waterclock.ledger.shards import Asked, Ledger, ShardVerdict
from waterclock.model.events import Answered, EventKind
from waterclock.model.ids import US_PER_MINUTE, US_PER_S, ordinal
from waterclock.model.job import CommandKind, Cron, JobSpec, JobStatus, JobVersion
from waterclock.model.timing import Timing
from waterclock.store.memory import MemoryStore
from waterclock.store.upkeep import DUE_SWEEP

ODD = "t:odd"
PACE = Pace(sweep_every_s=0.05, sweep_lap_s=0.5)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with zone_in(tmp_path):
        yield World(partitions=1, pace=PACE)


def upgraded(world: World, away_s: int = 0) -> None:
    """Its dispatcher ends, and another one starts that does not know the zone."""
    world.cluster.kill(f"d1-{world.lives}")
    world.clock.advance(away_s * US_PER_S)
    know()
    world.dispatcher = world.start()


def standing(world: World) -> JobStatus:
    row = MemoryStore(world.clock, world.tables, "reader").job(ODD)
    assert row is not None
    return row.status


def test_it_stops_nobody_and_is_named(world: World) -> None:
    """When the sweep comes to a job in a zone that is gone, its shard goes on, and what is told names the job."""
    world.run(1)
    world.command(CommandKind.CREATE, ODD, JobSpec("demo.noop", MARS))
    world.command(CommandKind.CREATE, "t:beat", every(5))
    world.run(70, 0.25)
    assert len(world.runs(ODD)) == 1
    upgraded(world)
    with capture_logs() as logs:
        world.run(130, 0.25)
    assert len(world.runs(ODD)) == 1
    assert len(set(world.runs("t:beat"))) >= 38
    assert ODD in [each.get("job_id") for each in logs if each["event"] == "a job's next row cannot be told"]


@pytest.mark.parametrize("away_s", [0, 600])
@pytest.mark.parametrize("kind", [CommandKind.DELETE, CommandKind.PAUSE])
@pytest.mark.parametrize("jitter_s", [0, 10])
def test_it_can_be_deleted_and_paused(world: World, kind: CommandKind, away_s: int, jitter_s: int) -> None:
    """Also with a gap open, in which it owes fires that nobody can tell."""
    world.run(1)
    timing = Timing(jitter_us=jitter_s * US_PER_S, jitter_per_fire=bool(jitter_s))
    world.command(CommandKind.CREATE, ODD, JobSpec("demo.noop", MARS, timing=timing))
    world.command(CommandKind.CREATE, "t:beat", every(5))
    world.run(70, 0.25)
    upgraded(world, away_s)
    world.command(kind, ODD)
    world.run(70, 0.25)
    assert standing(world) is {CommandKind.DELETE: JobStatus.DELETED, CommandKind.PAUSE: JobStatus.PAUSED}[kind]
    assert len(world.runs(ODD)) <= 1


@pytest.mark.parametrize("away_s", [0, 600])
@pytest.mark.parametrize("paused", [False, True])
def test_it_can_be_replaced_and_fires_again(world: World, away_s: int, *, paused: bool) -> None:
    world.run(1)
    world.command(CommandKind.CREATE, ODD, JobSpec("demo.noop", MARS))
    world.run(70, 0.25)
    if paused:
        world.command(CommandKind.PAUSE, ODD)
        world.run(1)
    upgraded(world, away_s)
    world.run(5)
    world.command(CommandKind.UPDATE, ODD, JobSpec("demo.noop", Cron("* * * * *", zone="Europe/Berlin")))
    if paused:
        world.run(1)
        world.command(CommandKind.RESUME, ODD)
    world.run(130, 0.25)
    assert standing(world) is JobStatus.ACTIVE
    assert len(world.runs(ODD)) == 3
    assert not world.dispatcher._shards[0].gaps


def test_doctor_names_it_and_what_to_do(world: World) -> None:
    world.run(1)
    world.command(CommandKind.CREATE, ODD, JobSpec("demo.noop", MARS))
    world.run(2)
    upgraded(world)
    world.run(5)
    store = MemoryStore(world.clock, world.tables, "reader")
    found = judge_sweep(store.told_of_all(DUE_SWEEP), world.clock.now())
    assert found.state is State.WARN
    assert ODD in found.found
    assert "'Mars/Base' is not a time zone" in found.found
    assert "Save it with another schedule, or delete it" in found.found
    world.command(CommandKind.DELETE, ODD)
    world.run(5)
    assert judge_sweep(store.told_of_all(DUE_SWEEP), world.clock.now()).state is State.OK


def test_it_fires_again_once_its_zone_is_back(world: World, tmp_path: Path) -> None:
    """And nobody takes the rows that are made for it then for lost ones."""
    world.run(1)
    world.command(CommandKind.CREATE, ODD, JobSpec("demo.noop", MARS))
    world.run(2)
    upgraded(world)
    world.run(130, 0.25)
    assert world.runs(ODD) == []
    know(tmp_path)
    world.crash()
    world.run(130, 0.25)
    assert len(set(world.runs(ODD))) == 2


def test_a_resume_of_it_is_refused(world: World) -> None:
    world.run(1)
    world.command(CommandKind.CREATE, ODD, JobSpec("demo.noop", MARS))
    world.command(CommandKind.PAUSE, ODD)
    world.run(2)
    upgraded(world)
    world.command(CommandKind.RESUME, ODD, answer=True)
    world.run(2)
    assert standing(world) is JobStatus.PAUSED
    (answer,) = [event.detail for event in world.events(EventKind.ANSWERED) if isinstance(event.detail, Answered)]
    assert "'Mars/Base' is not a time zone" in answer.message
    assert answer.hint == "Save the job with another schedule, or delete it"


def verdict(world: World, to_s: int) -> ShardVerdict:
    store = MemoryStore(world.clock, world.tables, "ledger")
    ledger = Ledger(world.outside, NAMES, store, 1)
    return ledger.judge(0, Asked(START, START + to_s * US_PER_S), ledger.positions())


def test_the_books_of_its_shard_say_that_it_is_not_judged_and_judge_the_others(world: World) -> None:
    world.run(1)
    world.command(CommandKind.CREATE, ODD, JobSpec("demo.noop", MARS))
    world.command(CommandKind.CREATE, "t:beat", every(5))
    world.run(70, 0.25)
    upgraded(world)
    world.run(70, 0.25)
    found = verdict(world, 130)
    assert found.is_balanced
    assert not found.is_whole
    assert [remark.text for remark in found.remarks if remark.text.startswith(f"{ODD} is not judged: It does not fire")]
    assert sum(hour.runs for hour in found.hours.values()) >= 24


def test_what_it_was_long_before_hides_nothing(world: World) -> None:
    """Given a job that was replaced before the span begins, all that it owes is judged."""
    world.run(1)
    world.command(CommandKind.CREATE, ODD, JobSpec("demo.noop", MARS))
    world.run(2)
    upgraded(world)
    world.command(CommandKind.UPDATE, ODD, JobSpec("demo.noop", Cron("* * * * *")))
    world.run(5)
    world.clock.advance(3_600 * US_PER_S)
    world.run(130, 0.25)
    store = MemoryStore(world.clock, world.tables, "ledger")
    ledger = Ledger(world.outside, NAMES, store, 1)
    found = ledger.judge(0, Asked(START + 3_600 * US_PER_S, START + 3_700 * US_PER_S), ledger.positions())
    assert found.is_balanced
    assert found.is_whole


def test_its_backfill_ends_and_stops_nobody(tmp_path: Path) -> None:
    """Given a backfill that has runs to make when its job's zone goes."""
    with zone_in(tmp_path):
        world = BackfillWorld()
        world.define(JobSpec("demo.noop", MARS))
        backfill = world.ask(-5, 0, concurrency=1)
        world.wait(10)
        assert len(world.made()) == 1
        world.cluster.kill(f"d1-{world.lives}")
        know()
        world.dispatcher = world.start()
        world.wait(30)
        assert world.statuses(backfill)[-1] == "CANCELLED"
        assert world.told(backfill)[-1].reason == "schedule-gone"


def test_backfills_of_what_it_was_are_not_judged(tmp_path: Path) -> None:
    """Given runs of an old revision in a range after it was replaced: they are no runs without a fire."""
    with zone_in(tmp_path):
        world = BackfillWorld()
        world.define(JobSpec("demo.noop", MARS))
        world.define(JobSpec("demo.noop", Cron("0 0 1 1 *")))
        world.clock.advance(10_800 * US_PER_S)
        world.rest()
        world.ask(170, 173, to_revision=ordinal(1, 0), concurrency=10)
        world.wait(10)
        assert len(world.made()) == 3
        know()
        ledger = Ledger(world.outside, NAMES, world.store, 1)
        span = Asked(START + 165 * US_PER_MINUTE, START + 175 * US_PER_MINUTE)
        found = ledger.judge(0, span, ledger.positions())
        assert found.is_balanced
        assert not found.is_whole
        assert [remark.text for remark in found.remarks if "backfills of its revision" in remark.text]


def test_rows_of_its_older_versions_are_made_anew() -> None:
    """Given an absence after which rows are made anew, and a fire that came before the edit into the lost zone."""
    at, hour = START + 3_600 * US_PER_S, 3_600 * US_PER_S
    well = JobVersion(ODD, 1, every(600), JobStatus.ACTIVE, "", START, START)
    odd = JobVersion(ODD, 2, JobSpec("demo.noop", MARS), JobStatus.ACTIVE, "", at, START)
    shard = Shard(0, 1, 1, Position(START), 3)
    made = rebuild._of_job(shard, [odd, well], at + hour, Held.ALL)
    assert [row.fire_at for row in made.rows] == [START + 600 * US_PER_S]
