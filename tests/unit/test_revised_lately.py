"""Jobs revised within the hour before a take-over: their versions are read when a row of theirs is met, and not before.

The late row of a zombie must find them known, whoever meets it first: the window, a catch-up, a jump of the edge.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from unittest import mock

import pytest
from waterclock.dispatcher.errands import AtOnce, Call, Pending
from waterclock.dispatcher.lately import read_for_rows
from waterclock.dispatcher.pace import Pace
from waterclock.dispatcher.position import Position
from waterclock.dispatcher.rows import due_row
from waterclock.dispatcher.shard import Shard
from waterclock.dispatcher.timeline import Chain, Timeline
from waterclock.dispatcher.trusted import trusted_rows

from tests.unit.dispatcher_world import START, World, every
from tests.unit.test_due_sweep import PACE as SWEEPS
from tests.unit.test_due_sweep import lose_rows, repairs
from waterclock.model.errors import BackendDown
from waterclock.model.ids import US_PER_S, Instant, make_run_id, ordinal
from waterclock.model.job import CommandKind, JobSpec, JobStatus, JobVersion, Once, Tier
from waterclock.store.memory import MemoryStore
from waterclock.store.port import DueRow

FIRST_AT, SECOND_AT = START + 10 * US_PER_S, START + 15 * US_PER_S
"""First fires of the two versions of a job that fires every ten seconds."""
LATER_AT = START + 400 * US_PER_S


@pytest.fixture
def asked() -> Iterator[list[str]]:
    """Jobs whose versions were read, in order."""
    jobs: list[str] = []
    right = MemoryStore.versions

    def versions(self: MemoryStore, job_ids: list[str], back_to: Instant | None = None) -> dict[str, list[JobVersion]]:
        jobs.extend(job_ids)
        return right(self, job_ids, back_to)

    with mock.patch.object(MemoryStore, "versions", versions):
        yield jobs


class Noted(AtOnce):
    """Beside the rounds, as far as a test can tell."""

    is_calling = False

    def begin(self, call: Call) -> Pending:
        self.is_calling = True
        try:
            return super().begin(call)
        finally:
            self.is_calling = False


def revised_job(world: World, every_s: int = 10) -> JobVersion:
    """``t:beat`` in its second version, which fires every so many seconds; returns the first one."""
    offset = world.command(CommandKind.CREATE, "t:beat", every(10, start_at=FIRST_AT))
    created = world.clock.now()
    world.run(12)
    world.command(CommandKind.UPDATE, "t:beat", every(every_s, start_at=SECOND_AT))
    world.run(8)
    revision = ordinal(1, offset)
    spec = every(10, start_at=FIRST_AT)
    return JobVersion("t:beat", revision, spec, JobStatus.ACTIVE, "", created, FIRST_AT, revision, created)


def ghost(world: World, old: JobVersion, at: Instant) -> None:
    """A row of the first version, written late by somebody who does not know of the second."""
    MemoryStore(world.clock, world.tables, "zombie").write_due([due_row(old, at, at)])


def expected(until: Instant) -> list[str]:
    fires = [FIRST_AT, *range(SECOND_AT, until, 10 * US_PER_S)]
    return [make_run_id("t:beat", at) for at in fires]


def test_a_take_over_reads_no_versions_of_jobs_of_which_nothing_is_due(asked: list[str]) -> None:
    world = World(partitions=1)
    world.run(1)
    for number in range(50):  # as job events do: on no condition
        at = world.clock.now() + 5 * US_PER_S
        world.command(CommandKind.CREATE, f"t:once-{number}", JobSpec("mail", Once(at), Tier.HIGH))
    world.run(75)  # into the next minute: of the one that goes on all rows are looked at
    assert len(world.runs()) == 50
    asked.clear()
    world.crash()
    with mock.patch("waterclock.dispatcher.sweep.Sweep.look", return_value=None):  # it reads versions of its own
        world.run(30)
    assert asked == []


def test_versions_of_a_job_that_goes_on_are_read_once(asked: list[str]) -> None:
    world = World(partitions=1)
    world.run(1)
    revised_job(world)
    asked.clear()
    world.crash()
    with mock.patch("waterclock.dispatcher.sweep.Sweep.look", return_value=None):  # it reads versions of its own
        world.run(300)
    assert asked == ["t:beat"]
    assert world.runs() == expected(world.clock.now())


def test_the_late_row_of_a_zombie_starts_no_ghost_chain_behind_a_take_over() -> None:
    world = World(partitions=1)
    world.run(1)
    old = revised_job(world)
    world.crash()
    ghost(world, old, LATER_AT)
    world.run(500)
    assert world.runs() == expected(world.clock.now())


def test_a_ghost_that_a_catch_up_meets_is_none_of_its_misfires() -> None:
    world = World(partitions=1)
    world.run(1)
    old = revised_job(world, 3_600)
    world.crash()
    ghost(world, old, LATER_AT)
    world.clock.advance(500 * US_PER_S)  # nobody was there meanwhile
    world.run(60)
    assert world.runs() == [make_run_id("t:beat", at) for at in (FIRST_AT, SECOND_AT)]


def test_fires_do_not_wait_for_versions_of_a_job_that_the_window_meets() -> None:
    beside = Noted()
    world = World(partitions=1, beside=beside)
    world.run(1)
    revised_job(world, 300)
    world.run(60)  # its next row lies minutes ahead
    world.crash()
    right, alone = MemoryStore.versions, []

    def versions(self: MemoryStore, job_ids: list[str], back_to: Instant | None = None) -> dict[str, list[JobVersion]]:
        if not beside.is_calling:
            alone.append(job_ids)
        return right(self, job_ids, back_to)

    with mock.patch.object(MemoryStore, "versions", versions):
        world.run(350)
    assert alone == []
    assert world.runs() == [make_run_id("t:beat", at) for at in (FIRST_AT, SECOND_AT, SECOND_AT + 300 * US_PER_S)]


def test_what_a_zombie_wrote_that_ran_ahead_is_not_learnt() -> None:
    shard = Shard(0, 1, 1, Position(START), next_offset=5)
    shard.unread["t:beat"] = START
    spec = every(10, start_at=FIRST_AT)
    at = [JobVersion("t:beat", ordinal(1, offset), spec, JobStatus.ACTIVE, "", START, FIRST_AT, ordinal(1, 4), START)
          for offset in (5, 4)]  # fmt: skip
    index = mock.Mock()
    index.versions.return_value = {"t:beat": at}
    row = due_row(at[1], LATER_AT, LATER_AT)
    read_for_rows(shard, index, [row])
    assert shard.lately == {"t:beat": at[1:]}
    read_for_rows(shard, index, [row])
    assert index.versions.call_count == 1


def test_a_chain_that_the_sweep_makes_anew_knows_what_its_job_was_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes from no row: late, it is caught up with all that its job still owes."""
    world = World(partitions=1, pace=Pace(sweep_every_s=1e6))
    world.run(1)
    revised_job(world)
    lose_rows(world, "t:beat", beyond_us=60 * US_PER_S)
    world.run(240, 0.5)
    world.pace = SWEEPS
    world.crash()
    added: list[bool] = []
    right = Timeline.add

    def add(self: Timeline, chain: Chain) -> None:
        added.extend("t:beat" in shard.unread for shard in world.dispatcher._shards.values())
        right(self, chain)

    monkeypatch.setattr(Timeline, "add", add)
    world.run(60, 0.25)
    assert repairs(world) == 1
    assert added
    assert not any(added)


