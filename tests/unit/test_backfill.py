"""A backfill runs the fires of a past range, each once, behind everything else, and says so."""

from __future__ import annotations

from unittest import mock

import pytest
from waterclock.dispatcher import backfill_lanes, backfill_orders, window
from waterclock.dispatcher.commands import Place
from waterclock.dispatcher.pace import Pace

from tests.oracle import backfills, counted, failing
from tests.unit.backfill_world import JOB, MINUTE_US, BackfillWorld, fire_of, minute
from tests.unit.dispatcher_world import NAMES, START, raw
from waterclock.log.port import Outgoing
from waterclock.model.concurrency import Concurrency, Overlap
from waterclock.model.dag import DagSpec, Node
from waterclock.model.errors import RequestError
from waterclock.model.events import Ended, EventKind, Origin, Pending, RunStatus, Started
from waterclock.model.ids import US_PER_S, make_run_id
from waterclock.model.job import Command, CommandKind, Cron, Every, JobSpec, JobStatus, JobVersion, Tier
from waterclock.model.timing import Timing
from waterclock.wire import codec
from waterclock.wire.messages import FLOW_PREFIX


@pytest.fixture
def world():
    with mock.patch.object(window, "SLOTS_PER_SLICE", 256):
        yield BackfillWorld()


def test_fires_before_the_job_existed_are_run_oldest_first_and_no_more_at_once_than_was_said(
    world: BackfillWorld,
) -> None:
    world.define()
    backfill = world.ask(-5, 0, concurrency=2)
    world.wait(10)
    assert world.minutes() == [-5, -4]
    world.end_all()
    assert world.minutes() == [-5, -4, -3, -2]
    world.end_all()
    world.end_all()
    assert world.minutes() == [-5, -4, -3, -2, -1]
    assert world.statuses(backfill) == ["WAITING", "RUNNING", "DONE"]
    last = world.told(backfill)[-1]
    assert (last.fire_count, last.made_count, last.left_count, last.succeeded_count) == (5, 5, 0, 5)


def test_its_runs_say_whose_they_are_and_are_read_back_before_user_code(world: BackfillWorld) -> None:
    world.define(JobSpec("demo.noop", Cron("* * * * *"), Tier.HIGH, payload=b"7"))
    backfill = world.ask(-1, 0)
    world.wait(10)
    (made,) = world.pendings()
    assert isinstance(made.detail, Pending)
    detail = made.detail
    assert (detail.origin, detail.tier, detail.due_at) == (Origin.BACKFILL, Tier.LOW, None)
    assert f"{JOB}~{detail.backfill}" == backfill
    (work,) = [codec.decode_work(record.value) for record in world.records(NAMES.runs(Tier.LOW))]  # type: ignore[attr-defined]
    assert (work.run_id, work.backfill, work.payload) == (make_run_id(JOB, START - MINUTE_US), backfill, b"7")
    assert work.verify_from >= 0
    assert work.verify_state
    assert work.due_at == made.at


def test_what_has_run_is_left_out_whoever_made_it_and_however_it_ended(world: BackfillWorld) -> None:
    world.define()
    world.wait(190)
    ran = [event.run_id for event in world.pendings()]
    world.say(ran[0], EventKind.CANCEL_REQUESTED)
    world.rest()
    backfill = world.ask(-2, 4, concurrency=100)
    world.wait(10)
    assert len(ran) == 3
    assert world.minutes() == [-2, -1, 0]
    last = world.told(backfill)[-1]
    assert (last.made_count, last.left_count) == (3, 3)


@pytest.mark.parametrize("records", [True, False])
def test_what_history_does_not_hold_yet_is_read_from_the_log(world: BackfillWorld, records: bool) -> None:
    world.define()
    world.wait(190, records=records)
    world.ask(-1, 4, concurrency=100)
    world.wait(10, records=records)
    assert world.minutes() == [-1, 0]


def test_a_fire_that_was_skipped_gives_way_and_its_run_counts(world: BackfillWorld) -> None:
    world.define()
    world.wait(65)
    world.command(CommandKind.PAUSE, JOB)
    world.wait(180)
    world.command(CommandKind.RESUME, JOB)
    world.wait(5)
    (skip,) = world.events(EventKind.SKIPPED)
    assert skip.reason == "paused"
    world.ask(1, 5, concurrency=100)
    world.wait(10)
    assert world.minutes() == [2, 3, 4]
    world.end_all()
    row = world.store.run(JOB, START + 2 * MINUTE_US, 0)
    assert row is not None
    assert (row.status, row.origin) == (RunStatus.SUCCEEDED, "BACKFILL")


