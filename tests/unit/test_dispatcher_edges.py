"""What is decided stays decided, also where a command changes a job's place inside its due time."""

from __future__ import annotations

import pytest
from waterclock.dispatcher import window
from waterclock.dispatcher.loop import Dispatcher
from waterclock.dispatcher.pace import Pace

from tests.oracle import books
from tests.unit.dispatcher_world import NAMES, START, World, every, raw
from waterclock.clock import ManualClock
from waterclock.log.memory import MemoryLog
from waterclock.model.events import EventKind
from waterclock.model.ids import US_PER_S
from waterclock.model.job import CommandKind, Tier
from waterclock.store.memory import MemoryStore

FIRST = START + 10 * US_PER_S
ONE_BY_ONE = Pace(round_records=1, idle_commit_s=1_000.0)
"""No idle cursor: it stands where the last fire left it."""


def balance(world: World, behind_s: int = 5) -> list[str]:
    records = {topic: [raw(record) for record in world.records(f"waterclock.{topic}")] for topic in TOPICS}
    return books.balance(records["commands"], records["run-events"], world.clock.now() - behind_s * US_PER_S)[0]


TOPICS = ("commands", "run-events")


@pytest.mark.parametrize("crashes", [False, True])
@pytest.mark.parametrize("tiers", [(Tier.MEDIUM, Tier.LOW), (Tier.MEDIUM, Tier.HIGH)])
def test_a_run_made_before_its_job_changed_tier_is_not_skipped_by_a_pause(
    tiers: tuple[Tier, Tier], *, crashes: bool
) -> None:
    world = World(partitions=1, pace=ONE_BY_ONE)
    world.run(1)
    world.command(CommandKind.CREATE, "t:beat", every(10, start_at=FIRST, tier=tiers[0]))
    world.run(19.2)
    world.command(CommandKind.UPDATE, "t:beat", every(10, start_at=FIRST, tier=tiers[1]))
    world.run(0.2)
    if crashes:
        world.crash()
        world.run(0.2)
    world.command(CommandKind.PAUSE, "t:beat")
    world.run(20)
    world.command(CommandKind.RESUME, "t:beat")
    world.run(20)
    assert balance(world) == []
    assert [event.reason for event in world.events(EventKind.SKIPPED)] == ["paused"]


def test_fires_of_one_instant_are_made_once_when_a_command_arrives_among_them() -> None:
    """Four jobs fire together, one in each round; one of them changes its tier meanwhile, and the owner dies."""
    world = World(partitions=1, pace=ONE_BY_ONE)
    world.run(1)
    jobs = [f"t:job{number}" for number in range(4)]
    for job in jobs:
        world.command(CommandKind.CREATE, job, every(10, start_at=FIRST, tier=Tier.MEDIUM))
    world.run(8.9)
    for raised, lowered in (("t:job3", "t:job0"), ("t:job2", "t:job1")):
        world.clock.advance(150_000)
        world.steps(2)  # inside the due time: two of its fires are made
        world.command(CommandKind.UPDATE, raised, every(10, start_at=FIRST, tier=Tier.HIGH))
        world.command(CommandKind.UPDATE, lowered, every(10, start_at=FIRST, tier=Tier.LOW))
        world.crash()
        world.run(9.85)
    world.run(10)
    assert balance(world) == []
    assert len(world.runs()) >= 3 * len(jobs)


def test_a_slice_of_a_full_minute_takes_fewer_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window, "SLICE_ROWS", 6)
    slices = []
    world = World(partitions=1)
    world.run(1)
    for number in range(1_000):
        world.command(CommandKind.CREATE, f"t:job{number}", every(60))
    world.run(5)
    world.tables.on_call = lambda _, operation: slices.append(operation) if operation == "load_due" else None
    world.run(60)
    assert len(slices) > 3 * 256 / window.SLOTS_PER_SLICE
    assert balance(world) == []


class _Behind:
    """A dispatcher's clock that is behind the broker's, which stamps the commands."""

    def __init__(self, clock: ManualClock, us: int) -> None:
        self._clock, self._us = clock, us

    def now(self) -> int:
        return self._clock.now() - self._us

    def monotonic_s(self) -> float:
        return self._clock.monotonic_s()


