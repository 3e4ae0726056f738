"""A job is paused by its owner once so many of its runs in a row have failed: one time, whoever owns the shard."""

from __future__ import annotations

import random
from unittest import mock

import pytest
from waterclock.dispatcher import closing, loop, window
from waterclock.dispatcher.flow import FlowJob
from waterclock.dispatcher.shard import Shard

from tests.oracle import failing
from tests.oracle.books import balance
from tests.unit.dispatcher_world import NAMES, START, World, raw
from tests.unit.test_overlap import EVERY_US, JOB, end, fire, rest, say, start
from waterclock.model.concurrency import Concurrency, Overlap
from waterclock.model.events import Ended, EventKind, Skipped
from waterclock.model.ids import US_PER_S, make_run_id, ordinal
from waterclock.model.job import Command, CommandKind, Every, JobSpec, JobStatus
from waterclock.model.timing import Timing
from waterclock.store.memory import MemoryStore
from waterclock.store.port import JobRow
from waterclock.wire import codec


@pytest.fixture
def world():
    with mock.patch.object(window, "SLOTS_PER_SLICE", 256):
        yield World(partitions=1)


def spec(after: int, **more: object) -> JobSpec:
    return JobSpec("demo.noop", Every(EVERY_US, START), timing=Timing(pause_after_failures=after), **more)  # type: ignore[arg-type]


def define(world: World, after: int, kind: CommandKind = CommandKind.CREATE, **more: object) -> None:
    ordered(world, kind, spec(after, **more))


def ordered(world: World, kind: CommandKind, wanted: JobSpec | None = None, **more: object) -> int:
    offset = world.command(kind, JOB, wanted, **more)
    rest(world)
    return offset


def fail(world: World, run_id: str) -> None:
    say(world, run_id, EventKind.ATTEMPT_FAILED, token=start(world, run_id), detail=Ended(0))
    say(world, run_id, EventKind.RUN_FAILED, reason="attempts")
    rest(world)


def fail_next(world: World, times: int = 1) -> str:
    for _ in range(times):
        fire(world)
        fail(world, world.runs(JOB)[-1])
    return world.runs(JOB)[-1]


def row(world: World) -> JobRow:
    found = MemoryStore(world.clock, world.tables, "looking").job(JOB)
    assert found is not None
    return found


def pauses(world: World) -> list[Command]:
    commands = [codec.decode_command(record.value) for record in world.records(NAMES.commands)]  # type: ignore[attr-defined]
    return [command for command in commands if command.kind is CommandKind.PAUSE]


def judge(world: World) -> list[str]:
    commands = [raw(record) for record in world.records(NAMES.commands)]
    events = [raw(record) for record in world.records(NAMES.run_events)]
    return balance(commands, events, world.clock.now() - 1)[0] + failing.check(commands, events)[0]


def test_the_last_failure_of_so_many_pauses_the_job_and_the_pause_names_the_run(world: World) -> None:
    define(world, 2)
    fail_next(world)
    assert row(world).status is JobStatus.ACTIVE
    last = fail_next(world)
    pause = row(world).pause
    assert pause is not None
    assert pause.actor == "dispatcher"
    assert pause.note == f"2 runs in a row failed, the last: {last}"
    fire(world, 3)
    assert world.runs(JOB)[-1] == last
    assert judge(world) == []


def test_a_success_begins_the_count_anew_and_a_cancel_changes_nothing(world: World) -> None:
    define(world, 2)
    fail_next(world)
    fire(world)
    end(world, world.runs(JOB)[-1])
    fail_next(world)
    fire(world)
    say(world, world.runs(JOB)[-1], EventKind.CANCEL_REQUESTED)
    rest(world)
    assert row(world).status is JobStatus.ACTIVE
    fail_next(world)
    assert row(world).status is JobStatus.PAUSED
    assert judge(world) == []


def test_an_attempt_that_failed_is_no_failure_of_its_run(world: World) -> None:
    define(world, 1)
    fire(world)
    run_id = world.runs(JOB)[-1]
    say(world, run_id, EventKind.ATTEMPT_FAILED, token=start(world, run_id), detail=Ended(0))
    say(world, run_id, EventKind.RETRYING, attempt=2)
    rest(world)
    assert pauses(world) == []
    say(world, run_id, EventKind.RUN_EXPIRED, reason="run")
    rest(world)
    assert row(world).status is JobStatus.PAUSED
    assert judge(world) == []