def test_what_reaches_into_a_pause_waits_for_its_end_and_what_lies_before_it_does_not(world: BackfillWorld) -> None:
    world.define()
    world.wait(65)
    world.command(CommandKind.PAUSE, JOB)
    world.wait(185)
    before = world.ask(-1, 1)
    world.wait(10)
    assert world.minutes() == [-1, 0]
    world.end_all()
    inside = world.ask(2, 4)
    world.wait(30)
    assert (world.told(before)[-1].status, world.told(inside)[-1].status) == ("DONE", "WAITING")
    world.command(CommandKind.RESUME, JOB)
    world.wait(10)
    world.end_all()
    assert world.minutes() == [-1, 0, 2, 3]
    row = world.store.run(JOB, START + 2 * MINUTE_US, 0)
    assert row is not None
    assert row.status is RunStatus.SUCCEEDED


def test_a_take_over_goes_on_behind_the_last_run_and_knows_how_many_are_open(world: BackfillWorld) -> None:
    world.define()
    backfill = world.ask(-6, 0, concurrency=2)
    world.wait(10)
    world.crash()
    world.wait(30)
    assert world.minutes() == [-6, -5]
    world.end(world.made()[0])
    world.crash()
    world.wait(30)
    assert world.minutes() == [-6, -5, -4]
    for _ in range(4):
        world.end_all()
    assert world.minutes() == [-6, -5, -4, -3, -2, -1]
    last = world.told(backfill)[-1]
    assert (last.status, last.made_count, last.succeeded_count) == ("DONE", 6, 6)
    assert not [key for key in _state_keys(world) if key.startswith(("backfill/", "flow/"))]


def test_paused_it_makes_nothing_resumed_it_goes_on_cancelled_it_never_does(world: BackfillWorld) -> None:
    world.define()
    backfill = world.ask(-6, 0, concurrency=1)
    world.wait(10)
    world.turn(CommandKind.PAUSE_BACKFILL, backfill)
    world.end_all()
    world.crash()
    world.wait(30)
    assert world.minutes() == [-6]
    world.turn(CommandKind.RESUME_BACKFILL, backfill)
    world.wait(10)
    assert world.minutes() == [-6, -5]
    world.turn(CommandKind.CANCEL_BACKFILL, backfill, note="enough")
    world.end_all()
    world.wait(30)
    assert world.minutes() == [-6, -5]
    last = world.told(backfill)[-1]
    assert (last.status, last.reason, last.succeeded_count) == ("CANCELLED", "enough", 2)


def test_backfills_of_one_job_go_one_after_the_other_and_never_run_a_fire_twice(world: BackfillWorld) -> None:
    world.define()
    first, second = world.ask(-4, 0, concurrency=2), world.ask(-6, -2, concurrency=2)
    world.wait(10)
    assert world.minutes() == [-4, -3]
    for _ in range(6):
        world.end_all()
    assert world.minutes() == [-4, -3, -2, -1, -6, -5]
    assert [world.told(each)[-1].status for each in (first, second)] == ["DONE", "DONE"]
    assert world.told(second)[-1].left_count == 2


def test_one_that_is_paused_lets_the_next_pass_and_leaves_out_what_that_has_run(world: BackfillWorld) -> None:
    world.define()
    first, _ = world.ask(-4, 0, concurrency=1), world.ask(-4, 0, concurrency=4)
    world.wait(10)
    world.turn(CommandKind.PAUSE_BACKFILL, first)
    world.wait(10)
    assert sorted(world.minutes()) == [-4, -3, -2, -1]
    world.end_all()
    world.turn(CommandKind.RESUME_BACKFILL, first)
    world.wait(10)
    assert sorted(world.minutes()) == [-4, -3, -2, -1]
    last = world.told(first)[-1]
    assert (last.status, last.made_count, last.left_count) == ("DONE", 1, 3)


