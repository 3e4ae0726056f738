"""Who is started by what is known whole, or not claimed to be known, whatever happens to who reads it."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Sequence

import pytest
from waterclock.retry_router.triggering import waits_for

from tests.unit.router_world import JOB, NAMES, OTHER, World
from waterclock.listeners import Listeners, ListenersFull
from waterclock.log.memory import MemoryLog
from waterclock.log.memory_consumer import MemoryReader
from waterclock.log.port import Isolation, Record, TopicPartition
from waterclock.model.errors import BackendDown, LostResource
from waterclock.model.triggers import JobTriggers, RunEnds, Triggers
from waterclock.wire.messages import job_triggers_message, triggers_tombstone


@pytest.fixture
def world() -> World:
    return World()


def listens(world: World, *conditions: RunEnds, job_id: str = "acme:report") -> None:
    stood = (world.clock.now() - 1,) * len(conditions)
    world.append(job_triggers_message(NAMES, JobTriggers(job_id, 7, stood[0], Triggers(conditions, stood))))


class Answers:
    """A log in which somebody stands in for the broker: it may lose what is read, and not answer."""

    def __init__(self, log: MemoryLog, monkeypatch: pytest.MonkeyPatch) -> None:
        self.lost = False
        self.away = ""
        low, high, poll = log.low_watermark, log.high_watermark, MemoryReader.poll
        monkeypatch.setattr(log, "low_watermark", lambda place: self._ask("low", low(place)))
        monkeypatch.setattr(log, "high_watermark", lambda place: self._ask("high", high(place)))
        monkeypatch.setattr(MemoryReader, "poll", lambda *args: self._read(poll, *args))

    def _ask(self, what: str, answer: int) -> int:
        if self.away == what:
            raise BackendDown("kafka", "no answer")
        return answer

    def _read(self, poll: Callable[..., Sequence[Record]], *args: object) -> Sequence[Record]:
        if self.lost:
            self.lost = False  # the client tells it once
            raise LostResource("truncated")
        return poll(*args)


@pytest.mark.parametrize("away", ["low", "high"])
def test_a_picture_that_was_lost_is_not_taken_for_whole_while_the_broker_is_away(
    world: World, monkeypatch: pytest.MonkeyPatch, away: str
) -> None:
    broker = Answers(world.log, monkeypatch)
    listens(world, RunEnds("nightly"))
    listeners = Listeners(world.log, NAMES.triggers, waits_for, world.clock)
    listeners.look()
    broker.lost, broker.away = True, away
    with pytest.raises(BackendDown):
        listeners.look()
    assert not listeners.caught_up
    broker.away = ""
    for _ in range(3):
        listeners.ask()
        listeners.look()
        assert not listeners.caught_up or listeners.count_of(JOB) == 1
    assert listeners.caught_up


def test_a_topic_that_was_made_anew_is_caught_up_with(world: World) -> None:
    listens(world, RunEnds("nightly"))
    listens(world, RunEnds("nightly"))
    listeners = Listeners(world.log, NAMES.triggers, waits_for, world.clock)
    listeners.look()
    world.cluster.delete_topic(NAMES.triggers)
    world.cluster.create_topic(NAMES.triggers, 1)
    listens(world, RunEnds("hourly"))
    reader = world.log.reader(Isolation.COMMITTED)
    reader.assign({TopicPartition(NAMES.triggers, 0): 9})
    listeners._reader = reader  # as a client finds it after the topic was made anew: beyond its end
    for _ in range(3):
        listeners.look()
    assert (listeners.caught_up, listeners.count_of(OTHER), listeners.count_of(JOB)) == (True, 1, 0)


def _drop_tombstones(world: World) -> None:
    """As brokers do a day after they have compacted the topic."""
    partition = world.cluster.partition(TopicPartition(NAMES.triggers, 0))
    gone = {entry.key for entry in partition._entries if entry.value is None and not entry.is_marker}
    partition._entries = [entry for entry in partition._entries if entry.key not in gone]


def test_who_slept_until_tombstones_were_gone_starts_nothing_by_what_was_taken_away(world: World) -> None:
    """Given a machine that sleeps for two days, in which a job's last condition is taken away."""
    listens(world, RunEnds("nightly"))
    listens(world, RunEnds("nightly"), job_id="acme:other")
    listeners = Listeners(world.log, NAMES.triggers, waits_for, world.clock)
    listeners.ask()
    listeners.look()
    assert listeners.count_of(JOB) == 2
    world.append(triggers_tombstone(NAMES, "acme:report"))
    listens(world, RunEnds("nightly"), job_id="acme:third")
    _drop_tombstones(world)
    world.clock.jump(2 * 86_400 * 1_000_000)
    listeners.ask()
    assert not listeners.caught_up
    while not listeners.caught_up:
        listeners.look()
    assert [each.job_id for each in listeners.of(JOB)] == ["acme:other", "acme:third"]