def test_a_resume_begins_anew_and_what_was_made_before_it_does_not_count(world: World) -> None:
    define(world, 2)
    fire(world, 3)
    older = world.runs(JOB)[-3:]
    fail(world, older[0])
    fail(world, older[1])
    assert row(world).status is JobStatus.PAUSED
    ordered(world, CommandKind.RESUME)
    fail(world, older[2])
    fail_next(world)
    assert row(world).status is JobStatus.ACTIVE
    fail_next(world)
    assert row(world).status is JobStatus.PAUSED
    assert len(pauses(world)) == 2
    assert judge(world) == []


@pytest.mark.parametrize("read_before", [0, 1, 2])
def test_a_successor_counts_each_failure_once_whoever_has_read_it(world: World, read_before: int) -> None:
    define(world, 2)
    fire(world, 3)
    made = world.runs(JOB)[-3:]
    for number, run_id in enumerate(made):
        if number == read_before:
            world.crash()
        token = start(world, run_id)
        kind = EventKind.ATTEMPT_SUCCEEDED if number == 0 else EventKind.ATTEMPT_FAILED
        say(world, run_id, kind, token=token, detail=Ended(0))
        if number:
            say(world, run_id, EventKind.RUN_FAILED, reason="attempts")
        if number < read_before:
            rest(world)
            assert row(world).status is JobStatus.ACTIVE
    world.clock.advance(20 * US_PER_S)  # a session, and what the successor makes up for
    rest(world)
    assert row(world).status is JobStatus.PAUSED
    assert len(pauses(world)) == 1
    assert judge(world) == []


def test_a_pause_that_was_asked_for_by_a_predecessor_is_not_carried_out_twice(world: World) -> None:
    define(world, 1)
    fire(world)
    with mock.patch.object(loop.Dispatcher, "_apply", return_value=None):
        fail(world, world.runs(JOB)[-1])
    assert len(pauses(world)) == 1
    assert row(world).status is JobStatus.ACTIVE
    world.crash()
    world.clock.advance(20 * US_PER_S)
    rest(world)
    ordered(world, CommandKind.RESUME)
    assert row(world).status is JobStatus.ACTIVE
    assert len(pauses(world)) == 1
    assert judge(world) == []


def test_an_edit_in_between_delays_the_pause_and_does_not_undo_it(world: World) -> None:
    define(world, 1)
    fire(world)
    run_id = world.runs(JOB)[-1]
    say(world, run_id, EventKind.ATTEMPT_FAILED, token=start(world, run_id), detail=Ended(0))
    say(world, run_id, EventKind.RUN_FAILED, reason="attempts")
    edited = world.command(CommandKind.UPDATE, JOB, spec(1, payload=b"2"))
    rest(world)
    assert row(world).status is JobStatus.PAUSED
    assert [pause.expected_revision for pause in pauses(world)][-1] == ordinal(1, edited)
    assert judge(world) == []


def test_an_edit_that_allows_more_goes_on_and_one_that_allows_fewer_counts_at_once(world: World) -> None:
    define(world, 3)
    fail_next(world, 2)
    define(world, 4, CommandKind.UPDATE)
    fail_next(world)
    assert row(world).status is JobStatus.ACTIVE
    define(world, 2, CommandKind.UPDATE)
    assert row(world).status is JobStatus.PAUSED
    assert judge(world) == []


def test_who_pauses_and_resumes_by_hand_is_not_paused_again_by_what_was_before(world: World) -> None:
    define(world, 2)
    fail_next(world, 1)
    ordered(world, CommandKind.PAUSE, note="by hand")
    ordered(world, CommandKind.RESUME)
    fail_next(world, 1)
    assert row(world).status is JobStatus.ACTIVE
    assert [pause.actor for pause in pauses(world)] == ["test"]
    assert judge(world) == []


def test_a_job_without_it_is_not_followed_and_one_that_gives_it_up_no_longer(world: World) -> None:
    define(world, 1)
    define(world, 0, CommandKind.UPDATE)
    fail_next(world, 3)
    assert row(world).status is JobStatus.ACTIVE
    assert not world.dispatcher._shards[0].flow.jobs
    assert judge(world) == []


def test_triggers_count_and_it_goes_with_an_overlap_policy(world: World) -> None:
    define(world, 2, concurrency=Concurrency(Overlap.SKIP))
    fail_next(world)
    offset = ordered(world, CommandKind.TRIGGER)
    fail(world, make_run_id(JOB, world.clock.now(), ordinal(1, offset)))
    assert row(world).status is JobStatus.PAUSED
    assert judge(world) == []


def test_a_command_that_came_to_nothing_is_given_again(world: World) -> None:
    define(world, 1)
    with mock.patch.object(closing, "_command", side_effect=_refused):
        fail_next(world)
    assert row(world).status is JobStatus.ACTIVE
    world.clock.advance(closing.AGAIN_US)
    rest(world)
    assert row(world).status is JobStatus.PAUSED
    assert judge(world) == []


