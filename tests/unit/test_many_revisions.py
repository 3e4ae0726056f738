"""Jobs that were changed more often than one page of the store tells, while their fires wait to be decided."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from unittest import mock

import pytest
from waterclock.dispatcher import known
from waterclock.dispatcher.pace import Pace
from waterclock.dispatcher.shard import Decided

from tests.unit.dispatcher_world import NAMES, START, World, every
from tests.unit.test_dispatcher_gaps import away, judged, progress, until_closed
from waterclock.model.events import EventKind, Pending
from waterclock.model.ids import US_PER_S
from waterclock.model.job import CommandKind, JobSpec, JobStatus
from waterclock.model.timing import Misfire, Timing
from waterclock.store import tabular
from waterclock.store.memory import MemoryStore
from waterclock.store.port import JobChange
from waterclock.wire import codec

S = US_PER_S
JOB = "t:edited"
EDITS = 120
EVERY_FIRE = Timing(misfire=Misfire.ALL, catch_up_max=1_000)


def version(number: int) -> JobSpec:
    return every(10, start_at=START + 5 * S, payload=str(number).encode(), timing=EVERY_FIRE)


def with_many_revisions_in_a_gap(first_at: int) -> World:
    """A job changed at each of its fires while no dispatcher ran, and the gap open in which all of them are owed.

    ``first_at``: the first fire of those that keep the gap open for a while, which decides who comes first in it.
    """
    assert EDITS > tabular.VERSIONS_MAX
    world = World(partitions=1, pace=Pace(catch_up_per_s=2.0))
    for number in range(10):
        world.command(CommandKind.CREATE, f"t:other{number}", every(300, start_at=START + first_at))
    world.command(CommandKind.CREATE, JOB, version(0))
    world.run(1)
    world.cluster.kill(f"d1-{world.lives}")
    for number in range(1, EDITS + 1):
        world.clock.advance(10 * S)
        world.command(CommandKind.UPDATE, JOB, version(number))
    away(world, 3)
    world.run(4)
    assert progress(world).gaps
    return world


def fires(world: World) -> Counter[int]:
    details = [event.detail for event in world.events(EventKind.PENDING) if event.job_id == JOB]
    return Counter(detail.fire_at for detail in details if isinstance(detail, Pending))


@pytest.mark.parametrize("ends", ["take-over", "pause"])
@pytest.mark.parametrize("first_at", [2 * S, 3 * S])
def test_a_job_with_more_revisions_than_a_page_owes_each_fire_of_a_gap_once(ends: str, first_at: int) -> None:
    world = with_many_revisions_in_a_gap(first_at)
    if ends == "pause":
        world.command(CommandKind.PAUSE, JOB)
    else:
        world.crash()
    until_closed(world)
    judged(world)
    assert set(fires(world).values()) == {1}
    assert ends == "pause" or len(fires(world)) >= EDITS


def test_a_job_is_refused_one_change_more_while_too_many_wait_and_its_deletion_is_not() -> None:
    world = World(partitions=1)
    with mock.patch.object(known, "REVISIONS_MAX", 5):
        for number in range(7):
            kind = CommandKind.UPDATE if number else CommandKind.CREATE
            world.command(kind, JOB, version(number))
            world.run(1)
        rejects = [codec.decode_reject(record.value) for record in world.records(NAMES.rejects)]  # type: ignore[attr-defined]
        assert len(rejects) == 2
        assert all("was changed 5 times since" in reject.reason for reject in rejects)
        world.command(CommandKind.DELETE, JOB)
        world.run(1)
    row = MemoryStore(world.clock, world.tables, "reader").job(JOB)
    assert row is not None
    assert row.status is JobStatus.DELETED


def test_a_job_that_was_changed_too_often_takes_changes_again_once_its_fires_are_decided() -> None:
    world = World(partitions=1)
    with mock.patch.object(known, "REVISIONS_MAX", 3):
        for number in range(3):
            world.command(CommandKind.UPDATE if number else CommandKind.CREATE, JOB, version(number))
            world.run(1)
        world.run(1_900, 1)
        world.command(CommandKind.UPDATE, JOB, version(9))
        world.run(1)
    assert not world.records(NAMES.rejects)


def test_an_edit_deletes_the_rows_of_the_version_before_it_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(partitions=1)
    world.command(CommandKind.CREATE, JOB, every(60, start_at=START))
    world.run(10, 0.5)
    deleted: list[int] = []
    right = MemoryStore.apply

    def apply(self: MemoryStore, changes: list[JobChange]) -> None:
        deleted.append(sum(len(change.due_deletes) for change in changes))
        right(self, changes)

    monkeypatch.setattr(MemoryStore, "apply", apply)
    for number in range(60):
        world.command(CommandKind.UPDATE, JOB, every(60, start_at=START, payload=str(number).encode()))
        world.run(0.1)
    assert len(deleted) == 60
    assert max(deleted) <= deleted[0] + 2


def test_a_command_looks_at_no_other_paused_job() -> None:
    class Unwalked(dict[str, Decided]):
        def __iter__(self) -> Iterator[str]:
            raise AssertionError("all of them")

        keys = items = values = __iter__  # type: ignore[assignment]

    world = World(partitions=1)
    for job_id in (JOB, "t:other"):
        world.command(CommandKind.CREATE, job_id, version(0))
        world.command(CommandKind.PAUSE, job_id)
    world.run(1)
    shard = world.dispatcher._shards[0]
    shard.decided = Unwalked(shard.decided)
    world.command(CommandKind.RESUME, JOB)
    world.command(CommandKind.PAUSE, JOB)
    world.command(CommandKind.RESUME, JOB)
    world.run(30)
    assert not shard.is_paused(JOB)
    assert shard.is_paused("t:other")
    assert world.runs(JOB)
