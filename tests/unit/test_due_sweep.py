"""The sweep finds a next row that was lost, makes it again, and finds nothing where nothing was lost."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs
from waterclock.dispatcher import applying, lap, sweep, window
from waterclock.dispatcher.errands import Call, Made, Pending
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
    """Every row of the job that is due later than so. How many stood."""
    store, lost = MemoryStore(world.clock, world.tables, "onlooker"), 0
    for slot, minute in world.tables.keys_of(DUE):
        for row in store.load_due([slot], minute):
            if row.job_id == job_id and row.due_at > world.clock.now() + beyond_us:
                lost += world.tables.forget_row(DUE, (slot, minute, row.due_at, job_id, row.revision, row.entry))
    return lost


HOURLY = JobSpec("demo.noop", Cron("30 * * * *"))


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
    world.clock.advance(1_900 * US_PER_S)  # some dates are over by then
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


def test_a_job_of_which_the_log_lacks_the_newest_command_is_named_while_it_stands_still() -> None:
    """Given a cluster that was brought back from a copy without the newest commands, beside the store as it was."""
    world = World(partitions=1, pace=PACE)
    world.command(CommandKind.CREATE, "acme:hourly", HOURLY)
    for _ in range(3):
        world.command(CommandKind.TRIGGER, "acme:nobody")
    world.command(CommandKind.UPDATE, "acme:hourly", JobSpec("demo.noop", Cron("15 * * * *")))
    world.run(3)
    copied = World(partitions=1, pace=PACE)
    copied.clock.advance(world.clock.now() - START)
    copied.tables = world.tables
    copied.crash()
    copied.command(CommandKind.CREATE, "acme:hourly", HOURLY)
    with capture_logs() as said:
        copied.run(8)
    named = [line for line in said if line["event"].startswith("a job may stand still")]
    told = {(line["job_id"], line["revision"] % 2**48, line["next_offset"]) for line in named}
    assert told == {("acme:hourly", 4, 1)}
    assert repairs(copied) == 0


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


def test_a_shard_that_is_never_on_time_is_swept_too() -> None:
    """Ten fires a second, one of which is decided in each round."""
    world = World(partitions=1, pace=Pace(round_records=1, sweep_every_s=0.25))
    for number in range(10):
        world.command(CommandKind.CREATE, f"acme:tick{number}", every(1))
    world.command(CommandKind.CREATE, "acme:hourly", HOURLY)
    world.run(90, 0.5)
    (shard,) = world.dispatcher._shards.values()
    assert shard.cursor.due_at < world.clock.now() - 10 * US_PER_S, "it is far behind"
    assert lose_rows(world, "acme:hourly") == 1
    world.run(90, 0.5)
    assert shard.cursor.due_at < world.clock.now() - 10 * US_PER_S
    assert repairs(world) == 1
    assert lose_rows(world, "acme:hourly") == 1, "it stands"


def test_a_shard_whose_commands_never_end_is_swept_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(applying, "BATCH", 1)
    world = World(partitions=1, pace=PACE)
    world.command(CommandKind.CREATE, "acme:hourly", HOURLY)
    world.run(3)
    lose_rows(world, "acme:hourly")
    for number in range(30):
        for each in range(8):
            world.command(CommandKind.CREATE, f"acme:j{number}.{each}", every(3_600))
        world.run(0.1)
        (shard,) = world.dispatcher._shards.values()
        assert number < 5 or shard.inbox
    assert repairs(world) == 1


def test_a_lap_comes_to_its_end_however_often_its_shard_changes_hands(monkeypatch: pytest.MonkeyPatch) -> None:
    """One job at a time, and nobody lives for longer than it takes to look at a few of them."""
    monkeypatch.setattr(sweep, "SLICE", 1)
    monkeypatch.setattr(lap, "TELL_EVERY_S", 0.1)
    world = World(partitions=1, pace=PACE)
    jobs = [f"acme:j{number:02d}" for number in range(24)]
    for job_id in jobs:
        world.command(CommandKind.CREATE, job_id, HOURLY)
    world.run(1)
    assert [lose_rows(world, job_id) for job_id in jobs] == [1] * 24
    for _ in range(24):
        world.crash()
        world.run(0.8)
    assert repairs(world) == 24


def test_a_job_with_jitter_is_looked_after_from_its_edit_on() -> None:
    world = World(partitions=1, pace=PACE)
    world.command(CommandKind.CREATE, "acme:job", HOURLY)
    world.run(3)
    spec = JobSpec("demo.noop", Cron("15 * * * *"), timing=Timing(jitter_us=600 * US_PER_S))
    world.command(CommandKind.UPDATE, "acme:job", spec)
    world.run(3)
    assert lose_rows(world, "acme:job") == 1
    world.run(5)
    assert repairs(world) == 1


def test_what_an_older_version_still_owes_is_looked_after() -> None:
    """An edit came while a fire was waiting out its jitter: its row is of the older revision."""
    at = START + 30 * US_PER_S
    spec = JobSpec("demo.noop", Dates((at,)), timing=Timing(jitter_us=900 * US_PER_S))
    world = World(partitions=1, pace=PACE)
    world.command(CommandKind.CREATE, "acme:job", spec)
    world.run(40, 0.25)
    assert not world.runs("acme:job"), "it waits"
    world.command(CommandKind.UPDATE, "acme:job", HOURLY)
    world.run(3)
    assert lose_rows(world, "acme:job") == 2
    world.run(5)
    assert repairs(world) == 2
    world.run(900, 1.0)
    assert make_run_id("acme:job", at) in world.runs("acme:job")


def test_a_machine_that_slept_while_it_looked_finds_nothing_missing() -> None:
    """Four days pass between its look at the clock and at the rows: they have expired, and nobody lost them."""
    world = World(partitions=1, pace=PACE)
    world.command(CommandKind.CREATE, "acme:minutely", JobSpec("demo.noop", Cron("* * * * *")))
    world.run(130, 0.25)
    naps = [4 * 86_400 * US_PER_S]

    def nap(_: str, operation: str) -> None:
        if operation == "standing_due" and naps:
            world.clock.advance(naps.pop())

    world.tables.on_call = nap
    world.run(2)
    assert not naps
    assert repairs(world) == 0


def test_repairs_survive_a_clock_that_is_behind_its_predecessors() -> None:
    """The word of whoever came before bears a later time, and must not hide what is told now."""
    world = World(partitions=1, pace=PACE)
    world.command(CommandKind.CREATE, "acme:hourly", HOURLY)
    world.run(3)
    store = MemoryStore(world.clock, world.tables, "onlooker")
    (told,) = store.told_of_all(DUE_SWEEP)
    store.tell(DUE_SWEEP, "0", told.parts, world.clock.now() + 30 * US_PER_S)
    lose_rows(world, "acme:hourly")
    world.crash()
    world.run(5)
    assert repairs(world) == 1


@pytest.mark.parametrize(
    "garbage", [{"lap": 7}, {"repairs": "many"}, {"lap": {"tzdata": "", "slots": 256}}, {"zones": 1}]
)
def test_a_place_that_cannot_be_read_stops_nobody(garbage: dict[str, object]) -> None:
    world = World(partitions=1, pace=PACE)
    world.command(CommandKind.CREATE, "acme:hourly", HOURLY)
    store = MemoryStore(world.clock, world.tables, "onlooker")
    store.tell(DUE_SWEEP, "0", garbage, world.clock.now())
    world.run(3)
    lose_rows(world, "acme:hourly")
    world.run(5)
    assert repairs(world) == 1


class OneStepLater:
    """As the thread of a process: what is asked in one step is answered by the next one."""

    step = 0

    def begin(self, call: Call) -> Pending:
        made, beside, begun = Made(call), self, self.step

        class Answer:
            @property
            def is_done(self) -> bool:
                return beside.step > begun

            def result(self) -> object:
                return made.result()

        return Answer()

    def close(self) -> None:
        """Nothing is left."""


def test_a_shard_whose_commands_never_end_is_swept_also_where_answers_take_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each command has the sweep given up; and its turn to be done at once is no other errand's."""
    monkeypatch.setattr(window, "SLOTS_PER_SLICE", 256)
    beside = OneStepLater()
    world = World(partitions=1, pace=Pace(sweep_every_s=0.05, sweep_lap_s=0.5), beside=beside)

    def turn() -> None:
        beside.step += 1
        world.steps(1)
        world.clock.advance(20_000)

    for job_id in ("acme:hourly", "acme:tick"):
        world.command(CommandKind.CREATE, job_id, HOURLY if job_id == "acme:hourly" else every(1))
    for _ in range(300):
        turn()
    assert lose_rows(world, "acme:hourly") == 1
    for _ in range(1_500):  # half a minute: 50 commands a second
        world.command(CommandKind.TRIGGER, "acme:tick")
        turn()
    assert repairs(world) == 1
