"""Runs whose time is over: those that wait end, those that run are asked to."""

from __future__ import annotations

from collections import Counter

import pytest
from waterclock.retry_router import expiry
from waterclock.retry_router.expiry import Deadlines
from waterclock.retry_router.trail import Note, Trail, follow

from waterclock.log import known_until
from waterclock.log.port import Outgoing, TopicPartition
from waterclock.model.events import (
    Control,
    ControlKind,
    Ended,
    EventKind,
    Origin,
    Pending,
    Retrying,
    RunEvent,
    RunStatus,
    WorkRecord,
)
from waterclock.model.failure_policy import FailurePolicy, policy_to_json
from waterclock.model.fold import OpenRun
from waterclock.model.ids import US_PER_S, make_run_id
from waterclock.model.job import Command, CommandKind, Tier
from waterclock.model.reduce import RunState
from waterclock.wire.codec import decode_any

from .router_world import JOB, NAMES, OTHER, World

EXPIRED = EventKind.RUN_EXPIRED
MINUTE = 60 * US_PER_S
DAY = 24 * 60 * MINUTE


def expired(world: World) -> list[str]:
    return [event.run_id for event in world.events(EXPIRED)]


def limited(due_at: int = 0, limit_us: int = 365 * DAY) -> OpenRun[Note]:
    """A run that waits, and is over so long after it was due."""
    run: OpenRun[Note] = OpenRun(RunState(RunStatus.PENDING), 0)
    run.note = Trail(due_at=due_at, claimable_at=due_at, run_timeout_us=limit_us)
    return run


def test_a_run_that_nobody_claims_expires_after_its_queue_timeout() -> None:
    world = World()
    run_id, _ = world.pending(queue_timeout_us=MINUTE)
    world.turn(router := world.router())
    world.clock.advance(50 * US_PER_S)
    world.turn(router, steps=5)
    assert not expired(world)
    world.clock.advance(10 * US_PER_S)
    world.turn(router, steps=10)
    assert expired(world) == [run_id]
    [letter] = world.letters()
    assert (letter.run_id, letter.reason, letter.attempts) == (run_id, "expired", 0)
    assert letter.work is not None


def test_many_runs_that_nobody_claims_have_each_its_own_work_in_its_letter() -> None:
    """Given two bursts on one tier, a day apart, with claimed runs between them: a pool without workers, say."""
    world = World(partitions=2)
    runs = []
    for _ in range(2):
        for _ in range(15):
            runs += [world.pending(job, queue_timeout_us=2 * MINUTE)[0] for job in (JOB, OTHER)]
            world.claimed(queue_timeout_us=MINUTE)
        world.clock.advance(86_400 * US_PER_S)
    world.turn(world.router(), steps=60)
    assert sorted(expired(world)) == sorted(runs)
    letters = world.letters()
    assert sorted(letter.run_id for letter in letters) == sorted(runs)
    for letter in letters:
        assert letter.work is not None
        work = decode_any(letter.work.value or b"")
        assert isinstance(work, WorkRecord)
        assert (work.run_id, letter.reason) == (letter.run_id, "expired")


def test_the_times_of_a_trigger_that_waited_for_others_count_from_when_it_went_out() -> None:
    """Waiting for others never expires a run, however much older than its limits it is by then (docs/overlap.md)."""
    world = World()
    asked_at = world.clock.now()
    run_id = make_run_id(JOB, asked_at)
    detail = Pending(1, asked_at, None, Tier.HIGH, Origin.TRIGGER, run_timeout_us=MINUTE)
    world.event(EventKind.HELD, run_id, reason="overlap", detail=detail)
    world.turn(router := world.router())
    world.clock.advance(10 * MINUTE)
    world.turn(router, steps=5)
    assert not expired(world), "who is held has no limits yet"
    world.event(EventKind.PENDING, run_id, detail=detail)
    world.clock.advance(50 * US_PER_S)
    world.turn(router, steps=5)
    assert not expired(world), "its time began when it went out"
    world.clock.advance(10 * US_PER_S)
    world.turn(router, steps=5)
    assert expired(world) == [run_id]


