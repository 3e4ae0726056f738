"""Owners whose clocks and settings differ, or that meet a clock that was moved: what one has written ahead, decided or
stamped, the next one understands."""

from __future__ import annotations

from collections import Counter
from unittest import mock

import pytest
from structlog.testing import capture_logs
from waterclock.dispatcher import gap_lanes, shard, window
from waterclock.dispatcher.loop import Dispatcher
from waterclock.dispatcher.pace import Pace

from tests.oracle import books
from tests.skewed_clock import SkewedClock
from tests.unit.dispatcher_world import NAMES, START, World, every, raw
from waterclock.log.memory import MemoryLog
from waterclock.model.errors import BackendDown
from waterclock.model.events import EventKind, Pending
from waterclock.model.ids import US_PER_S, Instant
from waterclock.model.job import CommandKind, JobStatus
from waterclock.model.timetable import offset_of
from waterclock.model.timing import Timing
from waterclock.settings import DispatcherSettings
from waterclock.store.memory import MemoryStore

JOB = "t:job"
PERIOD_S = 2 * 3_600
FIRE = START + PERIOD_S * US_PER_S
JITTER_US = 1_800 * US_PER_S


class Owners(World):
    """One shard, whose owners follow one another. Sessions outlast the hours that are passed over."""

    def take_over(self, look_ahead_s: float = 90.0, skew_us: int = 0, **pace: float) -> SkewedClock:
        """The owner is gone, and another one starts with this look-ahead and a clock of its own."""
        self.cluster.kill(f"d1-{self.lives}")
        self.lives += 1
        client, clock = f"d1-{self.lives}", SkewedClock(self.clock, skew_us)
        log = MemoryLog(self.cluster, client, session_timeout_s=1e7)
        store = MemoryStore(clock, self.tables, client)
        pace_of = Pace(look_ahead_s=look_ahead_s, **pace)
        self.dispatcher = Dispatcher(clock, log, store, NAMES, instance="d1", pace=pace_of)
        self.run(3, 0.1)
        return clock

    def run_to(self, until: Instant) -> None:
        """In strides, hours long."""
        while self.clock.now() < until:
            self.steps(6)
            self.clock.advance(min(20 * US_PER_S, until - self.clock.now()))
        self.run(2)

    def unbalanced(self) -> list[str]:
        """What the books complain of, by the log alone."""
        topics = ("commands", "run-events")
        commands, events = ([raw(record) for record in self.records(f"waterclock.{topic}")] for topic in topics)
        return list(books.balance(commands, events, self.clock.now() - 5 * US_PER_S)[0])


@pytest.fixture
def world():
    with mock.patch.object(window, "SLOTS_PER_SLICE", 256):
        yield Owners(partitions=1)


def test_no_setting_looks_further_ahead_than_rows_are_voided() -> None:
    (bound,) = [each.le for each in DispatcherSettings.model_fields["look_ahead_s"].metadata if hasattr(each, "le")]
    assert bound == shard.LOOK_AHEAD_S_MAX


@pytest.mark.parametrize("kind", [CommandKind.DELETE, CommandKind.PAUSE, CommandKind.UPDATE])
@pytest.mark.parametrize("why", ["its look-ahead was longer", "its clock was ahead"])
def test_rows_that_a_predecessor_wrote_further_ahead_never_fire_once_they_are_superseded(
    world: Owners, kind: CommandKind, why: str
) -> None:
    is_ahead = "clock" in why
    world.take_over(600.0, 600 * US_PER_S if is_ahead else 0)
    world.command(CommandKind.CREATE, JOB, every(PERIOD_S, start_at=FIRE + (1_200 * US_PER_S if is_ahead else 0)))
    world.run(1)
    world.run_to(FIRE - 400 * US_PER_S)
    world.take_over(60.0)
    spec = every(PERIOD_S, start_at=FIRE + 600 * US_PER_S) if kind is CommandKind.UPDATE else None
    world.command(kind, JOB, spec)
    world.run(3, 0.1)
    world.run_to(FIRE + 2 * PERIOD_S * US_PER_S + 1_500 * US_PER_S)
    made = [event.detail.revision for event in world.events(EventKind.PENDING) if isinstance(event.detail, Pending)]
    assert len(set(made)) == len(made) // 3 == (1 if spec else 0)
    assert set(Counter(world.runs()).values()) <= {1}
    # The books complain of edges that were far ahead of the brokers' clock, and rightly.
    assert [each for each in world.unbalanced() if not (is_ahead and "ahead of its record" in each)] == []


def test_a_clock_that_was_set_back_leaves_no_row_behind(world: Owners) -> None:
    clock = world.take_over(90.0, 1_800 * US_PER_S)
    world.command(CommandKind.CREATE, JOB, every(PERIOD_S, start_at=FIRE + 1_860 * US_PER_S))
    world.run(1)
    world.run_to(FIRE)
    clock.skew_us = 0
    world.run(2)
    world.command(CommandKind.DELETE, JOB)
    world.run(3, 0.1)
    world.run_to(FIRE + 2 * PERIOD_S * US_PER_S)
    assert world.runs() == []


def _jittered() -> str:
    """A job's name whose jitter puts its fires off by a minute or two."""
    names = (f"t:job{number}" for number in range(1_000))
    return next(name for name in names if 60 * US_PER_S < offset_of(name, JITTER_US) < 120 * US_PER_S)


