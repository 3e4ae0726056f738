"""Work records that ask to be verified: their claim counts only where the log says so, from what their maker knew."""

from __future__ import annotations

import pytest
from waterclock.workers.executors.port import Attempt
from waterclock.workers.read_back import ReadBack

from tests.skewed_clock import SkewedClock
from tests.unit.worker_world import PARTITIONS, START, HandExecutors, World
from waterclock.log.memory import MemoryLog
from waterclock.log.memory_consumer import MemoryReader
from waterclock.model.errors import BackendDown
from waterclock.model.events import (
    Ended,
    EventKind,
    Origin,
    Outcome,
    Pending,
    Retrying,
    RunEvent,
    RunStatus,
    WorkRecord,
)
from waterclock.model.ids import US_PER_S, make_run_id, partition_of
from waterclock.model.job import Tier
from waterclock.model.known_state import state_to_text
from waterclock.model.reduce import RunState
from waterclock.wire.messages import event_message, work_message

JOB = "acme:pay"
RUN = make_run_id(JOB, START)


def say(world: World, kind: EventKind, attempt: int = 0, detail: object = None, token: int = 0) -> int:
    event = RunEvent(kind, JOB, RUN, world.clock.now(), attempt, "worker-9" if token else "", 0, token, "", detail)  # type: ignore[arg-type]
    return world.put(event_message(world.names, event))


def until_retrying(world: World) -> tuple[int, RunState]:
    """A first attempt elsewhere that failed: the offset of its outcome, and the state after it."""
    say(world, EventKind.PENDING, detail=Pending(1, START, START, Tier.HIGH, Origin.SCHEDULE))
    started = RunEvent(EventKind.STARTED, JOB, RUN, START, 1, "worker-9", 0)
    token = world.put(event_message(world.names, started))
    offset = say(world, EventKind.ATTEMPT_FAILED, 1, Ended(START), token)
    state = RunState(RunStatus.RUNNING, 1, Outcome.FAILED, "worker-9", 0, token)
    return offset, state


def hand_out(world: World, attempt: int, verify_from: int, verify_state: str = "") -> None:
    work = WorkRecord(RUN, START, START, attempt, JOB, 1, Tier.HIGH, "default", "pay", b"")
    world.put(work_message(world.names, work._replace(verify_from=verify_from, verify_state=verify_state)))


def _partition(job_id: str) -> int:
    return partition_of(job_id, PARTITIONS)


def _submitted(executors: HandExecutors) -> list[tuple[str, int]]:
    return [(attempt.work.run_id, attempt.work.attempt) for attempt in executors.submitted]


@pytest.mark.parametrize("known", [True, False])
def test_a_verified_attempt_runs_once_its_claim_is_accepted(known: bool) -> None:
    world = World()
    offset, state = until_retrying(world)
    say(world, EventKind.RETRYING, 2, Retrying(START, 0))
    worker, executors = world.worker()
    hand_out(world, 2, offset if known else 0, state_to_text(state) if known else "")
    world.settle(worker, 10)
    assert _submitted(executors) == [(RUN, 2)]
    executors.end_all()
    world.settle(worker)
    assert world.succeeded() == [RUN]


def test_a_verified_attempt_of_a_run_that_is_over_never_runs_and_frees_its_slot() -> None:
    world = World()
    offset, state = until_retrying(world)
    say(world, EventKind.RUN_FAILED, 1)
    worker, executors = world.worker(slots=1)
    hand_out(world, 2, offset, state_to_text(state))
    world.settle(worker, 10)
    assert len(world.events(EventKind.STARTED)) == 2, "it was claimed, or this proves nothing"
    assert executors.submitted == []
    more = world.fire(1)
    world.settle(worker, 10)
    assert [run_id for run_id, _ in _submitted(executors)] == more


def test_a_repaired_record_runs_where_the_first_was_lost_and_not_beside_it() -> None:
    """Given a run that is handed out twice, when both are claimed, then the second one is dropped."""
    world = World()
    say(world, EventKind.PENDING, detail=Pending(1, START, START, Tier.HIGH, Origin.SCHEDULE))
    worker, executors = world.worker()
    hand_out(world, 1, -1)
    hand_out(world, 1, 0)
    world.settle(worker, 10)
    assert len(world.events(EventKind.STARTED)) == 2
    assert _submitted(executors) == [(RUN, 1)]