def test_an_expired_run_whose_work_is_gone_has_a_letter_that_says_so() -> None:
    world = World()
    run_id, place = world.pending(queue_timeout_us=MINUTE)
    world.turn(router := world.router())
    world.cluster.partition(TopicPartition(place.topic, 0)).delete_before(place.offset + 1)
    world.clock.advance(2 * MINUTE)
    world.turn(router)
    assert [(letter.run_id, letter.reason, letter.work) for letter in world.letters()] == [
        (run_id, "expired; never-claimed", None)
    ]


def test_control_hears_of_an_expiry_before_run_events_do() -> None:
    world = World()
    run_id, _ = world.pending(queue_timeout_us=MINUTE)
    order: list[str] = []
    world.turn(router := world.router())
    appended = world.cluster.place_of

    def note(message):  # type: ignore[no-untyped-def]
        order.append(message.topic)
        return appended(message)

    world.cluster.place_of = note  # type: ignore[method-assign]
    world.clock.advance(2 * MINUTE)
    world.turn(router, steps=10)
    assert order[:2] == [NAMES.control, NAMES.run_events]
    [control] = world.dump(NAMES.control)
    assert isinstance(control, Control)
    assert (control.kind, control.run_id) == (ControlKind.RUN_EXPIRED, run_id)


def busy(world: World, job_id: str = OTHER, count: int = 3) -> None:
    """So many runs from beginning to end, three events each."""
    for _ in range(count):
        run_id, token = world.claimed(job_id)
        world.ended(EventKind.ATTEMPT_SUCCEEDED, run_id, token)


def test_a_run_expires_also_while_every_poll_of_its_router_is_full() -> None:
    """Given one that reads as much as comes, and is always two polls behind."""
    world = World()
    world.turn(router := world.router(round_records=9))
    run_id, _ = world.pending(queue_timeout_us=5 * US_PER_S)
    busy(world, count=6)
    for second in range(20):
        busy(world)
        router.step()
        assert expired(world) == [] or second >= 5
        world.clock.advance(US_PER_S)
    assert 18 <= world.lag() < 40
    assert expired(world) == [run_id]


def test_a_run_on_a_quiet_partition_expires_while_polls_are_full_of_another() -> None:
    world = World(partitions=2)
    jobs = {
        world.cluster.place_of(Outgoing(NAMES.run_events, job.encode(), None)).partition: job for job in (JOB, "a:b")
    }
    world.turn(router := world.router(round_records=9))
    run_id, _ = world.pending(jobs[0], queue_timeout_us=5 * US_PER_S)
    busy(world, jobs[1], 100)
    for _ in range(20):
        busy(world, jobs[1])
        router.step()
        world.clock.advance(US_PER_S)
    assert expired(world) == [run_id]


def test_a_router_that_is_behind_ends_nobody_whose_claim_it_has_not_read() -> None:
    """Given 30 polls between it and a claim that came in time; a question is asked at each of the first of them."""
    world = World()
    world.turn(router := world.router(round_records=9))
    run_id, claim = world.pending(queue_timeout_us=5 * US_PER_S)
    over, _ = world.pending(queue_timeout_us=8 * US_PER_S)
    busy(world, count=90)
    world.started(run_id, claim)
    busy(world, count=3)
    for _ in range(50):
        busy(world, count=3 if world.lag() < 20 else 0)
        router.step()
        world.clock.advance(US_PER_S)
    assert expired(world) == [over]


def test_a_clock_that_was_ahead_and_is_put_back_expires_nobody_too_soon() -> None:
    world = World()
    world.turn(router := world.router(round_records=9))
    busy(world, count=6)
    world.clock.jump(60 * MINUTE)
    for _ in range(5):
        busy(world)
        router.step()
        world.clock.advance(US_PER_S)
    world.turn(router)
    world.clock.jump(-60 * MINUTE)
    run_id, _ = world.pending(queue_timeout_us=10 * MINUTE)
    busy(world, count=6)
    for _ in range(5):
        busy(world)
        router.step()
        world.clock.advance(US_PER_S)
    assert run_id in router._shards[0].fold.open
    assert expired(world) == []