def _refused(job: FlowJob, kind: CommandKind, now: int) -> Command:
    return Command(kind, job.job_id, "another", "dispatcher", now, expected_revision=1)


def test_what_failed_before_the_end_does_not_pause_a_job_that_goes_on(world: World) -> None:
    def limited(most: int) -> JobSpec:
        return JobSpec("demo.noop", Every(EVERY_US, START), timing=Timing(max_runs=most, pause_after_failures=2))

    ordered(world, CommandKind.CREATE, limited(3))
    fire(world, 3)
    older = world.runs(JOB)
    fail(world, older[0])
    assert row(world).status is JobStatus.ENDED
    fail(world, older[1])
    ordered(world, CommandKind.UPDATE, limited(9))
    assert row(world).status is JobStatus.ACTIVE
    fail(world, older[2])
    fail_next(world)
    assert row(world).status is JobStatus.ACTIVE
    fail_next(world)
    assert row(world).status is JobStatus.PAUSED
    assert judge(world) == []


def test_runs_that_are_merely_followed_leave_room_for_jobs_with_limits(world: World) -> None:
    """Long runs of a job that nothing limits go on all the same; of those beyond the room the end does not count."""
    with mock.patch("waterclock.dispatcher.admitting.RUNS_MAX", 5):
        define(world, 3)
        fire(world, 6)
        limited = JobSpec("demo.noop", Every(EVERY_US, START), concurrency=Concurrency(Overlap.SKIP))
        world.command(CommandKind.CREATE, "t:limited", limited)
        rest(world)
        fire(world, 2)
    told = [(event.kind, event.reason) for event in world.events() if event.job_id == "t:limited" and event.run_id]
    assert told == [(EventKind.PENDING, ""), (EventKind.SKIPPED, "overlap")]
    caps = [event.detail.cap for event in world.events(EventKind.SKIPPED) if isinstance(event.detail, Skipped)]
    assert caps == [""], "its own run, and not the shard's room"
    assert len(world.dispatcher._shards[0].flow.jobs[JOB].open) == 2
    made = world.runs(JOB)
    assert len(made) == 8
    for run_id in made[2:]:
        fail(world, run_id)
    assert row(world).status is JobStatus.ACTIVE
    fail(world, made[0])
    fail(world, made[1])
    fail_next(world)
    assert row(world).status is JobStatus.PAUSED


@pytest.mark.parametrize("seed", range(12))
def test_pauses_follow_the_order_of_the_log_over_take_overs_edits_and_resumes(world: World, seed: int) -> None:
    """Judged by an oracle that shares nothing with it. Runs end long after others began; nobody waits for anybody."""
    rng = random.Random(seed)
    define(world, rng.choice([1, 2, 3]))
    ended: set[str] = set()
    for _ in range(14):
        deed = rng.choice([*["end"] * 6, "resume", "resume", "pause", "crash", "edit", "trigger", "cancel"])
        fire(world)
        opened = [run_id for run_id in world.runs(JOB) if run_id not in ended]
        if deed in ("end", "cancel") and opened:
            run_id = rng.choice(opened)
            ended.add(run_id)
            if deed == "cancel":
                say(world, run_id, EventKind.CANCEL_REQUESTED)
            elif rng.random() < 0.25:
                end(world, run_id)
            else:
                say(world, run_id, EventKind.ATTEMPT_FAILED, token=start(world, run_id), detail=Ended(0))
                say(world, run_id, EventKind.RUN_FAILED, reason="attempts")
        elif deed == "crash":
            world.crash()
            world.clock.advance(20 * US_PER_S)
        elif deed == "edit":
            world.command(CommandKind.UPDATE, JOB, spec(rng.choice([0, 1, 2, 3]), payload=rng.randbytes(2)))
        elif deed in ("resume", "pause", "trigger"):
            world.command(CommandKind(deed.upper()), JOB)
        if rng.random() < 0.7:
            rest(world)
    rest(world)
    world.clock.advance(20 * US_PER_S)
    rest(world)
    assert judge(world) == []


def test_an_end_that_is_read_before_anything_may_be_decided_counts_once(world: World) -> None:
    define(world, 2)
    fire(world)
    run_id = world.runs(JOB)[-1]
    say(world, run_id, EventKind.ATTEMPT_FAILED, token=start(world, run_id), detail=Ended(0))
    say(world, run_id, EventKind.RUN_FAILED, reason="attempts")
    with mock.patch.object(Shard, "may_decide", False):
        ordered(world, CommandKind.UPDATE, spec(2, payload=b"2"))
    world.crash()
    world.clock.advance(20 * US_PER_S)
    rest(world)
    assert row(world).status is JobStatus.ACTIVE
    assert judge(world) == []
