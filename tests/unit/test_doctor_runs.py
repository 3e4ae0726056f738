"""The doctor names runs that should move and do not."""

from __future__ import annotations

import pytest
from waterclock.retry_router.loop import RetryRouter

from tests.skewed_clock import SkewedClock
from waterclock.clusters import doctor_runs
from waterclock.clusters.doctor_runs import examine, judge_repairs
from waterclock.clusters.finding import Finding, State
from waterclock.log.memory import MemoryLog
from waterclock.log.port import Committed, TopicPartition
from waterclock.model.events import Ended, EventKind
from waterclock.model.failure_policy import FailurePolicy, policy_to_json
from waterclock.model.ids import US_PER_S
from waterclock.model.job import Tier
from waterclock.wire.names import RUNGS

from .router_world import GENERATION, NAMES, OTHER, World


def findings(world: World) -> dict[str, Finding]:
    return {finding.check: finding for finding in examine(world.log, NAMES, world.clock, GENERATION)}


def taken(world: World) -> None:
    place = TopicPartition(NAMES.runs(Tier.HIGH), 0)
    world.cluster.group(NAMES.worker_group(Tier.HIGH)).commit({place: Committed(world.log.high_watermark(place))})


def test_a_run_whose_work_is_gone_from_its_tier_is_named() -> None:
    world = World()
    run_id, _ = world.pending()
    taken(world)
    assert findings(world)["waiting runs"].state is State.OK, "it is young"
    world.clock.advance(90 * US_PER_S)
    found = findings(world)["waiting runs"]
    assert found.state is State.WARN
    assert run_id in found.found


def test_a_run_whose_work_still_stands_there_is_none_of_them() -> None:
    world = World()
    taken(world)
    world.pending()
    world.clock.advance(90 * US_PER_S)
    assert findings(world)["waiting runs"].state is State.OK


def test_a_run_of_a_dead_worker_is_named_where_nobody_calls_it_lost() -> None:
    world = World()
    run_id, _ = world.claimed(incarnation=world.hello())
    world.clock.advance(90 * US_PER_S)
    assert findings(world)["running runs"].state is State.OK
    world.hello()
    found = findings(world)["running runs"]
    assert found.state is State.FAIL
    assert run_id in found.found


def test_a_run_that_ended_is_held_by_nobody_also_where_its_worker_is_dead() -> None:
    world = World()
    run_id, token = world.claimed(incarnation=world.hello())
    world.event(EventKind.ATTEMPT_SUCCEEDED, run_id, 1, worker="w-1", incarnation=0, token=token, detail=Ended(0))
    world.hello()
    world.clock.advance(90 * US_PER_S)
    assert findings(world)["running runs"].state is State.OK


@pytest.mark.parametrize("others", [0, 30], ids=["of late", "kept"])
def test_a_run_that_waits_for_its_time_is_not_stuck_and_one_that_left_the_ladder_is(others: int) -> None:
    world = World()
    world.policy = policy_to_json(FailurePolicy(delays_us=(600 * US_PER_S,), jitter=False))
    run_id = world.failed()
    router = world.router(kept_behind=20)
    world.turn(router)
    ended(world, others)
    world.turn(router)
    taken(world)
    world.clock.advance(90 * US_PER_S)
    assert findings(world)["waiting runs"].state is State.OK, "it is not due"
    world.clock.advance(600 * US_PER_S)
    assert findings(world)["waiting runs"].state is State.OK, "it stands on the ladder still"
    left_the_ladder(world)
    assert run_id in findings(world)["waiting runs"].found


@pytest.mark.parametrize("behind_s", [0, 4, 9])
def test_a_retry_that_stands_on_its_rung_is_not_stuck_where_its_router_is_behind(behind_s: int) -> None:
    """Given a rung on which what waits was placed after it was due, by the brokers' clock, it waits for the ladder."""
    world = World()
    world.policy = policy_to_json(FailurePolicy(delays_us=(US_PER_S,), jitter=False))
    world.failed()
    clock = SkewedClock(world.clock, -behind_s * US_PER_S)
    world.clock.advance(behind_s * US_PER_S)
    router = RetryRouter(MemoryLog(world.cluster, "r-1"), clock, NAMES, "r-1", generation=GENERATION, kept_behind=20)
    world.turn(router)
    ended(world, 30)
    world.turn(router)
    assert world.cluster.partition(TopicPartition(NAMES.delay("1s"), 0)).high, "it stands on its rung"
    taken(world)
    world.clock.advance(90 * US_PER_S)
    assert findings(world)["waiting runs"].state is State.OK


def test_it_asks_how_far_a_group_is_once_however_many_runs_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each such question to real brokers takes an administrator of its own, some tenths of a second."""
    world = World()
    taken(world)
    for _ in range(50):
        world.pending()
    world.clock.advance(90 * US_PER_S)
    asked: list[str] = []
    positions = world.log.group_positions
    monkeypatch.setattr(world.log, "group_positions", lambda group: asked.append(group) or positions(group))
    assert findings(world)["waiting runs"].state is State.OK
    assert len(asked) == len(set(asked)) == 2


def test_a_kept_run_is_held_by_nobody_where_its_end_may_be_among_what_is_not_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Given a router that is further behind than the doctor reads, then what it kept says nothing about now."""
    world = World()
    run_id, token = world.claimed(incarnation=world.hello())
    router = world.router(kept_behind=20)
    ended(world, 30)
    world.turn(router)
    assert [each for each in world.dump(NAMES.state("retry-router")) if each.run_id == run_id], "it is kept"
    world.event(EventKind.ATTEMPT_SUCCEEDED, run_id, 1, worker="w-1", incarnation=0, token=token, detail=Ended(0))
    monkeypatch.setattr(doctor_runs, "EVENTS_MAX", 60)
    ended(world, 30)
    world.hello()
    world.clock.advance(90 * US_PER_S)
    assert findings(world)["running runs"].state is State.OK


def test_a_kept_run_of_a_dead_worker_is_named_as_long_as_all_that_came_since_is_read() -> None:
    world = World()
    run_id, _ = world.claimed(incarnation=world.hello())
    router = world.router(kept_behind=20)
    ended(world, 30)
    world.turn(router)
    world.hello()
    world.clock.advance(90 * US_PER_S)
    assert run_id in findings(world)["running runs"].found


def ended(world: World, count: int) -> None:
    """Other runs, from their beginning to their end."""
    for _ in range(count):
        run_id, token = world.claimed(OTHER)
        world.event(EventKind.ATTEMPT_SUCCEEDED, run_id, 1, worker="w-1", incarnation=3, token=token, detail=Ended(0))


def left_the_ladder(world: World) -> None:
    for rung in RUNGS:
        place = TopicPartition(NAMES.delay(rung), 0)
        group = world.cluster.group(f"{NAMES.group('retry-ladder')}.{rung}")
        group.commit({place: Committed(world.log.high_watermark(place))})


def test_repairs_are_a_warning() -> None:
    assert judge_repairs(0).state is State.OK
    assert judge_repairs(3).state is State.WARN