def test_ends_of_partitions_are_asked_for_one_in_a_step_and_each_once_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(partitions=4)
    world.turn(router := world.router())
    asked: list[int] = []
    monkeypatch.setattr(router._log, "high_watermark", lambda place: asked.append(place.partition) or 0)
    for step in range(40):
        before = len(asked)
        known_until.look(router._log, world.clock, router._shards.values())
        assert len(asked) <= before + 1, step
        world.clock.advance(100_000)
    assert Counter(asked) == dict.fromkeys(range(4), 4)


def test_a_claimed_run_has_no_queue_timeout_any_more() -> None:
    world = World()
    world.claimed(queue_timeout_us=MINUTE)
    world.turn(router := world.router())
    world.clock.advance(10 * MINUTE)
    world.turn(router)
    assert not expired(world)
    assert not world.dump(NAMES.commands)


def test_a_running_run_over_its_whole_time_is_asked_to_stop_once() -> None:
    world = World()
    run_id, _ = world.claimed(run_timeout_us=MINUTE)
    world.turn(router := world.router())
    world.clock.advance(2 * MINUTE)
    world.turn(router)
    world.turn(router)
    assert not expired(world)
    [command] = world.dump(NAMES.commands)
    assert isinstance(command, Command)
    assert (command.kind, command.run_id, command.note) == (CommandKind.CANCEL, run_id, "expired")


@pytest.mark.parametrize("asks_s", [30, 90])
def test_a_running_run_that_was_asked_to_end_is_not_asked_again(asks_s: int) -> None:
    """Whether a person was quicker than its time, or the dispatcher has said what the router wanted."""
    world = World()
    run_id, _ = world.claimed(run_timeout_us=MINUTE)
    world.turn(router := world.router())
    world.clock.advance(asks_s * US_PER_S)
    world.turn(router, steps=10)
    before = len(world.dump(NAMES.commands))
    world.event(EventKind.CANCEL_REQUESTED, run_id)
    world.turn(router, steps=10)
    world.clock.advance(MINUTE)
    world.turn(router, steps=10)
    assert before == (asks_s > 60)
    assert len(world.dump(NAMES.commands)) == before


def test_a_run_with_jitter_is_as_old_as_its_due_time_says() -> None:
    """Given a jitter that is longer than the limit."""
    world = World()
    now = world.clock.now()
    run_id, _ = world.pending(fire_at=now - 30 * MINUTE, due_at=now, run_timeout_us=10 * MINUTE)
    world.turn(router := world.router())
    world.clock.advance(9 * MINUTE)
    world.turn(router)
    assert not expired(world)
    world.clock.advance(MINUTE)
    world.turn(router)
    assert expired(world) == [run_id]


@pytest.mark.parametrize(
    ("origin", "due_at", "counts_from"),
    [
        (Origin.SCHEDULE, 9 * MINUTE, 9 * MINUTE),  # in time: PENDING says when it was due
        (Origin.SCHEDULE, 5 * MINUTE, 9 * MINUTE),  # caught up, at the job's place in the gap
        (Origin.SCHEDULE, None, 9 * MINUTE),  # caught up beside that one, or out of turn
        (Origin.TRIGGER, None, MINUTE),
        (Origin.REDRIVE, None, 9 * MINUTE),
        (Origin.RELEASE, None, 9 * MINUTE),
        (Origin.BACKFILL, None, 9 * MINUTE),
    ],
    ids=str,
)
def test_the_age_of_a_run_counts_from_when_it_was_due_or_asked_for(
    origin: Origin, due_at: int | None, counts_from: int
) -> None:
    detail = Pending(1, MINUTE, due_at, Tier.HIGH, origin, run_timeout_us=DAY)
    note = follow(None, RunEvent(EventKind.PENDING, JOB, make_run_id(JOB, MINUTE), 9 * MINUTE, detail=detail))
    assert isinstance(note, Trail)
    assert note.due_at == counts_from


def test_a_retry_waits_from_its_own_due_time() -> None:
    world = World()
    world.policy = policy_to_json(FailurePolicy(delays_us=(100 * US_PER_S,), jitter=False, queue_timeout_us=MINUTE))
    run_id, token = world.claimed(queue_timeout_us=MINUTE)
    world.ended(EventKind.ATTEMPT_FAILED, run_id, token)
    world.turn(router := world.router())
    [retrying] = world.events(EventKind.RETRYING)
    assert isinstance(retrying.detail, Retrying)
    world.clock.advance(150 * US_PER_S)
    world.turn(router, steps=5)
    assert not expired(world)
    world.clock.advance(10 * US_PER_S)
    world.turn(router)
    assert expired(world) == [run_id]
    assert [letter.attempts for letter in world.letters()] == [1]


