"""Every closed hour is verified once, by itself, across restarts; what is wrong is counted and named."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from waterclock.dispatcher import window

from tests.unit.dispatcher_world import NAMES, START, World, every
from tests.unit.later_release import not_understood
from waterclock.ledger.facts import HOUR_US
from waterclock.ledger.shards import Ledger, Remark
from waterclock.log.port import Outgoing
from waterclock.model.errors import BackendDown, LostResource
from waterclock.model.events import EventKind, Origin, Pending, RunEvent
from waterclock.model.ids import US_PER_S, make_run_id, partition_of
from waterclock.model.job import CommandKind, Tier
from waterclock.model.timing import JITTER_US_MAX, Timing
from waterclock.recorder.running_ledger import RunningLedger
from waterclock.store.memory import MemoryStore
from waterclock.store.upkeep import LEDGER, Told
from waterclock.wire import messages

HOUR_BEGINS = START // HOUR_US * HOUR_US


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """Two shards, a job that fires every ten minutes, for over three hours."""
    monkeypatch.setattr(window, "SLOTS_PER_SLICE", 256)
    world = World()
    world.command(CommandKind.CREATE, "t:ten", every(600))
    world.run(4)
    while world.clock.now() < HOUR_BEGINS + 3 * HOUR_US + 600 * US_PER_S:
        world.steps(3)
        world.clock.advance(4 * US_PER_S)
    world.run(2)
    return world


def core(world: World, owned: tuple[int, ...] = (0, 1), **more: int) -> RunningLedger:
    store = MemoryStore(world.clock, world.tables, "recorder")
    return RunningLedger(world.outside, store, world.clock, NAMES, lambda: owned, **more)


def turn(core: RunningLedger, world: World, times: int = 200) -> None:
    for _ in range(times):
        core.step()
        world.clock.advance(1_000)


def told(world: World) -> dict[str, Told]:
    store = MemoryStore(world.clock, world.tables, "onlooker")
    return {each.place: each for each in store.told_of_all(LEDGER)}


def doubled(world: World, fire_at: int) -> None:
    appender = world.outside.appender()
    pattern = next(e for e in world.events(EventKind.PENDING) if e.job_id == "t:ten")
    assert isinstance(pattern.detail, Pending)
    detail = pattern.detail._replace(fire_at=fire_at, origin=Origin.SCHEDULE, tier=Tier.MEDIUM)
    event = RunEvent(EventKind.PENDING, "t:ten", make_run_id("t:ten", fire_at), world.clock.now(), detail=detail)
    message: Outgoing = messages.event_message(NAMES, event)
    appender.append(message)
    appender.flush(1.0)
    appender.close()


def test_closed_hours_are_verified_and_the_open_one_is_not(world: World) -> None:
    turn(core(world), world)
    lines = told(world)
    assert lines.keys() == {"0", "1"}
    assert {each.parts["verified_to"] for each in lines.values()} == {HOUR_BEGINS + 3 * HOUR_US}
    assert all(each.parts[kind] == 0 for each in lines.values() for kind in ("missing", "doubled", "wrong"))
    assert all(each.parts["unproved_hours"] == 0 for each in lines.values())


def test_what_is_wrong_is_counted_once_across_restarts_and_named(world: World) -> None:
    fire_at = next(e.detail.fire_at for e in world.events(EventKind.PENDING) if isinstance(e.detail, Pending))
    doubled(world, fire_at)
    for _ in range(3):
        turn(core(world), world)
    parts = [each.parts for each in told(world).values() if each.parts["named"]]
    assert [(each["doubled"], each["missing"]) for each in parts] == [(1, 0)]
    assert [each["run_id"] for each in parts[0]["named"]] == [make_run_id("t:ten", fire_at)]


def test_it_goes_on_where_it_was_and_each_hour_is_read_once(world: World) -> None:
    turn(core(world), world)
    before = told(world)
    world.clock.advance(HOUR_US)
    for _ in range(2):
        world.crash()
        for _ in range(300):
            world.steps(1)
            world.clock.advance(5_000)
    world.run(15, 0.1)
    turn(core(world), world)
    after = told(world)
    assert {each.parts["since"] for each in after.values()} == {each.parts["since"] for each in before.values()}
    assert {each.parts["verified_to"] for each in after.values()} == {HOUR_BEGINS + 4 * HOUR_US}


def test_a_shard_whose_dispatcher_is_away_waits(world: World) -> None:
    world.cluster.kill(f"d1-{world.lives}")
    world.clock.advance(5 * HOUR_US)
    turn(core(world), world)
    assert {each.parts["verified_to"] for each in told(world).values()} == {HOUR_BEGINS + 3 * HOUR_US}


def test_only_who_owns_a_shard_verifies_it(world: World) -> None:
    turn(core(world, owned=(1,)), world)
    assert told(world).keys() == {"1"}


def test_an_absent_store_is_waited_for(world: World) -> None:
    running = core(world)

    def away(client: str, _operation: str) -> None:
        if client == "recorder":
            raise BackendDown("cassandra", "away")

    world.tables.on_call = away
    turn(running, world, 20)
    world.tables.on_call = None
    world.clock.advance(10 * US_PER_S)
    turn(running, world)
    assert told(world).keys() == {"0", "1"}


def test_an_hour_that_does_not_fit_into_memory_is_told_as_unproved(world: World) -> None:
    turn(core(world, facts_max=2), world, 600)
    unproved = sum(each.parts["unproved_hours"] for each in told(world).values())
    assert unproved >= 3
    assert {each.parts["verified_to"] for each in told(world).values()} == {HOUR_BEGINS + 3 * HOUR_US}


def test_each_hour_of_several_that_are_judged_at_once_is_told_as_unproved(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def judging(self: Ledger, *asked: Any) -> Any:
        verdict = yield from right(self, *asked)
        return verdict._replace(remarks=(Remark("t:mars is not judged: its zone is gone", hides=True),))

    right = Ledger.judging
    monkeypatch.setattr(Ledger, "judging", judging)
    turn(core(world), world)
    assert {each.parts["unproved_hours"] for each in told(world).values()} == {24}


def test_a_shard_that_cannot_be_read_keeps_no_other_waiting(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def judging(self: Ledger, shard: int, *rest: Any) -> Any:
        yield
        if shard == 0:
            raise LostResource("its partition has lost what was in it")
        return (yield from right(self, shard, *rest))

    right = Ledger.judging
    monkeypatch.setattr(Ledger, "judging", judging)
    running = core(world)
    for _ in range(100):
        running.step()
        world.clock.advance(US_PER_S)
    assert told(world).keys() == {"1"}


def test_an_hour_with_an_open_gap_is_judged_once_it_is_caught_up(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    minute_us = 60 * US_PER_S
    right, gap_at = Ledger.positions, HOUR_BEGINS + 2 * HOUR_US + 10 * minute_us
    gaps = [f"|{gap_at}|1|||{gap_at + 20 * minute_us}|||||3"]

    def positions(self: Ledger) -> Any:
        found = right(self)
        if not gaps:
            return found
        return {at: each._replace(metadata=f"2{each.metadata[1:]}{gaps[0]}") for at, each in found.items()}

    monkeypatch.setattr(Ledger, "positions", positions)
    running = core(world)
    turn(running, world)
    assert {each.parts["verified_to"] for each in told(world).values()} == {HOUR_BEGINS + 2 * HOUR_US}
    gaps.clear()
    world.clock.advance(minute_us)
    turn(running, world)
    assert {each.parts["verified_to"] for each in told(world).values()} == {HOUR_BEGINS + 3 * HOUR_US}
    assert {each.parts["unproved_hours"] for each in told(world).values()} == {0}


def test_an_hour_is_judged_once_all_is_due_that_jitter_holds_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window, "SLOTS_PER_SLICE", 256)
    world, minute_us = World(), 60 * US_PER_S
    spec = every(3600, start_at=HOUR_BEGINS + 59 * minute_us, timing=Timing(jitter_us=JITTER_US_MAX))
    world.command(CommandKind.CREATE, "t:late1", spec)
    running = core(world)

    def verified_at(minutes: int) -> set[int]:
        while world.clock.now() < HOUR_BEGINS + minutes * minute_us:
            world.steps(3)
            world.clock.advance(4 * US_PER_S)
        turn(running, world)
        return {each.parts["verified_to"] for each in told(world).values() if each.place == place}

    place = str(partition_of("t:late1", 2))
    assert HOUR_BEGINS + HOUR_US not in verified_at(70)
    assert not [e for e in world.events(EventKind.PENDING) if e.job_id == "t:late1"]  # due at :85
    assert verified_at(100) == {HOUR_BEGINS + HOUR_US}


def test_a_job_of_a_later_release_holds_up_no_other_and_its_hours_are_told_as_unproved(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    not_understood(monkeypatch, "version_of", "t:ten")
    turn(core(world), world)
    lines = told(world)
    assert {each.parts["verified_to"] for each in lines.values()} == {HOUR_BEGINS + 3 * HOUR_US}
    mine = str(partition_of("t:ten", 2))
    assert {place: each.parts["unproved_hours"] > 0 for place, each in lines.items()} == {
        place: place == mine for place in ("0", "1")
    }
    assert all(each.parts[kind] == 0 for each in lines.values() for kind in ("missing", "doubled", "wrong"))


def test_a_bug_about_one_shard_does_not_stop_the_others(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    mine, other = (partition_of("t:ten", 2), 1 - partition_of("t:ten", 2))
    judging = Ledger.judging

    def judge(self: Ledger, shard: int, *rest: Any) -> Any:
        if shard == mine:
            raise AssertionError("a bug")
        return (yield from judging(self, shard, *rest))

    monkeypatch.setattr(Ledger, "judging", judge)
    running = core(world)
    for _ in range(200):
        with suppress(AssertionError):
            running.step()
        world.clock.advance(1_000)
    assert told(world).keys() == {str(other)}
