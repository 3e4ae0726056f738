"""A create that must not redefine: the shard owner decides, in log order, whoever looked first."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.oracle import books
from tests.unit.dispatcher_world import NAMES, World, every, raw
from waterclock.model.events import EventKind
from waterclock.model.ids import US_PER_S, Instant
from waterclock.model.job import MUST_BE_NEW, CommandKind, JobSpec, JobVersion, Once
from waterclock.store.memory import MemoryStore
from waterclock.wire import codec


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

    def spied(
        store: MemoryStore, job_ids: Sequence[str], back_to: Instant | None = None
    ) -> dict[str, list[JobVersion]]:
        asked.extend(job_ids)
        return versions(store, job_ids, back_to)

    monkeypatch.setattr(MemoryStore, "versions", spied)
    world.crash()
    world.run(30)
    assert sorted(set(asked)) == ["t:again", "t:redefined", "t:revised"]
    assert len({run_id.partition("@")[0] for run_id in world.runs()}) == 4


@pytest.mark.parametrize("has_run", [False, True])
def test_a_one_off_that_was_deleted_is_not_made_again_for_an_instant_that_is_over(*, has_run: bool) -> None:
    world = World()
    once = JobSpec("demo.noop", Once(world.clock.now() + 5 * US_PER_S))
    world.command(CommandKind.CREATE, "t:a", once)
    world.run(7 if has_run else 1)
    world.command(CommandKind.DELETE, "t:a")
    world.run(10)
    world.command(CommandKind.CREATE, "t:a", once)
    world.command(CommandKind.CREATE, "t:b", once)
    world.run(1)

    (reject,) = [codec.decode_reject(record.value) for record in world.records(NAMES.rejects)]  # type: ignore[attr-defined]
    assert "another name" in reject.hint
    assert len(world.runs("t:a")) == has_run
    assert len(world.runs("t:b")) == 1
    records = [[raw(record) for record in world.records(topic)] for topic in (NAMES.commands, NAMES.run_events)]
    assert books.balance(*records, world.clock.now() - US_PER_S)[0] == []


def test_a_one_off_that_was_deleted_is_made_again_before_its_instant() -> None:
    world = World()
    once = JobSpec("demo.noop", Once(world.clock.now() + 5 * US_PER_S))
    for kind in (CommandKind.CREATE, CommandKind.DELETE, CommandKind.CREATE):
        world.command(kind, "t:a", None if kind is CommandKind.DELETE else once)
    world.run(7)

    assert world.records(NAMES.rejects) == []
    assert len(world.runs("t:a")) == 1