def test_more_conditions_than_can_be_held_are_told_again_and_never_forgotten(world: World) -> None:
    for number in range(3):
        listens(world, RunEnds("nightly"), job_id=f"tenant-{number}:r")
    listeners = Listeners(world.log, NAMES.triggers, waits_for, world.clock, most=2)
    for _ in range(3):
        with pytest.raises(ListenersFull):
            listeners.look()
        assert not listeners.caught_up
        listeners.look()


def test_more_conditions_than_can_be_held_stop_the_router_and_say_so(world: World) -> None:
    listens(world, RunEnds("a"), RunEnds("b"))
    listens(world, RunEnds("a"), RunEnds("b"), RunEnds("c"))
    listens(world, RunEnds("a"), RunEnds("b"), RunEnds("c"), job_id="globex:b")
    listens(world, RunEnds("a"), job_id="initech:b")
    listeners = Listeners(world.log, NAMES.triggers, waits_for, world.clock, most=6)
    with pytest.raises(ListenersFull, match="more than 6 conditions"):
        listeners.look()


def test_a_tenant_with_too_many_conditions_stops_nobody_else(world: World) -> None:
    """Given a tenant with most of all conditions, others find room, and what it adds waits to be saved again."""
    listens(world, RunEnds("nightly"), RunEnds("hourly"), job_id="globex:b")
    for number in range(9):
        listens(world, RunEnds("nightly"), job_id=f"acme:r{number}")
    listens(world, RunEnds("nightly"), job_id="initech:c")
    listeners = Listeners(world.log, NAMES.triggers, waits_for, world.clock, most=10)
    listeners.look()
    assert [each.job_id for each in listeners.of(JOB)] == [f"acme:r{number}" for number in range(7)]
    assert [listeners.count_of(job) for job in ("globex:nightly", "initech:nightly")] == [1, 1]
    for number in range(2):
        world.append(triggers_tombstone(NAMES, f"acme:r{number}"))
    listens(world, RunEnds("nightly"), job_id="acme:r8")
    listeners.ask()
    listeners.look()
    assert listeners.caught_up
    assert [each.job_id for each in listeners.of(JOB)] == [f"acme:r{number}" for number in (2, 3, 4, 5, 6, 8)]


def test_a_tenant_with_too_many_conditions_stops_nobody_either_who_has_none_yet(world: World) -> None:
    """Retries and leases of all tenants stop with a router, also of those who wait for no ends."""
    for number in range(12):
        listens(world, RunEnds("nightly"), job_id=f"acme:r{number}")
    listeners = Listeners(world.log, NAMES.triggers, waits_for, world.clock, most=10)
    listeners.look()
    assert (listeners.caught_up, listeners.count_of(JOB)) == (True, 9)
    listens(world, RunEnds("nightly"), job_id="globex:first")
    listeners.ask()
    listeners.look()
    assert (listeners.caught_up, listeners.count_of("globex:nightly")) == (True, 1)


def test_nothing_is_kept_of_the_jobs_for_which_nobody_waits(world: World) -> None:
    """A router hears of an end of every job that it ever meets, and there may be millions."""
    listens(world, RunEnds("nightly"))
    listeners = Listeners(world.log, NAMES.triggers, waits_for, world.clock)
    listeners.look()
    tracemalloc.start()
    try:
        for number in range(20_000):
            assert list(listeners.of(f"acme:job-{number}")) == []
        assert tracemalloc.get_traced_memory()[0] < 100_000
    finally:
        tracemalloc.stop()
    assert [each.job_id for each in listeners.of(JOB)] == ["acme:report"]