def test_so_do_rows_that_are_made_anew_after_a_long_absence(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(partitions=1)
    world.run(1)
    revised_job(world)
    world.crash()
    world.clock.advance(60 * 3_600 * US_PER_S)
    unread: list[bool] = []
    right = MemoryStore.write_due

    def write_due(self: MemoryStore, due: Sequence[DueRow], *, kept_from: Instant = 0) -> None:
        if kept_from:
            unread.extend("t:beat" in shard.unread for shard in world.dispatcher._shards.values())
        right(self, due, kept_from=kept_from)

    monkeypatch.setattr(MemoryStore, "write_due", write_due)
    world.run(20)
    assert unread
    assert not any(unread)


def test_a_row_is_believed_only_once_the_versions_of_its_job_are_read() -> None:
    shard = Shard(0, 1, 1, Position(START), next_offset=5)
    shard.unread["t:beat"] = START
    spec = every(10, start_at=FIRST_AT)
    new, old = (
        JobVersion("t:beat", ordinal(1, at), spec, JobStatus.ACTIVE, "", START + at, FIRST_AT, ordinal(1, 3), START)
        for at in (4, 3)
    )
    index = mock.Mock()
    index.versions.return_value = {"t:beat": [new, old]}
    rows = [due_row(version, LATER_AT + number, LATER_AT) for number, version in enumerate((old, new))]
    assert [row.revision for row in trusted_rows(shard, index, rows)] == [new.revision]


def test_what_was_revised_an_hour_ago_is_forgotten_unread() -> None:
    shard = Shard(0, 1, 1, Position(START), next_offset=5)
    shard.unread |= {"t:old": START, "t:new": START + 1}
    shard.forget_before(START + 1)
    assert shard.unread == {"t:new": START + 1}


def test_of_a_job_that_is_revised_for_ever_an_hour_is_remembered() -> None:
    shard = Shard(0, 1, 1, Position(START), next_offset=50)
    spec = every(10, start_at=FIRST_AT)
    versions = [
        JobVersion("t:beat", ordinal(1, at), spec, JobStatus.ACTIVE, "", START + at, FIRST_AT, ordinal(1, 1), START)
        for at in range(1, 40)
    ]
    for number, version in enumerate(versions[1:], start=1):
        shard.remember(version, versions[number - 1 :: -1])
    shard.forget_before(START + 30)
    known = shard.lately["t:beat"]
    assert [version.stamp_at - START for version in known] == [*range(39, 28, -1)]  # and what was in force then


def test_of_jobs_that_were_only_made_nothing_is_kept() -> None:
    """However many there are in an hour: nobody can have written rows of theirs before."""
    world = World(partitions=1)
    world.run(1)
    for number in range(50):
        world.command(CommandKind.CREATE, f"t:made-{number}", every(10, start_at=FIRST_AT))
    revised_job(world)
    assert list(world.dispatcher._shards[0].lately) == ["t:beat"]


def test_a_job_that_was_made_once_more_knows_what_it_was_before() -> None:
    world = World(partitions=1)
    world.run(1)
    old = revised_job(world)
    world.command(CommandKind.DELETE, "t:beat")
    world.run(1)
    made_at = world.clock.now()
    world.command(CommandKind.CREATE, "t:beat", every(3_600, start_at=LATER_AT + US_PER_S))
    ghost(world, old, LATER_AT)
    world.run(500)
    assert world.runs() == [*expected(made_at), make_run_id("t:beat", LATER_AT + US_PER_S)]


def test_a_command_behind_a_take_over_hides_no_ghost_of_the_versions_before() -> None:
    world = World(partitions=1)
    world.run(1)
    old = revised_job(world)
    world.crash()
    world.command(CommandKind.UPDATE, "t:beat", every(10, start_at=SECOND_AT))
    world.run(5)
    ghost(world, old, LATER_AT)
    world.run(500)
    assert world.runs() == expected(world.clock.now())


def test_a_store_that_is_away_while_versions_are_read_lets_no_ghost_by() -> None:
    world = World(partitions=1, pace=Pace(look_ahead_s=60.0))
    world.run(1)
    old = revised_job(world)
    world.crash()
    ghost(world, old, LATER_AT)
    right, failed = MemoryStore.versions, []

    def versions(self: MemoryStore, job_ids: list[str], back_to: Instant | None = None) -> dict[str, list[JobVersion]]:
        if len(failed) < 20:
            failed.append(job_ids)
            raise BackendDown("cassandra", "away")
        return right(self, job_ids, back_to)

    with mock.patch.object(MemoryStore, "versions", versions):
        world.run(500)
    assert len(failed) == 20
    assert not {run for run in world.runs() if run not in expected(world.clock.now())}
    assert world.runs()[-1] == expected(world.clock.now())[-1]