def test_one_that_waits_behind_a_resumed_one_looks_again_at_what_has_run() -> None:
    for steps in range(12):
        world = BackfillWorld()
        world.define()
        first, second = world.ask(-4, 0, concurrency=4), world.ask(-4, 0, concurrency=4)
        world.command(CommandKind.PAUSE_BACKFILL, JOB, backfill_id=first, answer=True)
        world.command(CommandKind.PAUSE_BACKFILL, JOB, backfill_id=second, answer=True)
        world.wait(10)
        world.command(CommandKind.RESUME_BACKFILL, JOB, backfill_id=second, answer=True)
        for _ in range(steps):  # in one of these it knows what has run, and has not begun
            world.dispatcher.step()
        world.turn(CommandKind.RESUME_BACKFILL, first)
        for _ in range(6):
            world.wait(10)
            world.end_all()
        assert sorted(world.minutes()) == [-4, -3, -2, -1], steps
        assert sum(world.told(each)[-1].made_count for each in (first, second)) == 4


def test_a_job_with_limits_keeps_them_and_what_is_on_time_is_never_overtaken(world: BackfillWorld) -> None:
    spec = JobSpec("demo.noop", Cron("* * * * *"), concurrency=Concurrency(Overlap.BUFFER_ALL, max_concurrent=1))
    world.define(spec)
    world.ask(-3, 0)
    world.wait(5)
    assert world.minutes() == [-3]
    world.wait(120)  # fires come, and wait behind it
    held = world.events(EventKind.HELD)
    assert len(held) == 2
    world.end(world.made()[0])
    world.rest()
    pendings = [event.run_id for event in world.pendings()]
    assert pendings == [world.made()[0], held[0].run_id]
    world.end(held[0].run_id)
    world.rest()
    world.end(held[1].run_id)
    world.rest()
    assert world.minutes() == [-3, -2]


def test_a_fire_that_is_held_is_waited_for_and_run_only_if_it_was_dropped(world: BackfillWorld) -> None:
    spec = JobSpec("demo.noop", Cron("* * * * *"), concurrency=Concurrency(Overlap.CANCEL_OTHER))
    world.define(spec)
    world.wait(65)
    first = world.pendings()[0].run_id
    token = world.say(first, EventKind.STARTED, detail=Started("x", 0, 0))
    world.wait(60)  # the second fire waits for the end of the first run
    (held,) = world.events(EventKind.HELD)
    backfill = world.ask(1, 2)
    dropped = world.ask(2, 3)
    world.wait(10)
    world.end_all()
    assert (world.told(backfill)[-1].left_count, world.told(backfill)[-1].status) == (1, "DONE")
    assert (world.minutes(), world.told(dropped)[-1].left_count) == ([], 0)
    world.wait(60)  # the third fire takes its place
    assert [event.run_id for event in world.events(EventKind.SKIPPED)] == [held.run_id]
    world.say(first, EventKind.ATTEMPT_CANCELLED, token=token, detail=Ended(0))
    world.rest()
    assert world.made() == []
    world.end(world.pendings()[-1].run_id)
    world.wait(10)
    assert world.made() == [held.run_id]
    world.end_all()
    last = world.told(dropped)[-1]
    assert (last.status, last.made_count, last.left_count) == ("DONE", 1, 0)


def test_a_fire_that_was_cancelled_while_it_waited_is_left_out_before_history_says_so(world: BackfillWorld) -> None:
    """Else what exists would be read again and again, and no other backfill of the shard would have its turn."""
    spec = JobSpec("demo.noop", Cron("* * * * *"), concurrency=Concurrency(Overlap.BUFFER_ALL))
    world.define(spec)
    world.define(job_id="t:other")
    world.wait(125, records=False)
    (held,) = world.events(EventKind.HELD)
    world.command(CommandKind.CANCEL, JOB, run_id=held.run_id)
    world.rest(records=False)
    backfill = world.ask(2, 3)
    world.ask(-2, 0, job_id="t:other")
    world.wait(20, records=False)
    last = world.told(backfill)[-1]
    assert (last.status, last.made_count, last.left_count) == ("DONE", 0, 1)
    assert world.minutes("t:other") == [-2, -1]


def test_a_held_run_that_this_release_cannot_read_keeps_no_other_backfill_waiting(world: BackfillWorld) -> None:
    world.define(JobSpec("demo.noop", Cron("* * * * *"), concurrency=Concurrency(Overlap.BUFFER_ALL)))
    world.define(job_id="t:other")
    world.wait(125)
    (held,) = world.events(EventKind.HELD)
    key, place = (FLOW_PREFIX + held.run_id).encode(), NAMES.state("dispatcher")
    appender = world.outside.appender()
    appender.append(Outgoing(place, key, b"of a later release", partition=0))
    appender.flush(1.0)
    world.cluster.kill(f"d1-{world.lives}")
    world.clock.advance(10 * US_PER_S)
    world.dispatcher = world.start()
    world.wait(60)
    backfill = world.ask(2, 3)
    world.ask(-2, 0, job_id="t:other")
    world.wait(20)
    assert (world.told(backfill)[-1].status, world.minutes()) == ("RUNNING", [])
    assert world.minutes("t:other") == [-2, -1]


