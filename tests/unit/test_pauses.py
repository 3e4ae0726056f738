"""A pause says who and why, and may end by itself: once, at its very instant, whoever owns the shard by then."""

from __future__ import annotations

from collections.abc import Sequence
from unittest import mock

import pytest
from waterclock.dispatcher import pauses, resuming, standing_check

from tests.oracle.books import balance
from tests.unit.dispatcher_world import NAMES, START, World, every, raw, store_away
from waterclock.log.memory import CommitFate
from waterclock.model.errors import BackendDown
from waterclock.model.events import EventKind, Skipped
from waterclock.model.ids import US_PER_S, Instant, make_run_id, ordinal, parse_run_id
from waterclock.model.job import Command, CommandKind, JobStatus, JobVersion, Pause
from waterclock.store.memory import MemoryStore
from waterclock.store.port import JobRow
from waterclock.wire import codec

JOB = "t:a"
SECONDLY = every(1, start_at=START)


def paused_world(resume_at: int, **more: object) -> tuple[World, int]:
    world = World(partitions=1)
    world.run(1)
    world.command(CommandKind.CREATE, JOB, SECONDLY)
    world.run(3.5)
    offset = world.command(CommandKind.PAUSE, JOB, note="the bank is shut", resume_at=resume_at, **more)
    world.run(0.5)
    return world, offset


def crowd(count: int, resume_at: int) -> tuple[World, list[str]]:
    """So many jobs that are paused until one instant."""
    world = World(partitions=1)
    world.run(1)
    names = [f"t:crowd{number}" for number in range(count)]
    for name in names:
        world.command(CommandKind.CREATE, name, SECONDLY)
    world.run(3)
    for name in names:
        world.command(CommandKind.PAUSE, name, resume_at=resume_at)
    return world, names


def row(world: World) -> JobRow:
    found = MemoryStore(world.clock, world.tables, "looking").job(JOB)
    assert found is not None
    return found


def resumes(world: World) -> list[Command]:
    commands = [codec.decode_command(record.value) for record in world.records(NAMES.commands)]  # type: ignore[attr-defined]
    return [command for command in commands if command.kind is CommandKind.RESUME]


def skipped(world: World) -> list[Skipped]:
    found = [event.detail for event in world.events(EventKind.SKIPPED)]
    return [each for each in found if isinstance(each, Skipped)]


def check_books(world: World) -> None:
    commands = [raw(record) for record in world.records(NAMES.commands)]
    events = [raw(record) for record in world.records(NAMES.run_events)]
    complaints, counts = balance(commands, events, world.clock.now() - 2 * US_PER_S)
    assert complaints == []
    assert counts["runs"] > 0


def test_a_pause_says_who_and_why() -> None:
    world, offset = paused_world(START + 60 * US_PER_S)
    pause = row(world).pause

    assert pause is not None
    assert (pause.actor, pause.note, pause.resume_at) == ("test", "the bank is shut", START + 60 * US_PER_S)
    version = MemoryStore(world.clock, world.tables, "looking").version(JOB, ordinal(1, offset))
    assert version is not None
    assert (version.action, version.note, version.pause) == ("pause", "the bank is shut", pause)


def test_the_fire_at_the_end_of_a_pause_is_the_first_that_is_owed() -> None:
    resume_at = START + 40 * US_PER_S
    world, _ = paused_world(resume_at)
    world.run(60)

    (pause,) = skipped(world)
    assert pause.to_at == resume_at - US_PER_S
    runs = world.runs(JOB)
    assert make_run_id(JOB, resume_at) in runs
    assert len(set(runs)) == len(runs)
    assert (row(world).status, row(world).pause) == (JobStatus.ACTIVE, None)
    assert len(resumes(world)) == 1
    check_books(world)


def test_a_pause_that_is_over_before_its_end_can_be_asked_for_early_ends_all_the_same() -> None:
    resume_at = START + 5 * US_PER_S
    world, _ = paused_world(resume_at)
    world.run(10)

    assert make_run_id(JOB, resume_at) in world.runs(JOB)
    check_books(world)


@pytest.mark.parametrize("before_s", [0.5, 8, 9.9, 10.1, 25])
def test_a_pause_ends_once_whoever_owns_the_shard_by_then(before_s: float) -> None:
    resume_at = START + 40 * US_PER_S
    world, _ = paused_world(resume_at)
    world.run((resume_at - world.clock.now()) / US_PER_S - before_s)
    world.crash()
    world.run(60)

    assert row(world).status is JobStatus.ACTIVE
    assert len(resumes(world)) == 1
    check_books(world)


@pytest.mark.parametrize("fate", [CommitFate.ABORTS, CommitFate.UNANSWERED])
def test_a_round_in_trouble_asks_for_the_end_again_or_finds_it_asked_for(fate: CommitFate) -> None:
    resume_at = START + 40 * US_PER_S
    world, _ = paused_world(resume_at)
    world.run((resume_at - pauses.LEAD_US - world.clock.now()) / US_PER_S - 0.2)
    assert resumes(world) == []
    world.cluster.faults.next_commit(NAMES.transactional_id("dispatcher", "d1"), fate)
    world.run(40)

    assert row(world).status is JobStatus.ACTIVE
    assert len(resumes(world)) == 1
    check_books(world)


