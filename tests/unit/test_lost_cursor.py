"""A shard whose cursor a tool has erased: nothing that was decided is decided again, and nothing is passed over."""

from __future__ import annotations

import pytest
from waterclock.dispatcher.pace import Pace

from tests.unit.dispatcher_world import NAMES, START, World, every
from tests.unit.test_dispatcher_edges import balance, overtaken_inside_a_due_time, start_ahead
from tests.unit.test_dispatcher_trouble import GROUP, lose_metadata
from tests.unit.test_triggers_windows import ALL, ITEMS, LOAD, Windows
from waterclock.log.port import TopicPartition
from waterclock.model.events import EventKind, RunEvent, Skipped
from waterclock.model.ids import US_PER_S, make_run_id, ordinal
from waterclock.model.job import CommandKind, Tier
from waterclock.wire.messages import event_message


def _beating(seconds: float) -> World:
    """A job that fires every three seconds, for so long."""
    world = World(partitions=1)
    world.run(1)
    world.command(CommandKind.CREATE, "t:a", every(3))
    world.run(seconds)
    return world


def test_fires_of_a_due_time_within_which_a_catch_up_ended_are_not_passed_over() -> None:
    """The job has a later version of another tier, whose skips tell of the same decision."""
    world = World(partitions=1, pace=Pace(grace_s=5.0))
    world.run(1)
    world.command(CommandKind.CREATE, "t:a", every(10, tier=Tier.HIGH, start_at=START))
    world.command(CommandKind.CREATE, "t:m", every(10, tier=Tier.MEDIUM, start_at=START))
    world.run(14)
    world.cluster.kill(f"d1-{world.lives}")
    world.clock.advance(20 * US_PER_S)
    world.command(CommandKind.UPDATE, "t:a", every(10, tier=Tier.LOW, start_at=START))
    world.clock.advance(20 * US_PER_S)
    world.pace = Pace(grace_s=5.0, round_records=1)
    world.dispatcher = world.start()
    for _ in range(4_000):
        if world.events(EventKind.SKIPPED):
            break
        world.steps(1)
        world.clock.advance(US_PER_S // 100)
    assert {event.job_id for event in world.events(EventKind.SKIPPED)} == {"t:a"}  # what is due then of t:m is not

    lose_metadata(world, offsets=True)
    world.run(40)

    assert balance(world) == []


def test_a_fire_that_comes_behind_all_tiers_in_a_gap_is_decided_once() -> None:
    """A new tier had put it before the cursor, then the edge jumped; no due position tells that it is decided."""
    world = overtaken_inside_a_due_time()
    world.cluster.kill("d1-ahead1")
    world.clock.advance(240 * US_PER_S)
    start_ahead(world, 2)
    for _ in range(200):
        world.steps(1)
        world.clock.advance(20_000)
        shard = world.dispatcher._shards.get(0)
        if shard is not None and shard.gaps and shard.gaps[0].position.tier > max(Tier):
            break
    else:
        pytest.fail("no place behind all tiers was reached")

    world.cluster.kill("d1-ahead2")
    world.clock.advance(7 * US_PER_S)
    world.cluster.expire_group(GROUP)
    start_ahead(world, 3)
    world.run(30)

    assert balance(world) == []
    assert len(set(world.work())) == len(world.work())


def test_an_end_that_was_a_part_of_a_window_is_no_part_of_the_next_one() -> None:
    """What comes of it shows long after, so nothing tells that it was heard, but the copy of the cursor."""
    world = Windows(ALL)
    world.run(6)
    world.cluster.kill(f"d1-{world.lives}")
    for job_id, wait_s in ((LOAD, 6), (LOAD, 14), (ITEMS, 1)):
        world.told(make_run_id(job_id, world.clock.now()))
        world.clock.advance(wait_s * US_PER_S)
    world.dispatcher = world.start()
    world.run(2)

    world.cluster.kill(f"d1-{world.lives}")
    world.clock.advance(US_PER_S)
    world.cluster.expire_group(GROUP)
    world.clock.advance(US_PER_S)
    world.dispatcher = world.start()
    world.run(15)

    assert (world.made(), world.judged()) == ([], [])


def test_a_command_that_was_refused_stays_refused_though_its_reason_is_gone() -> None:
    world = _beating(8)
    world.command(CommandKind.UPDATE, "t:a", every(3, pool="gpu"))
    world.run(0.3)
    assert len(world.records(NAMES.rejects)) == 1
    for tier in Tier:
        world.cluster.create_topic(NAMES.runs(tier, "gpu"), 1)

    lose_metadata(world, offsets=True)
    world.run(12)

    assert len(world.events(EventKind.REVISED)) == 1
    assert len(world.records(NAMES.rejects)) == 1


def test_a_cancel_is_passed_on_once() -> None:
    world = _beating(8)
    world.command(CommandKind.CANCEL, "t:a", run_id=world.runs()[-1])
    world.run(0.3)
    assert len(world.events(EventKind.CANCEL_REQUESTED)) == 1

    lose_metadata(world, offsets=True)
    world.run(12)

    assert len(world.events(EventKind.CANCEL_REQUESTED)) == 1


def test_a_shard_is_taken_over_though_events_since_its_copy_were_deleted() -> None:
    world = _beating(12)
    world.cluster.kill(f"d1-{world.lives}")
    world.clock.advance(10 * US_PER_S)
    world.cluster.expire_group(GROUP)
    events = world.cluster.partition(TopicPartition(NAMES.run_events, 0))
    events.delete_before(events.high)
    world.dispatcher = world.start()
    world.run(10)

    assert make_run_id("t:a", START + 31 * US_PER_S) in world.work()


def test_an_event_that_names_no_run_does_not_keep_a_shard_from_being_taken_over() -> None:
    world = _beating(8)
    strange = Skipped(ordinal(1, 0), START, START, 1, Tier.LOW, 0)
    event = RunEvent(EventKind.SKIPPED, "t:a", "no run", world.clock.now(), reason="strange", detail=strange)
    appender = world.outside.appender()
    appender.append(event_message(NAMES, event))
    appender.flush(1.0)

    lose_metadata(world, offsets=True)
    world.run(10)

    assert world.dispatcher.ready