def test_a_catch_up_leaves_the_fires_between_our_clock_and_a_newer_stamp_owed() -> None:
    world = World(partitions=1)
    world.run(1)
    world.command(CommandKind.CREATE, "t:beat", every(6, start_at=FIRST))
    world.run(30)
    world.cluster.kill("d1-1")
    world.clock.advance(FIRST + 3_600 * US_PER_S + US_PER_S // 2 - world.clock.now())  # half a second after a fire
    world.command(CommandKind.CREATE, "t:beat", every(60, start_at=FIRST))
    log = MemoryLog(world.cluster, "d1-2", session_timeout_s=6.0)
    store = MemoryStore(world.clock, world.tables, "d1-2")
    world.dispatcher = Dispatcher(_Behind(world.clock, 30 * US_PER_S), log, store, NAMES, instance="d1")
    world.run(200)
    assert any(event.kind is EventKind.SKIPPED for event in world.events()), "there was no catch-up"
    assert balance(world, behind_s=40) == []


MADE = 500
"""Steps, but no more than until the fire in question is made."""


def start_ahead(world: World, number: int) -> None:
    """A dispatcher whose clock is a second ahead of the broker's: commands come late."""
    log = MemoryLog(world.cluster, f"d1-ahead{number}", session_timeout_s=6.0)
    clock = _Behind(world.clock, -US_PER_S)
    store = MemoryStore(clock, world.tables, f"d1-ahead{number}")
    world.dispatcher = Dispatcher(clock, log, store, NAMES, instance="d1", pace=ONE_BY_ONE)


def overtaken_inside_a_due_time() -> World:
    """Two of four fires of one instant are decided; then one of the others gets a tier that comes earlier in it."""
    world = World(partitions=1, pace=ONE_BY_ONE)
    world.run(1)
    for job, tier in (("t:m", Tier.MEDIUM), ("t:n", Tier.MEDIUM), ("t:a", Tier.LOW), ("t:z", Tier.LOW)):
        world.command(CommandKind.CREATE, job, every(10, start_at=FIRST, tier=tier))
    world.run(12)
    world.cluster.kill("d1-1")
    start_ahead(world, 1)
    world.run(FIRST / US_PER_S + 8.8 - world.clock.now() / US_PER_S)
    before = len(world.runs())
    world.clock.advance(300_000)  # for the dispatcher the next fires are due, for the brokers not yet
    while len(world.runs()) < before + 2:
        world.steps(1)
    world.command(CommandKind.UPDATE, "t:a", every(10, start_at=FIRST, tier=Tier.MEDIUM))
    return world


@pytest.mark.parametrize("away_s", [0, 240])
@pytest.mark.parametrize("crashes_after", [0, 10, MADE])
@pytest.mark.parametrize("then", [None, CommandKind.PAUSE, CommandKind.DELETE, CommandKind.UPDATE])
def test_a_fire_that_a_new_tier_puts_before_the_cursor_is_neither_lost_nor_made_twice(
    then: CommandKind | None, crashes_after: int, away_s: int
) -> None:
    """The owner dies among fires of one instant; one of those that are left gets a tier that comes earlier in it."""
    world = overtaken_inside_a_due_time()
    if then is not None:
        world.clock.advance(1_000_000)
        world.command(then, "t:a", every(5, start_at=FIRST) if then is CommandKind.UPDATE else None)
    world.cluster.kill("d1-ahead1")
    world.clock.advance(away_s * US_PER_S)  # with four minutes of backlog the edge jumps, and a gap begins inside it
    start_ahead(world, 2)
    if crashes_after:
        for _ in range(crashes_after):
            if not any(run_id.startswith("t:a@20261118T110720Z") for run_id in world.runs()):
                world.steps(1)
                world.clock.advance(20_000)
        world.clock.advance(7 * US_PER_S)
        world.cluster.kill("d1-ahead2")
        start_ahead(world, 3)
    world.run(40)
    assert balance(world) == []
    owed = {event.run_id for event in world.events() if event.job_id == "t:a" and event.run_id}
    assert any(run_id.endswith("@20261118T110720Z") for run_id in owed), sorted(owed)