def test_a_crowd_that_waits_for_one_instant_is_asked_for_bit_by_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pauses, "_FEW", 10)
    monkeypatch.setattr(pauses, "_EACH_US", 200_000)
    resume_at = START + 40 * US_PER_S
    world, names = crowd(40, resume_at)
    world.run(60)

    asked_at = sorted(command.at for command in resumes(world))
    assert len(asked_at) == 40
    leads_s = [(resume_at - at) / US_PER_S for at in asked_at]
    assert leads_s[0] == pytest.approx(10 + 29 * 0.2, abs=0.3)
    assert leads_s[-1] == pytest.approx(10, abs=0.3)
    assert max(sum(at <= other < at + US_PER_S for other in asked_at[:29]) for at in asked_at) <= 6
    assert {make_run_id(name, resume_at) for name in names} <= {run_id for name in names for run_id in world.runs(name)}
    check_books(world)


def test_a_crowd_is_asked_for_once_while_the_store_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pauses, "_FEW", 2)
    monkeypatch.setattr(pauses, "_EACH_US", 5 * US_PER_S)
    resume_at = START + 90 * US_PER_S
    world, names = crowd(12, resume_at)
    world.run(20)
    world.tables.on_call = store_away
    world.run((resume_at - world.clock.now()) / US_PER_S + 20)
    assert len(resumes(world)) == len(names)
    world.tables.on_call = None
    world.run(60)

    assert len(resumes(world)) == len(names)
    assert all(make_run_id(name, resume_at) in world.runs(name) for name in names)
    check_books(world)


def test_a_pause_that_a_person_has_ended_counts_for_no_crowd() -> None:
    world, _ = paused_world(START + 3_600 * US_PER_S)
    (shard,) = world.dispatcher._shards.values()
    assert len(shard.resumes) == 1
    world.command(CommandKind.RESUME, JOB)
    world.run(1)
    assert (len(shard.resumes), shard.resumes_asked) == (0, {})


def test_the_longest_lead_leaves_room_for_a_clock_that_is_behind() -> None:
    assert pauses.lead_us(0) == pauses.lead_us(200) == pauses.LEAD_US
    assert pauses.lead_us(450) == pauses.LEAD_US + US_PER_S
    assert pauses.lead_us(1_000_000) == pauses.LEAD_US_MAX <= pauses.AHEAD_US_MAX - 10 * US_PER_S


def test_while_nobody_owns_the_shard_a_pause_lasts() -> None:
    resume_at = START + 20 * US_PER_S
    world, _ = paused_world(resume_at)
    world.cluster.kill(f"d1-{world.lives}")
    world.clock.advance(120 * US_PER_S)
    back_at = world.clock.now()
    world.dispatcher = world.start()
    world.run(30)

    (pause,) = skipped(world)
    assert pause.to_at >= back_at - US_PER_S
    assert row(world).status is JobStatus.ACTIVE
    check_books(world)


def test_an_end_that_a_person_was_quicker_than_is_not_carried_out() -> None:
    world, _ = paused_world(START + 40 * US_PER_S)
    world.command(CommandKind.RESUME, JOB)
    world.command(CommandKind.PAUSE, JOB)
    world.run(80)

    assert (row(world).status, resumes(world)[0].actor) == (JobStatus.PAUSED, "test")
    assert len(resumes(world)) == 1
    check_books(world)


def test_a_change_of_a_paused_job_keeps_its_pause_and_its_end() -> None:
    resume_at = START + 40 * US_PER_S
    world, _ = paused_world(resume_at)
    changed = world.command(CommandKind.UPDATE, JOB, every(2, start_at=START))
    world.run(1)
    pause = row(world).pause
    assert pause is not None
    assert (pause.note, pause.resume_at) == ("the bank is shut", resume_at)
    world.run(60)

    (resume,) = resumes(world)
    assert resume.expected_revision == ordinal(1, changed)
    assert row(world).status is JobStatus.ACTIVE
    check_books(world)


def test_a_paused_job_that_is_changed_again_and_again_waits_for_one_end() -> None:
    world, _ = paused_world(START + 60 * US_PER_S)
    for number in range(30):
        world.command(CommandKind.UPDATE, JOB, every(1, start_at=START, payload=str(number).encode()))
    world.run(1)
    assert len(world.dispatcher._shards[0].resumes._heap) == 1
    world.run(65)
    assert len(resumes(world)) == 1
    assert row(world).status is JobStatus.ACTIVE


def test_a_pause_again_with_another_end_replaces_the_first() -> None:
    world, _ = paused_world(START + 40 * US_PER_S)
    world.command(CommandKind.PAUSE, JOB, resume_at=START + 80 * US_PER_S)
    world.run(60)
    assert row(world).status is JobStatus.PAUSED
    world.run(40)
    assert row(world).status is JobStatus.ACTIVE
    check_books(world)


