"""Older versions of a batch's jobs: read in one go, no further back than asked, and none fails for another one."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from waterclock.dispatcher.known import _TOGETHER_MAX, Known

from tests.unit.dispatcher_world import World, every
from waterclock.model.ids import US_PER_S, Instant
from waterclock.model.job import CommandKind, JobVersion
from waterclock.model.timing import JITTER_US_MAX
from waterclock.store.memory import MemoryStore

JOBS = ("t:a", "t:b", "t:c")
NEWEST = 2**62
WEEKS_US = 21 * 86_400 * US_PER_S


class Index(MemoryStore):
    """Tells what was asked for; versions of ``bad`` cannot be read."""

    def __init__(self, world: World, bad: str = "") -> None:
        super().__init__(world.clock, world.tables, "looking")
        self.asked: list[tuple[list[str], Instant]] = []
        self._bad = bad

    def versions(self, job_ids: Sequence[str], back_to: Instant | None = None) -> dict[str, list[JobVersion]]:
        assert back_to is not None
        self.asked.append((list(job_ids), back_to))
        if self._bad in job_ids:
            raise KeyError("a schedule of a later release")
        return super().versions(job_ids, back_to)


@pytest.fixture
def world() -> World:
    """Jobs that were made and changed just now."""
    world = World(partitions=1)
    world.run(1)
    for job_id in JOBS:
        world.command(CommandKind.CREATE, job_id, every(600))
    world.run(1)
    for job_id in JOBS:
        world.command(CommandKind.UPDATE, job_id, every(900))
    world.run(1)
    return world


def known(world: World, index: Index, jobs: Sequence[str] = JOBS) -> Known:
    shard = world.dispatcher._shards[0]
    limits = dict.fromkeys(jobs, NEWEST)
    return Known(shard, index, limits, index.versions_below([*limits.items()]))


def usual(world: World) -> Instant:
    """The edge of a command that asks no further back than any other."""
    return world.dispatcher._shards[0].cursor.due_at


def test_the_first_job_that_asks_has_those_of_all_read(world: World) -> None:
    index = Index(world)
    batch = known(world, index)
    assert [len(batch.versions(job_id, usual(world))) for job_id in JOBS] == [2, 2, 2]
    assert [jobs for jobs, _ in index.asked] == [[*JOBS]]


def test_who_asks_for_weeks_has_them_read_for_itself_alone(world: World) -> None:
    index = Index(world)
    batch = known(world, index)
    batch.versions("t:b", usual(world) - WEEKS_US)
    batch.versions("t:a", usual(world))
    batch.versions("t:b", usual(world))
    weeks, common = usual(world) - WEEKS_US - JITTER_US_MAX, usual(world) - 1 - JITTER_US_MAX
    assert index.asked == [(["t:b"], weeks), (["t:a", "t:c"], common)]


def test_a_job_whose_versions_nobody_can_read_fails_alone_and_each_time(world: World) -> None:
    index = Index(world, bad="t:b")
    batch = known(world, index)
    assert len(batch.versions("t:a", usual(world))) == 2
    for _ in range(2):
        with pytest.raises(KeyError):
            batch.versions("t:b", usual(world))
    assert len(batch.versions("t:c", usual(world))) == 2


def test_so_many_are_read_together_and_no_more(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = [f"t:job{number}" for number in range(_TOGETHER_MAX + 50)]
    for kind in (CommandKind.CREATE, CommandKind.PAUSE):
        for job_id in jobs:
            world.command(kind, job_id, every(600) if kind is CommandKind.CREATE else None)
        world.run(3)
    index = Index(world)
    batch = known(world, index, jobs)
    for job_id in jobs:
        batch.versions(job_id, usual(world))
    assert [len(asked) for asked, _ in index.asked] == [_TOGETHER_MAX + 1, 49]
