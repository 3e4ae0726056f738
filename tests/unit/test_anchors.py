"""From where an interval counts over edits, rollbacks, pauses and deletes: read back from the log and the store."""

from __future__ import annotations

import pytest

from tests.unit.dispatcher_world import START, World, every
from tests.unit.test_dispatcher_timing import fires, judged
from waterclock.model.ids import US_PER_S, ordinal
from waterclock.model.job import CommandKind, JobSpec
from waterclock.model.timing import Timing
from waterclock.store.memory import MemoryStore

S = US_PER_S
JOB = "t:a"


def spec(payload: int = 0, period_s: int = 30, **more: object) -> JobSpec:
    return every(period_s, payload=str(payload).encode(), **more)


def created() -> World:
    world = World(partitions=1)
    world.command(CommandKind.CREATE, JOB, spec())
    return world


def anchors(world: World) -> list[float]:
    """By version, oldest first, in seconds from the start."""
    found = MemoryStore(world.clock, world.tables, "looking").history(JOB, 100)
    return [(version.anchor_at - START) / S for version in reversed(found)]


@pytest.mark.parametrize("kind", [CommandKind.UPDATE, CommandKind.CREATE])
@pytest.mark.parametrize("jitter_s", [0, 7])
def test_a_job_that_is_edited_more_often_than_its_period_keeps_firing(kind: CommandKind, jitter_s: int) -> None:
    world = World(partitions=1)
    timing = Timing(jitter_us=jitter_s * S)
    for number in range(6):
        world.command(kind if number else CommandKind.CREATE, JOB, spec(number, timing=timing))
        world.run(20)
    assert fires(world)[:3] == [30, 60, 90]
    assert anchors(world) == [0] * 6
    judged(world)


def test_an_edit_while_nobody_serves_leaves_the_fires_of_an_interval_where_they_are() -> None:
    world = created()
    world.run(10)
    world.cluster.kill(f"d1-{world.lives}")
    for number in range(4):
        world.clock.advance(13 * S)
        world.command(CommandKind.UPDATE, JOB, spec(number + 1))
    world.dispatcher = world.start()
    world.run(40)
    assert anchors(world) == [0] * 5
    assert fires(world)[-2:] == [60, 90]
    judged(world)


def test_another_interval_counts_from_its_command_and_so_does_the_old_one_when_it_comes_back() -> None:
    world = created()
    old = ordinal(1, 0)
    world.run(10)
    world.command(CommandKind.UPDATE, JOB, spec(period_s=40))
    world.run(10)
    world.command(CommandKind.UPDATE, JOB, spec(1, period_s=40))
    world.run(5)
    world.command(CommandKind.ROLLBACK, JOB, to_revision=old)
    world.run(5)
    world.command(CommandKind.UPDATE, JOB, spec(start_at=START - 3 * S))
    world.run(5)
    assert [round(at) for at in anchors(world)] == [0, 10, 10, 25, -3]
    judged(world)


def test_a_rollback_that_leaves_the_interval_as_it_is_keeps_its_anchor() -> None:
    world = created()
    world.run(10)
    world.command(CommandKind.UPDATE, JOB, spec(1))
    world.run(10)
    world.command(CommandKind.ROLLBACK, JOB, to_revision=ordinal(1, 0))
    world.run(20)
    assert anchors(world) == [0, 0, 0]
    assert fires(world) == [30]
    judged(world)


def test_a_pause_its_edit_and_its_end_leave_the_fires_of_an_interval_where_they_are() -> None:
    world = created()
    world.run(10)
    world.command(CommandKind.PAUSE, JOB)
    world.run(25)
    world.command(CommandKind.UPDATE, JOB, spec(1))
    world.run(10)
    world.command(CommandKind.RESUME, JOB)
    world.run(20)
    assert anchors(world) == [0] * 4
    assert fires(world) == [60]
    judged(world)


def test_an_interval_that_is_made_again_after_a_delete_begins_anew() -> None:
    world = created()
    world.run(10)
    world.command(CommandKind.DELETE, JOB)
    world.run(7)
    world.command(CommandKind.CREATE, JOB, spec())
    world.run(35)
    assert [round(at) for at in anchors(world)] == [0, 0, 17]
    assert [round(at) for at in fires(world)] == [47]
    judged(world)