def test_a_retrying_run_expires_with_the_age_of_the_whole_run() -> None:
    world = World()
    world.policy = policy_to_json(FailurePolicy(delays_us=(30 * US_PER_S,), jitter=False, run_timeout_us=MINUTE))
    run_id, token = world.claimed(run_timeout_us=MINUTE)
    world.ended(EventKind.ATTEMPT_FAILED, run_id, token)
    world.turn(router := world.router())
    world.clock.advance(MINUTE)
    world.turn(router)
    assert expired(world) == [run_id]


def test_limits_are_known_to_a_successor() -> None:
    world = World()
    run_id, _ = world.pending(queue_timeout_us=MINUTE)
    world.turn(world.router())
    world.cluster.kill("retry-router-1")
    world.clock.advance(2 * MINUTE)
    world.turn(world.router())
    assert expired(world) == [run_id]


def test_an_expiry_that_comes_behind_a_claim_is_said_once_and_decides_nothing() -> None:
    world = World()
    run_id, claim = world.pending(queue_timeout_us=MINUTE)
    world.turn(router := world.router())
    token = world.started(run_id, claim)
    world.event(EXPIRED, run_id, reason="expired")  # as of a router that had not read the claim
    world.clock.advance(2 * MINUTE)
    world.turn(router)
    world.cluster.kill("retry-router-1")
    world.turn(again := world.router())
    state = again._shards[0].fold.state(run_id)
    assert state is not None
    assert state.attempt_open
    world.event(EventKind.ATTEMPT_SUCCEEDED, run_id, 1, worker="w-1", incarnation=3, token=token, detail=Ended(0))
    world.turn(again)
    assert not world.letters()
    assert expired(world) == [run_id]


def test_jobs_without_limits_leave_no_note() -> None:
    world = World()
    world.pending()
    world.turn(router := world.router())
    shard = router._shards[0]
    assert [run.note for run in shard.fold.open.values()] == [None]


def test_deadlines_of_runs_that_have_ended_take_no_room() -> None:
    """Given limits of a year, and runs that end at once."""
    deadlines = Deadlines()
    living = {f"living-{number}": limited(number) for number in range(100)}
    for run_id, run in living.items():
        deadlines.note(run_id, run)
    for number in range(20_000):
        run = limited(number)
        deadlines.note(f"run-{number}", run)
        deadlines.note(f"run-{number}", run)  # it was claimed
        deadlines.forget(f"run-{number}")
    assert len(deadlines._heap) < 2 * len(living) + 2_000
    assert [each.run_id for each in deadlines.over(366 * DAY, living, 1_000)] == list(living)


def test_a_run_that_is_noted_again_and_again_has_one_deadline() -> None:
    deadlines, run = Deadlines(), limited()
    for _ in range(3_000):
        deadlines.note("run", run)
    assert len(deadlines._heap) == 1


def test_deadlines_of_runs_that_have_ended_hold_no_round_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Given more of them before the first that is over than are looked at in one round."""
    monkeypatch.setattr(expiry, "_LOOKED_AT_MAX", 100)
    deadlines, runs = Deadlines(), {"over": limited(500, MINUTE)}
    deadlines.note("over", runs["over"])
    for number in range(250):
        deadlines.note(f"run-{number}", limited(number, MINUTE))
        deadlines.forget(f"run-{number}")
    found = [[each.run_id for each in deadlines.over(2 * MINUTE, runs, 10)] for _ in range(4)]
    assert found == [[], [], ["over"], []]


def test_a_deadline_that_came_nearer_is_kept() -> None:
    deadlines, run = Deadlines(), limited(0, 60 * MINUTE)
    deadlines.note("run", run)
    run.note = limited(0, MINUTE).note
    deadlines.note("run", run)
    assert [each.run_id for each in deadlines.over(2 * MINUTE, {"run": run}, 10)] == ["run"]
    assert not list(deadlines.over(61 * MINUTE, {"run": run}, 10)), "its state has not changed"