def test_the_same_pause_again_changes_nothing() -> None:
    world, offset = paused_world(START + 400 * US_PER_S)
    world.command(CommandKind.PAUSE, JOB, resume_at=START + 400 * US_PER_S)
    world.run(1)

    assert row(world).revision == ordinal(1, offset)
    assert row(world).pause == Pause("test", "the bank is shut", row(world).updated_at, START + 400 * US_PER_S)


@pytest.mark.parametrize("resume_at", [START - 60 * US_PER_S, START + 5_000 * 86_400 * US_PER_S, 2**62])
def test_a_pause_that_ends_in_the_past_or_hardly_ever_is_refused(resume_at: int) -> None:
    world, _ = paused_world(resume_at)

    assert row(world).status is JobStatus.ACTIVE
    (reject,) = [codec.decode_reject(record.value) for record in world.records(NAMES.rejects)]  # type: ignore[attr-defined]
    assert reject.pointer == "/resume_at"


def test_nobody_can_push_a_stamp_into_the_far_future() -> None:
    world, _ = paused_world(0)
    world.command(CommandKind.RESUME, JOB, resume_at=START + 3_600 * US_PER_S)
    world.run(1)

    assert row(world).status is JobStatus.PAUSED
    assert len(world.records(NAMES.rejects)) == 1


def test_a_resume_that_came_to_nothing_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    resume_at = START + 40 * US_PER_S
    world, _ = paused_world(resume_at)
    right = resuming._resume
    monkeypatch.setattr(
        resuming, "_resume", lambda *words: right(*words)._replace(resume_at=resume_at + 3_600 * US_PER_S)
    )
    world.run(40)
    assert row(world).status is JobStatus.PAUSED
    monkeypatch.setattr(resuming, "_resume", right)
    world.run(40)

    assert row(world).status is JobStatus.ACTIVE


def test_a_resume_that_is_refused_for_good_is_asked_for_less_and_less_often() -> None:
    """Each is a reject: the schedule compiles no more, and nobody knows when it will again."""
    world, _ = paused_world(START + 40 * US_PER_S)
    with mock.patch.object(standing_check, "why_not_compiled", return_value="its zone is gone"):
        world.run(4_000, step_s=2)
        assert 8 < len(world.records(NAMES.rejects)) < 20
        assert row(world).status is JobStatus.PAUSED
    world.run(3_700, step_s=2)
    assert row(world).status is JobStatus.ACTIVE


def test_a_resume_that_is_refused_once_after_a_long_absence_is_asked_for_again_soon() -> None:
    """How often goes by how long it was asked for, and not by how long ago the pause was to end."""
    world, _ = paused_world(START + 40 * US_PER_S)
    world.cluster.kill(f"d1-{world.lives}")
    world.clock.advance(7_200 * US_PER_S)
    world.dispatcher = world.start()
    with mock.patch.object(standing_check, "why_not_compiled", return_value="its zone is gone"):
        world.run(20)
    assert len(world.records(NAMES.rejects)) == 1
    world.run(60)
    assert row(world).status is JobStatus.ACTIVE


def test_a_trigger_just_before_the_end_of_a_pause_runs_at_once() -> None:
    resume_at = START + 40 * US_PER_S
    world, _ = paused_world(resume_at)
    world.run((resume_at - world.clock.now()) / US_PER_S - 4)
    asked_at = world.clock.now()
    world.command(CommandKind.TRIGGER, JOB)
    world.run(1)

    (triggered,) = [run_id for run_id in world.runs(JOB) if "~" in run_id]
    assert parse_run_id(triggered).fire_at == asked_at
    world.run(10)
    check_books(world)


def test_while_the_store_is_away_the_end_of_a_pause_is_asked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    resume_at = START + 40 * US_PER_S
    world, _ = paused_world(resume_at)

    def away(*_: object) -> None:
        raise BackendDown("cassandra", "away")

    with monkeypatch.context() as outage:
        outage.setattr(MemoryStore, "versions_below", away)
        world.run(200, step_s=0.5)
    assert len(resumes(world)) == 1
    world.run(40)

    assert row(world).status is JobStatus.ACTIVE
    check_books(world)


def test_a_crowd_that_was_paused_a_moment_ago_is_read_at_once_when_it_resumes(monkeypatch: pytest.MonkeyPatch) -> None:
    world, names = crowd(40, START + 3_600 * US_PER_S)
    world.run(1)
    versions, reads = MemoryStore.versions, list[int]()

    def counted(
        store: MemoryStore, job_ids: Sequence[str], back_to: Instant | None = None
    ) -> dict[str, list[JobVersion]]:
        reads.append(len(job_ids))
        return versions(store, job_ids, back_to)

    monkeypatch.setattr(MemoryStore, "versions", counted)
    for name in names:
        world.command(CommandKind.RESUME, name)
    world.run(1)
    rows = MemoryStore(world.clock, world.tables, "looking").job_rows(names)
    assert [row.status for row in rows if row] == [JobStatus.ACTIVE] * len(names)
    assert sum(reads) >= len(names)
    assert len(reads) <= 4, reads
