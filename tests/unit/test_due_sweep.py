"""The sweep finds a next row that was lost, makes it again, and finds nothing where nothing was lost."""

from __future__ import annotations

import pytest
from waterclock.dispatcher import window
from waterclock.dispatcher.pace import Pace

from waterclock.model.ids import US_PER_S, make_run_id
from waterclock.model.job import CommandKind, Cron, Dates, JobSpec, Once
from waterclock.model.timing import Timing
from waterclock.store.memory import MemoryStore, WriteFault
from waterclock.store.port import JobChange
from waterclock.store.tables import DUE
from waterclock.store.upkeep import DUE_SWEEP

from .dispatcher_world import START, World, every

PACE = Pace(sweep_every_s=0.05, sweep_lap_s=0.5)


@pytest.fixture(autouse=True)
def _whole_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The window goes through an hour in as many steps as it has minutes."""
    monkeypatch.setattr(window, "SLOTS_PER_SLICE", 256)


def lose_rows(world: World, job_id: str, *, beyond_us: int = 0) -> int:
    """Every row of the job that is due later than so."""
    lost = 0
    for (slot, minute), partition in list(world.tables._tables[DUE.name].items()):
        for key in [key for key in partition.rows if key[1] == job_id and key[0] > world.clock.now() + beyond_us]:
            lost += world.tables.forget_row(DUE, (slot, minute, *key))
    return lost


def repairs(world: World) -> int:
    store = MemoryStore(world.clock, world.tables, "onlooker")
    return sum(int(told.parts["repairs"]) for told in store.told_of_all(DUE_SWEEP))


def test_a_lost_next_row_is_made_again_and_the_job_goes_on() -> None:
    world = World(partitions=2, pace=PACE)
    hourly = JobSpec("demo.noop", Cron("30 * * * *"))
    world.command(CommandKind.CREATE, "acme:hourly", hourly)
    world.run(3)
    assert lose_rows(world, "acme:hourly") == 1
    world.run(5)
    assert repairs(world) == 1
    world.clock.advance(3_600 * US_PER_S)
    world.run(10)
    assert len(world.runs("acme:hourly")) == 1


@pytest.mark.parametrize(
    "spec",
    [
        JobSpec("demo.noop", Once(START + 7_200 * US_PER_S)),
        JobSpec("demo.noop", Dates((START + 20 * US_PER_S, START + 7_200 * US_PER_S))),
        JobSpec("demo.noop", Cron("0 4 * * *"), timing=Timing(jitter_us=600 * US_PER_S)),
        every(3_600),
    ],
)
def test_every_kind_of_schedule_is_looked_after(spec: JobSpec) -> None:
    world = World(partitions=1, pace=PACE)
    world.command(CommandKind.CREATE, "acme:job", spec)
    world.run(3)
    world.clock.advance(1_900 * US_PER_S)  # a version with jitter is left alone for half an hour
    world.run(10)
    assert lose_rows(world, "acme:job", beyond_us=300 * US_PER_S) == 1
    world.run(5)
    assert repairs(world) == 1


def test_a_chain_that_broke_before_it_was_noticed_goes_on_from_the_present() -> None:
    world = World(partitions=1, pace=Pace(sweep_every_s=1e6))
    world.command(CommandKind.CREATE, "acme:tick", every(10))
    world.run(5)
    lose_rows(world, "acme:tick", beyond_us=60 * US_PER_S)
    world.run(240, 0.5)
    before = len(world.runs("acme:tick"))
    world.run(60, 0.5)
    assert len(world.runs("acme:tick")) == before, "it fires no more"
    world.pace = PACE
    world.crash()
    world.run(60, 0.25)
    assert len(world.runs("acme:tick")) > before
    assert repairs(world) == 1


def test_nothing_is_repaired_where_nothing_was_lost() -> None:
    world = World(partitions=2, pace=PACE)
    specs = {
        "acme:tick": every(2),
        "acme:odd": every(47, timing=Timing(jitter_us=20 * US_PER_S)),
        "acme:cron": JobSpec("demo.noop", Cron("* * * * *")),
        "acme:once": JobSpec("demo.noop", Once(START + 90 * US_PER_S)),
        "acme:dates": JobSpec("demo.noop", Dates((START + 30 * US_PER_S, START + 95 * US_PER_S))),
        "acme:ends": every(5, timing=Timing(until_at=START + 60 * US_PER_S)),
    }
    for job_id, spec in specs.items():
        world.command(CommandKind.CREATE, job_id, spec)
    world.run(20)
    world.command(CommandKind.PAUSE, "acme:cron")
    world.command(CommandKind.UPDATE, "acme:tick", every(3))
    world.run(40)
    world.command(CommandKind.RESUME, "acme:cron")
    world.clock.advance(400 * US_PER_S)
    world.run(20)
    world.crash()
    world.run(100)
    assert repairs(world) == 0


def test_a_job_that_somebody_else_has_revised_already_is_left_alone() -> None:
    """A zombie ran ahead: its command comes to the owner yet, and its deletes are no loss."""
    world = World(partitions=1, pace=PACE)
    world.command(CommandKind.CREATE, "acme:hourly", JobSpec("demo.noop", Cron("30 * * * *")))
    world.run(3)
    zombie = MemoryStore(world.clock, world.tables, "zombie")
    (version,) = zombie.versions(["acme:hourly"])["acme:hourly"]
    lose_rows(world, "acme:hourly")
    row = zombie.job("acme:hourly")
    assert row is not None
    ahead = version._replace(revision=version.revision + 7, stamp_at=version.stamp_at + 1)
    zombie.apply([JobChange(row, ahead)])
    world.run(5)
    assert repairs(world) == 0


def test_repairs_are_counted_across_processes_and_name_their_jobs() -> None:
    world = World(partitions=1, pace=PACE)
    world.command(CommandKind.CREATE, "acme:hourly", JobSpec("demo.noop", Cron("30 * * * *")))
    world.run(3)
    for _ in range(2):
        lose_rows(world, "acme:hourly")
        world.run(4)
        world.crash()
        world.run(3)
    assert repairs(world) == 2
    store = MemoryStore(world.clock, world.tables, "onlooker")
    (told,) = store.told_of_all(DUE_SWEEP)
    assert [each["job_id"] for each in told.parts["named"]] == ["acme:hourly"] * 2


def test_one_that_was_in_the_loaded_window_fires_after_all() -> None:
    world = World(partitions=1, pace=PACE)
    at = START + 90 * US_PER_S
    world.command(CommandKind.CREATE, "acme:once", JobSpec("demo.noop", Once(at)))
    world.run(1)
    lose_rows(world, "acme:once")
    world.crash()
    world.run(95, 0.25)
    assert world.runs("acme:once") == [make_run_id("acme:once", at)]


def test_a_repair_whose_write_is_in_doubt_is_made_again_and_counted_once() -> None:
    world = World(partitions=1, pace=PACE)
    world.command(CommandKind.CREATE, "acme:hourly", JobSpec("demo.noop", Cron("30 * * * *")))
    world.run(3)
    lose_rows(world, "acme:hourly")
    faults = {"tell": [WriteFault.LOST], "write_due": [WriteFault.LOST, WriteFault.HALF]}
    world.tables.on_call = lambda _, operation: faults[operation].pop() if faults.get(operation) else None
    world.run(8)
    assert faults == {"tell": [], "write_due": []}
    assert repairs(world) == 1
    assert lose_rows(world, "acme:hourly") == 1, "it stands"
