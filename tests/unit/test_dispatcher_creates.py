"""A create that must not redefine: the shard owner decides, in log order, whoever looked first."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.unit.dispatcher_world import World, every
from waterclock.model.events import EventKind
from waterclock.model.job import MUST_BE_NEW, CommandKind, JobVersion
from waterclock.store.memory import MemoryStore


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


def test_a_take_over_reads_the_versions_of_revised_jobs_and_not_of_those_only_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(partitions=1)
    for name in ("made", "revised", "again"):
        world.command(CommandKind.CREATE, f"t:{name}", every(10), expected_revision=MUST_BE_NEW)
    world.command(CommandKind.CREATE, "t:redefined", every(10))  # whatever stood there: there may be older ones
    world.command(CommandKind.UPDATE, "t:revised", every(20))
    world.run(1)
    world.command(CommandKind.DELETE, "t:again")
    world.command(CommandKind.CREATE, "t:again", every(20), expected_revision=MUST_BE_NEW)
    world.run(15)
    asked: list[str] = []
    versions = MemoryStore.versions

    def spied(store: MemoryStore, job_ids: Sequence[str]) -> dict[str, list[JobVersion]]:
        asked.extend(job_ids)
        return versions(store, job_ids)

    monkeypatch.setattr(MemoryStore, "versions", spied)
    world.crash()
    world.run(30)
    assert sorted(set(asked)) == ["t:again", "t:redefined", "t:revised"]
    assert len({run_id.partition("@")[0] for run_id in world.runs()}) == 4