def test_what_the_maker_knew_stands_for_what_is_not_read_again() -> None:
    """Given a state from before the events that are read, when they are folded, then it is taken as it was told."""
    world = World()
    worker, executors = world.worker()
    world.fire(20)
    world.settle(worker, 10)
    executors.end_all()
    told = RunState(RunStatus.RETRYING, 6, Outcome.LOST, "worker-3", 2, 1)
    hand_out(world, 7, 0, state_to_text(told))
    world.settle(worker, 10)
    assert (RUN, 7) in _submitted(executors)


def test_a_state_that_nobody_can_read_runs_nothing() -> None:
    world = World()
    offset, _ = until_retrying(world)
    say(world, EventKind.RETRYING, 2, Retrying(START, 0))
    worker, executors = world.worker()
    hand_out(world, 2, offset, "nonsense")
    world.settle(worker, 10)
    assert executors.submitted == []


def test_questions_of_other_partitions_are_answered_while_one_waits() -> None:
    world = World()
    worker, executors = world.worker()
    world.settle(worker)
    somebody = world.outside.producer("somebody")
    somebody.init(1.0)
    somebody.begin()
    stuck = "acme:job-1"
    free = next(job for job in map("acme:other-{}".format, range(99)) if _partition(job) != _partition(stuck))
    appended = RunEvent(EventKind.REVISED, stuck, "", START)
    somebody.append(event_message(world.names, appended))
    run_ids = []
    for job in (stuck, free):
        run_id = make_run_id(job, START)
        pending = Pending(1, START, START, Tier.HIGH, Origin.SCHEDULE)
        world.put(event_message(world.names, RunEvent(EventKind.PENDING, job, run_id, START, detail=pending)))
        work = WorkRecord(run_id, START, START, 1, job, 1, Tier.HIGH, "default", "pay", b"", "", True)
        world.put(work_message(world.names, work))
        world.settle(worker, 5)
        run_ids.append(run_id)
    assert [attempt.work.run_id for attempt in executors.submitted] == run_ids[1:]
    somebody.abort(1.0)
    world.settle(worker, 5)
    assert [attempt.work.run_id for attempt in executors.submitted] == [run_ids[1], run_ids[0]]


def test_a_reading_that_could_not_begin_is_none_of_the_two_that_a_claim_gets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Given a log that is away at first, when the first reading misses the claim, then it is read for once more."""
    world = World()
    offset, _ = until_retrying(world)
    work = WorkRecord(RUN, START, START, 1, JOB, 1, Tier.HIGH, "default", "pay", b"")
    attempt = Attempt(work, START, token=offset - 1, placed_at=START)
    read_back = ReadBack(MemoryLog(world.cluster, "worker"), world.names.run_events, 0)
    read_back.ask([attempt], to_end=True)

    def away(_: str, operation: str) -> None:
        if operation == "assign":
            raise BackendDown("kafka", "no answer")

    world.cluster.faults.on_call = away
    for _ in range(3):
        with pytest.raises(BackendDown):
            read_back.look()
    world.cluster.faults.on_call = None
    poll = MemoryReader.poll
    monkeypatch.setattr(MemoryReader, "poll", lambda *given: (poll(*given), ())[1])
    assert read_back.look() == []
    monkeypatch.undo()
    (answer,) = read_back.look()
    assert answer.accepted


def test_a_run_of_which_the_stamps_lie_further_back_than_its_due_time_is_called() -> None:
    """A trigger is due when the brokers took it, and begins by the stamp of a dispatcher, here a minute behind them."""
    world = World()
    world.cluster.clock = SkewedClock(world.clock, -60 * US_PER_S)
    say(world, EventKind.PENDING, detail=Pending(1, START, START, Tier.HIGH, Origin.TRIGGER))
    world.cluster.clock = world.clock
    token = world.put(event_message(world.names, RunEvent(EventKind.STARTED, JOB, RUN, START, 1, "worker-9", 0)))
    say(world, EventKind.ATTEMPT_FAILED, 1, Ended(START, "drained"), token)
    world.clock.advance(5 * US_PER_S)
    say(world, EventKind.RETRYING, 2, Retrying(world.clock.now(), 0))
    work = WorkRecord(RUN, START, START, 2, JOB, 1, Tier.HIGH, "default", "pay", b"", at_most_once=True)
    world.put(work_message(world.names, work))
    worker, executors = world.worker()
    world.turn(worker, count=100, us=100_000)
    assert _submitted(executors) == [(RUN, 2)]