def test_a_job_that_was_deleted_and_made_again_makes_no_fire_twice(world: Owners) -> None:
    """Given a fire that the old job has made, when a jitter puts the same fire off, it is made once."""
    job, fire_at = _jittered(), START + 120 * US_PER_S
    world.run(1)
    world.command(CommandKind.CREATE, job, every(PERIOD_S, start_at=fire_at))
    world.run(1)
    world.run((fire_at - world.clock.now()) / US_PER_S - 3, 0.5)

    def away(_client: str, _operation: str) -> None:
        raise BackendDown("cassandra", "away")

    world.tables.on_call = away
    world.command(CommandKind.DELETE, job)
    world.run(0.5)
    world.command(CommandKind.CREATE, job, every(PERIOD_S, start_at=fire_at, timing=Timing(jitter_us=JITTER_US)))
    world.run(6)
    world.tables.on_call = None
    world.run(150, 0.5)
    assert Counter(world.runs()) == {world.runs()[0]: 1}
    assert world.unbalanced() == []


@pytest.mark.parametrize("max_runs", [0, 5])
def test_a_job_that_was_made_again_and_edited_at_once_makes_no_fire_twice(world: Owners, max_runs: int) -> None:
    job, fire_at = _jittered(), START + 120 * US_PER_S
    world.take_over(skew_us=2 * US_PER_S, sweep_every_s=1e9)
    world.command(CommandKind.CREATE, job, every(PERIOD_S, start_at=fire_at, timing=Timing(max_runs=max_runs)))
    world.run(1)
    world.run((fire_at - world.clock.now()) / US_PER_S - 1.0, 0.5)
    timing = Timing(jitter_us=JITTER_US, max_runs=max_runs)
    world.command(CommandKind.DELETE, job)
    world.run(0.1)
    world.command(CommandKind.CREATE, job, every(PERIOD_S, start_at=fire_at, timing=timing))
    world.run(0.1)
    world.command(CommandKind.UPDATE, job, every(PERIOD_S, start_at=fire_at, timing=timing, payload=b"x"))
    world.run(0.1)
    assert world.clock.now() < fire_at, "all three came before the fire, by the brokers' clock"
    world.run(200, 0.5)
    assert Counter(world.runs()) == {world.runs()[0]: 1}
    assert world.unbalanced() == []


def test_an_owner_that_is_hours_behind_the_brokers_waits_with_edits_and_goes_on(world: Owners) -> None:
    """Given a clock that is too far behind for the stamps of edits, it fires on, and edits once the clock is right."""
    clock = world.take_over()
    world.command(CommandKind.CREATE, "t:beat", every(5))
    world.command(CommandKind.CREATE, JOB, every(5))
    world.run(2, 0.5)
    clock.skew_us = -65 * 60 * US_PER_S
    world.run(2, 0.5)
    world.command(CommandKind.PAUSE, JOB)
    with capture_logs() as logs:
        world.run(30, 0.5)
    told = [each for each in logs if each["event"] == "commands wait for this process's clock"]
    assert 1 <= len(told) <= 8
    assert "set it right" in told[0]["cause"]
    assert not [each for each in logs if each["event"].startswith("store away")], "nothing else waits"
    clock.skew_us = 0
    world.run(60, 0.5)
    row = MemoryStore(world.clock, world.tables, "reader").job(JOB)
    assert row is not None
    assert row.status is JobStatus.PAUSED
    assert world.unbalanced() == []


def test_a_clock_that_steps_back_while_a_jump_is_prepared_never_takes_the_edge_back(world: Owners) -> None:
    clock = world.take_over()
    world.command(CommandKind.CREATE, "t:a", every(10, start_at=START))
    world.run(60, 0.5)
    world.clock.advance(120 * US_PER_S)  # the machine stood still, and its clock is set wrong just between two looks
    wants = gap_lanes.jump.wants_jump

    def steps_back(of: shard.Shard, now: Instant) -> bool:
        found = wants(of, now)
        clock.skew_us = -3_600 * US_PER_S if found else clock.skew_us
        return found

    edge_at = world.dispatcher._shards[0].cursor.due_at
    with mock.patch.object(gap_lanes.jump, "wants_jump", steps_back):
        world.run(5, 0.1)
    assert clock.skew_us, "it stepped back, or this proves nothing"
    assert world.dispatcher._shards[0].cursor.due_at >= edge_at
    clock.skew_us = 0
    world.run(30, 0.2)
    world.take_over()
    world.run(30, 0.2)
    assert set(Counter(world.runs()).values()) == {1}
    assert world.unbalanced() == []


def test_a_clock_that_steps_back_before_a_minute_is_disposed_of_puts_that_off(world: Owners) -> None:
    """Decided by one look at the clock, and held against a second one by the store: a second between them is enough."""
    clock = world.take_over()
    world.command(CommandKind.CREATE, "t:a", every(10, start_at=START))
    world.run(90 * 60, 1.0)
    of, asked = world.dispatcher._shards[0], list[int]()
    dispose = MemoryStore.dispose_due

    def stepped_back(store: MemoryStore, slots: list[int], minute: int) -> bool:
        asked.append(minute)
        clock.skew_us = -30 * US_PER_S if asked == [minute] else 0
        return dispose(store, slots, minute)

    disposed_to = of.disposed_minute
    assert disposed_to > START // (60 * US_PER_S), "buckets are disposed of by now"
    with mock.patch.object(MemoryStore, "dispose_due", stepped_back):
        world.run(180, 1.0)
    assert asked[:2] == [disposed_to, disposed_to], "the same one again, once the clock is right"
    assert of is world.dispatcher._shards[0], "nothing was dropped"
    assert of.disposed_minute > disposed_to
    assert world.unbalanced() == []