def test_an_edit_changes_nothing_of_it_and_a_delete_ends_it(world: BackfillWorld) -> None:
    world.define()
    backfill = world.ask(-6, 0, concurrency=1)
    world.wait(5)
    world.command(CommandKind.UPDATE, JOB, JobSpec("other", Every(7 * US_PER_S)))
    world.rest()
    world.end_all()
    assert world.minutes() == [-6, -5]
    world.command(CommandKind.DELETE, JOB)
    world.rest()
    world.end_all()
    assert world.minutes() == [-6, -5]
    assert (world.told(backfill)[-1].status, world.told(backfill)[-1].reason) == ("CANCELLED", "deleted")
    assert world.told(backfill)[-1].succeeded_count == 2


def test_it_waits_for_fires_that_the_schedule_still_has_to_decide(world: BackfillWorld) -> None:
    world.define(JobSpec("demo.noop", Cron("* * * * *"), timing=Timing(jitter_us=29 * US_PER_S)))
    world.wait(130)
    world.ask(-1, 3, concurrency=100)
    world.wait(30)
    assert world.made() == []
    world.wait(1_800)
    assert world.minutes() == [-1, 0]
    ids = [event.run_id for event in world.pendings()]
    assert len(ids) == len(set(ids))


def test_it_is_worked_on_only_where_no_gap_is_caught_up(world: BackfillWorld) -> None:
    world.define(JobSpec("demo.noop", Cron("* * * * *")))
    world.wait(20)
    world.clock.advance(600 * US_PER_S)
    world.dispatcher = world.start("d1")
    backfill = world.ask(-2, 10, concurrency=100)
    world.wait(60)
    world.end_all()
    ids = [event.run_id for event in world.pendings()]
    assert len(ids) == len(set(ids))
    # The catch-up has run the newest fire; those that it left out as coalesced have run now.
    assert set(range(-2, 10)) <= {(fire_of(run_id) - START) // MINUTE_US for run_id in ids}
    assert world.told(backfill)[-1].status == "DONE"


@pytest.mark.parametrize(
    ("asked", "pointer"),
    [
        ({"from_minute": 0, "to_minute": -1}, "/to"),
        ({"from_minute": -1, "to_minute": 60}, "/to"),
        ({"from_minute": -20_000, "to_minute": 0}, "/to"),
        ({"from_minute": -1, "to_minute": 0, "concurrency": 1_001}, "/concurrency"),
        ({"from_minute": -1, "to_minute": 0, "to_revision": 4711}, "/to_revision"),
    ],
)
def test_what_cannot_be_is_refused_and_says_where(world: BackfillWorld, asked: dict[str, int], pointer: str) -> None:
    world.define()
    world.ask(**asked)
    world.wait(5)
    answer = world.answers()[-1]
    assert (answer.verdict, answer.pointer) == ("refused", pointer)
    assert answer.hint
    assert not world.events(EventKind.BACKFILL)


def test_a_range_without_a_fire_and_a_job_that_is_none_are_refused(world: BackfillWorld) -> None:
    world.define(JobSpec("demo.noop", Every(60 * US_PER_S)))
    world.ask(-9, 0)
    world.ask(-9, 0, job_id="t:nobody")
    world.wait(5)
    assert [(each.verdict, each.problem) for each in world.answers()] == [
        ("refused", "invalid"),
        ("refused", "not-found"),
    ]


def test_fires_of_which_history_no_longer_tells_are_refused_but_not_those_before_the_job_existed() -> None:
    day_us = 1_440 * MINUTE_US
    now = START + 40 * day_us
    version = JobVersion(JOB, 7, JobSpec("demo.noop", Cron("0 0 * * *")), JobStatus.ACTIVE, "", START, 0, 7, START)

    def decided(from_at: int, to_at: int) -> backfill_orders.Turned:
        command = Command(CommandKind.BACKFILL, JOB, "c", "ann", now, from_at=from_at, to_at=to_at)
        return backfill_orders.decide(command, Place(1, 0, 9, now), [version], None, {})

    with pytest.raises(RequestError) as refused:
        decided(START, START + 3 * day_us)
    assert refused.value.pointer == "/from"
    assert decided(START - 3 * day_us, START).told.fire_count == 3
    assert decided(now - 28 * day_us, now).told.fire_count == 28


@pytest.mark.parametrize("is_named", [False, True])
def test_the_past_of_a_dag_is_refused_and_it_is_said_what_to_do(world: BackfillWorld, is_named: bool) -> None:
    """Also where the job is none any more, and the version that is named is one."""
    world.define(JobSpec("", Cron("* * * * *"), dag=DagSpec((Node("a", "h"),))))
    dag = world.store.job(JOB)
    assert dag is not None
    if is_named:
        world.command(CommandKind.UPDATE, JOB, JobSpec("demo.noop", Cron("* * * * *")))
    world.ask(-3, 0, to_revision=dag.revision if is_named else 0)
    world.wait(10)
    answer = world.answers()[-1]
    assert (answer.verdict, answer.pointer) == ("refused", "/job_id")
    assert "waterclock job trigger" in answer.hint
    assert world.made() == []
    assert backfills.check(*_dumped(world))[0] == []


def test_the_judge_of_backfills_wants_none_of_a_dag_and_would_see_one(world: BackfillWorld) -> None:
    with mock.patch.object(backfill_orders, "check_may_be_backfilled"):
        world.define(JobSpec("", Cron("* * * * *"), dag=DagSpec((Node("a", "h"),))))
        world.ask(-1, 0)
        world.wait(10)
    assert any("nobody asked for it" in each for each in backfills.check(*_dumped(world))[0])


def test_its_failures_pause_no_job_and_its_successes_excuse_none(world: BackfillWorld) -> None:
    world.define(JobSpec("demo.noop", Cron("* * * * *"), timing=Timing(pause_after_failures=2)))
    world.ask(-3, 0, concurrency=3)
    world.wait(10)
    for run_id in world.made():
        _fail(world, run_id)
    world.rest()
    row = world.store.job(JOB)
    assert row is not None
    assert (len(world.made()), row.status) == (3, JobStatus.ACTIVE)
    world.wait(50)
    _fail(world, world.pendings()[-1].run_id)
    world.ask(-4, -3)
    world.wait(10)
    world.end_all()
    world.wait(50)
    _fail(world, world.pendings()[-1].run_id)
    world.rest()
    row = world.store.job(JOB)
    assert row is not None
    assert row.status is JobStatus.PAUSED
    assert failing.check(*_dumped(world))[0] == []


def test_it_takes_nothing_of_max_runs_and_runs_the_past_of_a_job_that_has_ended(world: BackfillWorld) -> None:
    world.define(JobSpec("demo.noop", Cron("* * * * *"), timing=Timing(max_runs=2)))
    before = world.ask(-2, 0)
    world.wait(10)
    world.end_all()
    world.wait(180)
    row = world.store.job(JOB)
    assert row is not None
    assert (world.minutes(), row.status) == ([-2, -1], JobStatus.ENDED)
    by_schedule = [event.run_id for event in world.pendings() if not _is_backfill(event.detail)]
    assert [minute(run_id) for run_id in by_schedule] == [1, 2]
    after = world.ask(-3, 3)
    world.wait(10)
    world.end_all()
    world.end_all()
    row = world.store.job(JOB)
    assert row is not None
    assert (world.minutes(), row.status) == ([-2, -1, -3, 0], JobStatus.ENDED)
    assert [world.told(each)[-1].status for each in (before, after)] == ["DONE", "DONE"]
    assert counted.check(*_dumped(world))[0] == []


def test_the_end_of_its_job_leaves_one_that_is_under_way_going_on(world: BackfillWorld) -> None:
    """Cancelled is only what somebody cancels, and what is of a job that was deleted (docs/backfill.md, States)."""
    world.define(JobSpec("demo.noop", Cron("* * * * *"), timing=Timing(max_runs=1)))
    under_way, waiting = world.ask(-3, 0, concurrency=1), world.ask(-4, -3)
    world.wait(65)
    row = world.store.job(JOB)
    assert row is not None
    assert (world.minutes(), row.status) == ([-3], JobStatus.ENDED)
    for _ in range(5):
        world.end_all()
    assert world.minutes() == [-3, -2, -1, -4]
    assert [world.told(each)[-1].status for each in (under_way, waiting)] == ["DONE", "DONE"]


def test_a_repeat_makes_no_second_one_and_is_answered_with_the_first(world: BackfillWorld) -> None:
    world.define()
    first = world.ask(-2, 0, idempotency_key="k")
    world.ask(-2, 0, idempotency_key="k")
    world.ask(-3, 0, idempotency_key="k")
    world.wait(5)
    assert [(each.verdict, each.run_id) for each in world.answers()] == [
        ("applied", first),
        ("repeated", first),
        ("refused", ""),
    ]
    assert world.minutes() == [-2, -1]


def test_a_range_without_an_end_ends_at_the_command_and_its_repeat_asks_for_the_same(world: BackfillWorld) -> None:
    world.define()
    open_end = {"from_at": START - 2 * MINUTE_US, "to_at": 0, "idempotency_key": "k", "answer": True}
    world.command(CommandKind.BACKFILL, JOB, **open_end)
    asked_at = world.records(NAMES.commands)[-1].timestamp_us  # type: ignore[attr-defined]
    world.wait(65)
    world.command(CommandKind.BACKFILL, JOB, **open_end)
    world.wait(5)
    first, again = world.answers()
    assert (first.verdict, again.verdict, again.run_id) == ("applied", "repeated", first.run_id)
    assert world.told(first.run_id)[-1].to_at == asked_at
    assert world.minutes()[:2] == [-2, -1]
    world.end_all()
    assert backfills.check(*_dumped(world))[0] == []


def test_one_that_has_ended_cannot_be_turned(world: BackfillWorld) -> None:
    world.define()
    backfill = world.ask(-1, 0)
    world.wait(5)
    world.end_all()
    world.turn(CommandKind.PAUSE_BACKFILL, backfill)
    assert (world.answers()[-1].verdict, world.answers()[-1].problem) == ("refused", "not-found")


def test_what_is_on_time_goes_first_while_it_fills_the_rounds(world: BackfillWorld) -> None:
    world.pace = Pace(round_records=4, catch_up_share=0.25)
    world.dispatcher.close()
    world.dispatcher = world.start()
    for number in range(30):
        world.command(CommandKind.CREATE, f"t:herd{number}", JobSpec("demo.noop", Cron("* * * * *")))
    world.define()
    world.wait(30)
    world.ask(-200, 0, concurrency=1_000)
    with mock.patch.object(backfill_lanes.BackfillLanes, "read", return_value=False):
        world.wait(10)  # nothing is read yet, so that it begins with the herd
    world.clock.advance(25 * US_PER_S)
    for _ in range(40):
        world.dispatcher.step()
    made = world.events(EventKind.PENDING)
    last_on_time = max(place for place, event in enumerate(made) if event.job_id.startswith("t:herd"))
    before = sum(_is_backfill(event.detail) for event in made[:last_on_time])
    assert len([event for event in made if event.job_id.startswith("t:herd")]) == 30
    assert before <= 30 * 0.25 + 4


def _fail(world: BackfillWorld, run_id: str) -> None:
    token = world.say(run_id, EventKind.STARTED, detail=Started("x", 0, 0))
    world.say(run_id, EventKind.ATTEMPT_FAILED, token=token, detail=Ended(0))
    world.say(run_id, EventKind.RUN_FAILED)


def _dumped(world: BackfillWorld) -> tuple[list[dict[str, object]], list[dict[str, object]]]:
    given = [raw(each) for each in world.records(NAMES.commands)]
    return given, [raw(each) for each in world.records(NAMES.run_events)]


def _is_backfill(detail: object) -> bool:
    return isinstance(detail, Pending) and detail.origin is Origin.BACKFILL


def _state_keys(world: BackfillWorld) -> list[str]:
    kept: dict[str, bytes | None] = {}
    for record in world.records(NAMES.state("dispatcher")):
        kept[(record.key or b"").decode()] = record.value  # type: ignore[attr-defined]
    return [key for key, value in kept.items() if value is not None]


def test_backfills_leave_the_last_room_of_a_shard_to_other_tenants(world: BackfillWorld) -> None:
    """Their runs are followed, whatever limits their jobs: in a pool that nobody serves they stay open."""
    world.define()
    limited = JobSpec("demo.noop", Cron("0 0 1 1 *"), concurrency=Concurrency(Overlap.SKIP))
    world.define(limited, "u:one")
    with mock.patch("waterclock.dispatcher.admitting.RUNS_MAX", 10):
        world.ask(-20, 0, concurrency=20)
        world.wait(5)
        world.command(CommandKind.TRIGGER, "u:one")
        world.rest()
    assert len(world.made()) == 9
    assert [event.kind for event in world.events() if event.job_id == "u:one"][-1] is EventKind.PENDING
