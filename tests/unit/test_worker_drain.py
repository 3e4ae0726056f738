"""Time-outs, and shutting down: who is asked, who is forced, what is handed back, and what stays open."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import pytest
from waterclock.workers.executors.port import EndedAttempt
from waterclock.workers.loop import Worker
from worker_world import START, HandExecutors, World

from waterclock.log.memory import CommitFate
from waterclock.model.events import Ended, EventKind, Origin, Outcome, Pending, RunEvent, RunStatus, WorkRecord
from waterclock.model.failure_policy import FailurePolicy, policy_to_json
from waterclock.model.fold import Fold
from waterclock.model.ids import US_PER_S, make_run_id
from waterclock.model.job import Tier
from waterclock.model.reduce import RunState
from waterclock.wire.codec import decode_event
from waterclock.wire.messages import event_message, work_message

GRACE_S = 10.0


def claimed(world: World, count: int = 1, slots: int = 8) -> tuple[Worker, HandExecutors, list[str]]:
    worker, executors = world.worker(slots=slots)
    run_ids = world.fire(count)
    world.settle(worker)
    assert len(executors.running) == count
    return worker, executors, run_ids


def fire_with(world: World, policy: FailurePolicy, number: int = 1, **asked: Any) -> str:
    job_id, fire_at = "acme:timed", START + number
    run_id = make_run_id(job_id, fire_at)
    pending = Pending(1, fire_at, fire_at, Tier.MEDIUM, Origin.SCHEDULE)
    world.put(event_message(world.names, RunEvent(EventKind.PENDING, job_id, run_id, START, detail=pending)))
    work = WorkRecord(run_id, fire_at, fire_at, 1, job_id, 1, Tier.MEDIUM, "default", "slow", b"")
    world.put(work_message(world.names, work._replace(policy=policy_to_json(policy), **asked)))
    return run_id


def state_of(world: World, run_id: str) -> RunState:
    folds: dict[int, Fold[None]] = {}
    for record in world.dump(world.names.run_events):
        folds.setdefault(record.partition, Fold()).apply(decode_event(record.value or b""), record.offset)
    (found,) = [state for fold in folds.values() if (state := fold.state(run_id)) is not None]
    return found


def drain(world: World, worker: Worker, seconds: float = 60.0, us: int = 20_000) -> float:
    """Drain until it is over; answers how long that took."""
    began_s = world.clock.monotonic_s()
    while worker.drain():
        world.clock.advance(us)
        assert world.clock.monotonic_s() - began_s < seconds
    return world.clock.monotonic_s() - began_s


def error_class(event: RunEvent) -> str:
    assert isinstance(event.detail, Ended)
    return event.detail.error_class


# -- time-outs ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("asked", [{}, {"at_most_once": True}, {"verify_from": 0}], ids=["", "once", "verified"])
def test_an_attempt_whose_time_is_over_is_asked_then_forced_and_has_timed_out(asked: dict[str, Any]) -> None:
    """Whether it began with its claim, or once that was read back (docs/retries.md, `timeouts`)."""
    world = World()
    worker, executors = world.worker()
    run_id = fire_with(world, FailurePolicy(attempt_timeout_us=5 * US_PER_S), **asked)
    world.settle(worker)
    attempt = executors.running[0]
    world.turn(worker, count=220)  # 4.4 s
    assert executors.asked == []
    world.turn(worker, count=50)
    assert (executors.asked, executors.forced) == ([attempt], [])
    world.turn(worker, count=500)
    assert executors.forced == [attempt]
    executors.end(attempt, Outcome.FAILED)
    world.settle(worker)
    (ended,) = world.events(EventKind.ATTEMPT_TIMED_OUT)
    assert (ended.run_id, error_class(ended)) == (run_id, "timed-out")


def test_a_thread_that_cannot_be_stopped_is_timed_out_and_keeps_its_slot() -> None:
    world = World()
    worker, executors = world.worker(slots=2)
    run_ids = [fire_with(world, FailurePolicy(attempt_timeout_us=US_PER_S), number) for number in range(3)]
    world.settle(worker)
    first, second = executors.running
    executors.end(second)
    world.turn(worker, count=650)  # 13 s
    assert [event.run_id for event in world.events(EventKind.ATTEMPT_TIMED_OUT)] == [first.work.run_id, run_ids[2]]
    more = world.fire(4)
    world.settle(worker)
    assert len(executors.submitted) == 3, "both slots are taken by code that runs on"
    executors.end(first)
    world.settle(worker)
    assert executors.submitted[-1].work.run_id in more
    assert len(executors.submitted) == 4


def test_attempts_in_time_are_left_alone() -> None:
    world = World()
    worker, executors = world.worker()
    run_id = fire_with(world, FailurePolicy(attempt_timeout_us=5 * US_PER_S))
    world.settle(worker)
    world.turn(worker, count=100)
    executors.end_all()
    world.turn(worker, count=500)
    assert executors.asked == []
    assert world.succeeded() == [run_id]


# -- drain ----------------------------------------------------------------------------------------------------------


def test_a_drained_attempt_is_handed_back_and_costs_none() -> None:
    """Given an attempt that outlasts its time, when it stops by force, then it failed as drained."""
    world = World()
    worker, executors, (run_id,) = claimed(world)
    attempt = executors.running[0]
    while worker.drain() and not executors.forced:
        world.clock.advance(20_000)
    assert executors.asked == executors.forced == [attempt]
    executors.end(attempt, Outcome.FAILED)
    drain(world, worker)
    (ended,) = world.events(EventKind.ATTEMPT_FAILED)
    assert (ended.run_id, error_class(ended)) == (run_id, "drained")
    assert not state_of(world, run_id).attempt_open


def test_what_was_claimed_and_has_not_begun_is_handed_back_at_once() -> None:
    world = World()
    worker, executors, _ = claimed(world, 3)
    executors.unbegun = executors.running[1:]
    waiting = sorted(attempt.work.run_id for attempt in executors.unbegun)
    worker.drain()
    assert sorted(event.run_id for event in world.events(EventKind.ATTEMPT_FAILED)) == waiting
    assert {error_class(event) for event in world.events(EventKind.ATTEMPT_FAILED)} == {"drained"}


def test_what_is_still_read_back_is_handed_back_too() -> None:
    world = World()
    worker, executors = world.worker()
    world.settle(worker)
    somebody = world.outside.producer("somebody")
    somebody.init(1.0)
    somebody.begin()
    for number in range(2):
        event = RunEvent(EventKind.REVISED, "acme:other", "", START)
        somebody.append(event_message(world.names, event)._replace(partition=number))
    run_id = make_run_id("acme:once", START)
    pending = Pending(1, START, START, Tier.HIGH, Origin.SCHEDULE)
    world.put(event_message(world.names, RunEvent(EventKind.PENDING, "acme:once", run_id, START, detail=pending)))
    work = WorkRecord(run_id, START, START, 1, "acme:once", 1, Tier.HIGH, "default", "pay", b"", "", True)
    world.put(work_message(world.names, work))
    world.settle(worker)
    drain(world, worker)
    somebody.abort(1.0)
    assert executors.submitted == []
    (ended,) = world.events(EventKind.ATTEMPT_FAILED)
    assert (ended.run_id, error_class(ended)) == (run_id, "drained")


def test_what_ends_in_time_is_recorded_as_it_ended() -> None:
    world = World()
    worker, executors, run_ids = claimed(world, 2)
    worker.drain()
    executors.end(executors.running[0])
    executors.end(executors.running[0], Outcome.FAILED)
    assert drain(world, worker) < 0.5
    assert len(world.succeeded()) == 1
    assert {error_class(event) for event in world.events(EventKind.ATTEMPT_FAILED)} == {""}
    assert len(run_ids) == 2


def test_code_that_does_not_stop_is_never_handed_back() -> None:
    """Another attempt would run beside it: it stays open, for the lease or the next HELLO to call it lost."""
    world = World()
    worker, executors, (run_id,) = claimed(world)
    assert drain(world, worker) == pytest.approx(GRACE_S, abs=0.2)
    worker.close()
    assert executors.forgotten_count == 1
    assert world.events(EventKind.ATTEMPT_FAILED) == []
    assert state_of(world, run_id).attempt_open


@pytest.mark.parametrize("has_begun", [True, False])
def test_a_call_that_is_made_at_most_once_is_not_handed_back_once_it_has_begun(has_begun: bool) -> None:
    world = World()
    worker, executors = world.worker()
    run_id = make_run_id("acme:once", START)
    pending = Pending(1, START, START, Tier.HIGH, Origin.SCHEDULE)
    world.put(event_message(world.names, RunEvent(EventKind.PENDING, "acme:once", run_id, START, detail=pending)))
    work = WorkRecord(run_id, START, START, 1, "acme:once", 1, Tier.HIGH, "default", "pay", b"", "", True)
    world.put(work_message(world.names, work))
    world.settle(worker, 8)
    assert len(executors.running) == 1
    while worker.drain() and not executors.forced:
        world.clock.advance(20_000)
    (attempt,) = executors.running
    executors.ended.append(EndedAttempt(attempt, Outcome.FAILED, has_begun=has_begun))
    drain(world, worker)
    (ended,) = world.events(EventKind.ATTEMPT_FAILED)
    assert error_class(ended) == ("outcome-unknown" if has_begun else "drained")


def test_a_draining_worker_leaves_its_groups_before_its_work_is_done() -> None:
    """Given a long run, when its worker drains, then what is due meanwhile goes to the others at once."""
    world = World()
    first, executors = world.worker("worker-1")
    world.fire(1)
    world.settle(first)
    second, others = world.worker("worker-2")
    world.turn(first, second, count=8)
    assert len(executors.running) == 1
    first.drain()
    run_ids = world.fire(6)
    for _ in range(20):
        first.drain()
        world.turn(second)
    assert sorted(attempt.work.run_id for attempt in others.submitted) == sorted(run_ids)
    executors.end_all()
    drain(world, first)
    assert len(world.succeeded()) == 1


def test_nothing_of_a_drained_worker_is_open_when_it_comes_back() -> None:
    world = World()
    worker, executors, run_ids = claimed(world, 4)
    executors.unbegun = executors.running[:1]
    executors.end(executors.running[1])
    while worker.drain() and not executors.forced:
        world.clock.advance(20_000)
    for attempt in list(executors.running):
        executors.end(attempt, Outcome.FAILED)
    drain(world, worker)
    worker.close()
    again, _ = world.worker(client="again")
    world.settle(again)
    assert [run_id for run_id in run_ids if state_of(world, run_id).attempt_open] == []


def test_a_cancel_while_draining_is_still_heeded() -> None:
    world = World()
    worker, executors, (run_id,) = claimed(world)
    worker.drain()
    world.cancel(run_id)
    for _ in range(60):
        worker.drain()
        world.clock.advance(20_000)
    assert len(executors.asked) == 1
    executors.end(executors.running[0], Outcome.FAILED)
    drain(world, worker)
    assert state_of(world, run_id).status is RunStatus.CANCELLED


# -- what an outcome says -------------------------------------------------------------------------------------------


def test_how_long_its_target_wants_to_be_left_alone_stands_in_the_outcome() -> None:
    world = World()
    worker, executors, _ = claimed(world)
    (attempt,) = executors.running
    executors.running.clear()
    executors.ended.append(EndedAttempt(attempt, Outcome.FAILED, "throttled", retry_after_us=30 * US_PER_S))
    world.settle(worker)
    (ended,) = world.events(EventKind.ATTEMPT_FAILED)
    assert isinstance(ended.detail, Ended)
    assert ended.detail.retry_after_us == 30 * US_PER_S


def test_what_a_doubtful_round_claimed_is_handed_back_when_the_doubt_is_settled() -> None:
    world = World()
    worker, executors = world.worker()
    world.settle(worker)
    world.cluster.faults.next_commit("t.worker.worker-1", CommitFate.UNANSWERED)
    (run_id,) = world.fire(1)
    worker.step()
    assert executors.submitted == []
    drain(world, worker)
    assert executors.submitted == []
    (ended,) = world.events(EventKind.ATTEMPT_FAILED)
    assert (ended.run_id, error_class(ended)) == (run_id, "drained")
