"""A rollback brings an old spec back as a new version: alike in every replay, and on the condition that was asked."""

from __future__ import annotations

import pytest

from tests.oracle.books import balance
from tests.unit.dispatcher_world import NAMES, START, World, every, raw
from waterclock.log.memory import CommitFate
from waterclock.model.events import Answered, EventKind
from waterclock.model.ids import US_PER_S, ordinal
from waterclock.model.job import CommandKind, JobSpec, JobStatus, JobVersion, Once
from waterclock.store.memory import MemoryStore

JOB = "t:a"
OLD, NEW = every(2, start_at=START), every(5, start_at=START)


def edited_world() -> tuple[World, int, int]:
    world = World(partitions=1)
    world.run(1)
    old = world.command(CommandKind.CREATE, JOB, OLD)
    new = world.command(CommandKind.UPDATE, JOB, NEW)
    world.run(1)
    return world, ordinal(1, old), ordinal(1, new)


def history(world: World) -> list[JobVersion]:
    return MemoryStore(world.clock, world.tables, "looking").history(JOB, 10)


def verdicts(world: World) -> list[tuple[str, str]]:
    found = [event.detail for event in world.events(EventKind.ANSWERED)]
    return [(str(each.verdict), each.pointer) for each in found if isinstance(each, Answered)]


def check_books(world: World) -> None:
    commands = [raw(record) for record in world.records(NAMES.commands)]
    events = [raw(record) for record in world.records(NAMES.run_events)]
    assert balance(commands, events, world.clock.now() - 2 * US_PER_S)[0] == []


def test_a_rollback_makes_a_new_version_of_the_old_spec() -> None:
    world, old, new = edited_world()
    world.command(CommandKind.ROLLBACK, JOB, to_revision=old, note="too slow", answer=True)
    world.run(10)

    newest, *rest = history(world)
    assert [version.revision for version in rest] == [new, old]
    assert (newest.spec, newest.from_revision) == (OLD, old)
    assert (newest.action, newest.note, newest.actor) == ("rollback", "too slow", "test")
    assert verdicts(world) == [("applied", "")]
    check_books(world)


def test_a_rollback_to_a_version_of_the_same_batch_finds_it() -> None:
    world = World(partitions=1)
    world.run(1)
    old = world.command(CommandKind.CREATE, JOB, OLD)
    world.command(CommandKind.UPDATE, JOB, NEW)
    world.command(CommandKind.ROLLBACK, JOB, to_revision=ordinal(1, old), answer=True)
    world.run(5)

    assert history(world)[0].spec == OLD
    check_books(world)


def test_a_rollback_honours_the_revision_that_it_expects() -> None:
    world, old, new = edited_world()
    world.command(CommandKind.ROLLBACK, JOB, to_revision=old, expected_revision=old, answer=True)
    world.run(1)
    world.command(CommandKind.ROLLBACK, JOB, to_revision=old, expected_revision=new, answer=True)
    world.run(1)

    assert verdicts(world) == [("refused", "/expected_revision"), ("applied", "")]


def test_a_rollback_to_what_stands_changes_nothing() -> None:
    world, _, new = edited_world()
    world.command(CommandKind.ROLLBACK, JOB, to_revision=new, answer=True)
    world.run(1)

    assert verdicts(world) == [("unchanged", "")]


@pytest.mark.parametrize("target", [0, -1, 1, ordinal(1, 99), 2**63 - 1])
def test_a_rollback_to_no_version_of_the_job_is_refused(target: int) -> None:
    world, _, _ = edited_world()
    world.command(CommandKind.ROLLBACK, JOB, to_revision=target, answer=True)
    world.run(1)

    assert verdicts(world) == [("refused", "/to_revision")]
    assert len(history(world)) == 2


def test_a_rollback_keeps_a_pause() -> None:
    world, old, _ = edited_world()
    world.command(CommandKind.PAUSE, JOB, note="later")
    world.command(CommandKind.ROLLBACK, JOB, to_revision=old)
    world.run(5)

    newest = history(world)[0]
    assert (newest.status, newest.spec) == (JobStatus.PAUSED, OLD)
    assert newest.pause is not None
    assert newest.pause.note == "later"
    check_books(world)


def test_a_rollback_to_an_instant_that_is_over_is_refused() -> None:
    world = World(partitions=1)
    world.run(1)
    old = world.command(CommandKind.CREATE, JOB, JobSpec("demo.noop", Once(START + 3 * US_PER_S)))
    world.command(CommandKind.UPDATE, JOB, NEW)
    world.run(6)
    world.command(CommandKind.ROLLBACK, JOB, to_revision=ordinal(1, old), answer=True)
    world.run(1)

    assert verdicts(world) == [("refused", "/spec/schedule/at")]


def test_two_rollbacks_to_two_versions_are_two_intentions() -> None:
    world, old, new = edited_world()
    world.command(CommandKind.ROLLBACK, JOB, to_revision=old, idempotency_key="k", answer=True)
    world.command(CommandKind.ROLLBACK, JOB, to_revision=old, idempotency_key="k", answer=True)
    world.command(CommandKind.ROLLBACK, JOB, to_revision=new, idempotency_key="k", answer=True)
    world.run(1)

    assert [verdict for verdict, _ in verdicts(world)] == ["applied", "repeated", "refused"]


def test_a_rollback_whose_round_is_redone_decides_alike() -> None:
    world, old, _ = edited_world()
    offset = world.command(CommandKind.ROLLBACK, JOB, to_revision=old)
    world.cluster.faults.next_commit(NAMES.transactional_id("dispatcher", "d1"), CommitFate.ABORTS)
    world.run(5)

    assert history(world)[0].revision == ordinal(1, offset)
    assert len(history(world)) == 3
    check_books(world)
