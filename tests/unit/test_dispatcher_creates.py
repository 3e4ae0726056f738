"""A create that must not redefine: the shard owner decides, in log order, whoever looked first."""

from __future__ import annotations

from tests.unit.dispatcher_world import World, every
from waterclock.model.events import EventKind
from waterclock.model.job import MUST_BE_NEW, CommandKind


def revisions(world: World) -> int:
    return len(world.events(EventKind.REVISED))


def test_of_two_creates_under_one_name_the_second_is_refused_and_changes_nothing() -> None:
    world = World()
    world.command(CommandKind.CREATE, "t:a", every(10), expected_revision=MUST_BE_NEW)
    world.command(CommandKind.CREATE, "t:a", every(20), expected_revision=MUST_BE_NEW)
    world.run(1)

    assert revisions(world) == 1
    assert len(world.records("waterclock.rejects")) == 1


def test_the_same_create_again_is_accepted_and_changes_nothing() -> None:
    world = World()
    for _ in range(2):
        world.command(CommandKind.CREATE, "t:a", every(10), expected_revision=MUST_BE_NEW)
    world.run(1)

    assert revisions(world) == 1
    assert world.records("waterclock.rejects") == []


def test_a_deleted_jobs_name_is_free_again() -> None:
    world = World()
    world.command(CommandKind.CREATE, "t:a", every(10), expected_revision=MUST_BE_NEW)
    world.command(CommandKind.DELETE, "t:a")
    world.command(CommandKind.CREATE, "t:a", every(20), expected_revision=MUST_BE_NEW)
    world.run(1)

    assert revisions(world) == 3
    assert world.records("waterclock.rejects") == []
