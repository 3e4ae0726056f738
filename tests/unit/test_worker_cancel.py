"""Cancels, expiries and the control barrier: what control says decides nothing by itself, and nothing slips past it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NoReturn

sys.path.insert(0, str(Path(__file__).parent))

import pytest
from waterclock.workers import barrier, control
from waterclock.workers.executors.emitting import Emissions, Outlet
from waterclock.workers.executors.port import Attempt, EndedAttempt
from waterclock.workers.loop import Worker
from worker_world import PARTITIONS, START, HandExecutors, World

from waterclock.log.memory import CommitFate
from waterclock.log.memory_consumer import MemoryReader
from waterclock.log.memory_producer import MemoryProducer
from waterclock.log.port import TopicPartition
from waterclock.model.errors import LostResource
from waterclock.model.events import Control, ControlKind, Ended, EventKind, Outcome, RunEvent
from waterclock.model.fold import Fold
from waterclock.model.ids import job_of_run, make_run_id
from waterclock.model.job import Tier
from waterclock.wire.codec import decode_event, decode_work
from waterclock.wire.messages import control_message, event_message

MAIL = "shop.mail"


@pytest.fixture
def world() -> World:
    world = World()
    world.cluster.create_topic(MAIL, PARTITIONS)
    return world


def emitting(world: World, attempt: Attempt) -> EndedAttempt:
    emissions = Emissions(Outlet("t", lambda _: True), attempt.work)
    emissions.emit(MAIL, "k", "x")
    return EndedAttempt(attempt, Outcome.SUCCEEDED, emitted=emissions.close())


def end_emitting(world: World, executors: HandExecutors) -> None:
    for attempt in list(executors.running):
        executors.running.remove(attempt)
        executors.ended.append(emitting(world, attempt))


def claimed(world: World, count: int = 1) -> tuple[Worker, HandExecutors, list[str]]:
    worker, executors = world.worker()
    run_ids = world.fire(count)
    world.settle(worker)
    assert len(executors.running) == count
    return worker, executors, run_ids


def statuses(world: World) -> dict[str, str]:
    """How each run stands, by the reducer over the log."""
    found: dict[str, str] = {}
    folds: dict[int, Fold[None]] = {}
    for record in world.dump(world.names.run_events):
        event = decode_event(record.value or b"")
        verdict = folds.setdefault(record.partition, Fold()).apply(event, record.offset)
        if verdict.state is not None:
            found[event.run_id] = verdict.state.status.name
    return found


def open_on_control(world: World, name: str = "somebody") -> MemoryProducer:
    """A transaction of somebody else, open on every partition of control."""
    producer = world.outside.producer(name)
    producer.init(1.0)
    producer.begin()
    for number in range(PARTITIONS):
        told = Control(ControlKind.CANCEL_REQUESTED, "acme:other", "acme:other@20261121T090000Z", 0)
        producer.append(control_message(world.names, told)._replace(partition=number))
    return producer


# -- cancelled before the claim -------------------------------------------------------------------------------------


def test_a_run_that_was_cancelled_before_its_claim_never_runs(world: World) -> None:
    worker, executors = world.worker()
    run_ids = world.fire(3)
    world.cancel(run_ids[0])
    world.settle(worker, 10)
    assert sorted(attempt.work.run_id for attempt in executors.submitted) == sorted(run_ids[1:])
    assert world.events(EventKind.ATTEMPT_CANCELLED) == [], "it was over before: nothing is said of it"
    executors.end_all()
    world.settle(worker)
    assert statuses(world)[run_ids[0]] == "CANCELLED"
    world.clock.advance(2_500_000)
    world.turn(worker, count=3)
    assert world.beats()[-1].held_count == 0


def test_a_record_of_a_run_cancelled_before_its_claim_never_leaves(world: World) -> None:
    """Given a cancel whose control record cannot be seen yet, when the handler has ended, then its record stays."""
    worker, executors = world.worker()
    world.settle(worker)
    producer = world.outside.producer("dispatcher")
    producer.init(1.0)
    producer.begin()
    (run_id,) = world.fire(1)
    job_id = job_of_run(run_id)
    told = Control(ControlKind.CANCEL_REQUESTED, job_id, run_id, 0)
    producer.append(control_message(world.names, told))
    producer.append(event_message(world.names, RunEvent(EventKind.CANCEL_REQUESTED, job_id, run_id, START)))
    world.settle(worker, 3)
    assert len(executors.running) == 1, "it crossed the cancel, or this proves nothing"
    end_emitting(world, executors)
    world.settle(worker, 5)
    assert world.dump(MAIL) == []
    producer.commit(1.0)
    world.turn(worker, count=100)
    assert world.dump(MAIL) == []
    assert statuses(world) == {run_id: "CANCELLED"}
    assert world.succeeded() == [], "it is dropped without a record"


def test_a_record_waits_until_the_log_has_said_whether_its_claim_counts(world: World) -> None:
    """Given a cancel that control tells and run-events cannot show yet, when the handler has ended, then we wait."""
    worker, executors = world.worker()
    world.settle(worker)
    somebody = world.outside.producer("somebody")
    somebody.init(1.0)
    somebody.begin()
    for number in range(PARTITIONS):
        event = RunEvent(EventKind.REVISED, "acme:other", "", START)
        somebody.append(event_message(world.names, event)._replace(partition=number))
    producer = open_on_control(world, "dispatcher")
    (run_id,) = world.fire(1)
    job_id = job_of_run(run_id)
    producer.append(control_message(world.names, Control(ControlKind.CANCEL_REQUESTED, job_id, run_id, 0)))
    producer.append(event_message(world.names, RunEvent(EventKind.CANCEL_REQUESTED, job_id, run_id, START)))
    world.settle(worker, 3)
    end_emitting(world, executors)
    producer.commit(1.0)
    world.turn(worker, count=20)
    assert world.dump(MAIL) == []
    somebody.abort(1.0)
    world.turn(worker, count=20)
    assert (world.dump(MAIL), world.succeeded()) == ([], [])
    assert statuses(world) == {run_id: "CANCELLED"}


def test_the_barrier_stands_at_the_high_watermark_and_not_at_the_last_stable_offset(world: World) -> None:
    worker, executors, run_ids = claimed(world, 2)
    producer = open_on_control(world)
    world.settle(worker, 2)
    more = world.fire(1)
    world.settle(worker, 3)
    end_emitting(world, executors)
    world.turn(worker, count=20)
    assert world.dump(MAIL) == []
    producer.abort(1.0)
    world.turn(worker, count=5)
    assert world.succeeded() == sorted(run_ids + more)
    assert len(world.dump(MAIL)) == 3


def test_who_emits_nothing_waits_for_no_barrier(world: World) -> None:
    worker, executors, run_ids = claimed(world, 3)
    open_on_control(world)
    executors.end_all()
    world.turn(worker, count=3)
    assert world.succeeded() == sorted(run_ids)


def test_who_emits_nothing_asks_for_no_end_of_control(world: World) -> None:
    worker, executors, _ = claimed(world, 3)
    asked = []

    def count_asked(client: str, operation: str) -> None:
        if operation == "high_watermark" and client != "outside":
            asked.append(client)

    executors.end_all()
    world.cluster.faults.on_call = count_asked
    world.turn(worker, count=3)
    world.cluster.faults.on_call = None
    assert asked == []


def test_one_mark_serves_all_that_were_claimed_before_it(world: World) -> None:
    worker, executors, run_ids = claimed(world, 6)
    asked = []

    def count_asked(client: str, operation: str) -> None:
        if operation == "high_watermark" and client != "outside":
            asked.append(client)

    world.cluster.faults.on_call = count_asked
    end_emitting(world, executors)
    world.turn(worker, count=3)
    world.cluster.faults.on_call = None
    assert world.succeeded() == sorted(run_ids)
    assert len(asked) <= PARTITIONS


def test_what_was_forgotten_of_control_is_read_back(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Given more cancels than are remembered, when a run of a forgotten one is claimed, then it does not run."""
    monkeypatch.setattr(control, "KNOWN_MAX", 2)
    worker, executors = world.worker()
    run_ids = world.fire(6)
    for run_id in run_ids[:5]:
        world.cancel(run_id)
    world.settle(worker, 12)
    assert [attempt.work.run_id for attempt in executors.submitted] == [run_ids[5]]


# -- cancelled while it runs ----------------------------------------------------------------------------------------


def test_a_cancel_is_asked_first_and_forced_after_the_grace(world: World) -> None:
    worker, executors, (run_id,) = claimed(world)
    attempt = executors.running[0]
    world.cancel(run_id)
    world.turn(worker, count=100)  # 2 s
    assert executors.asked == [attempt]
    assert executors.forced == []
    world.turn(worker, count=450)  # 9 s
    assert executors.forced == [attempt]
    executors.end(attempt, Outcome.FAILED)
    world.settle(worker)
    (ended,) = world.events(EventKind.ATTEMPT_CANCELLED)
    assert isinstance(ended.detail, Ended)
    assert (ended.run_id, ended.detail.error_class) == (run_id, "cancelled")
    assert statuses(world) == {run_id: "CANCELLED"}


def test_a_handler_that_heeds_the_request_ends_its_run_cancelled(world: World) -> None:
    worker, executors, (run_id,) = claimed(world)
    world.cancel(run_id)
    world.turn(worker, count=60)
    executors.end(executors.asked[0], Outcome.FAILED)
    world.settle(worker)
    assert executors.forced == []
    assert statuses(world) == {run_id: "CANCELLED"}


def test_a_success_after_the_request_is_still_a_success(world: World) -> None:
    worker, executors, (run_id,) = claimed(world)
    world.cancel(run_id)
    world.turn(worker, count=60)
    assert executors.asked
    end_emitting(world, executors)
    world.settle(worker)
    assert statuses(world) == {run_id: "SUCCEEDED"}
    assert len(world.dump(MAIL)) == 1


def test_code_that_never_stops_keeps_its_slot_and_not_its_run(world: World) -> None:
    worker, executors = world.worker(slots=1)
    run_ids = world.fire(2)
    world.settle(worker)
    (attempt,) = executors.running
    world.cancel(attempt.work.run_id)
    world.turn(worker, count=700)  # 14 s
    assert statuses(world)[attempt.work.run_id] == "CANCELLED"
    assert executors.running == [attempt], "its slot is not given to anybody while its thread runs on"
    executors.end(attempt)
    world.turn(worker, count=3)
    assert world.succeeded() == [], "its late end says nothing"
    assert sorted(each.work.run_id for each in executors.submitted) == sorted(run_ids)


def test_an_expiry_on_control_decides_nothing_by_itself(world: World) -> None:
    """Given a run that was claimed before it expired, when control says so, then it goes on."""
    worker, executors, (run_id,) = claimed(world)
    world.cancel(run_id, EventKind.RUN_EXPIRED)
    world.turn(worker, count=60)
    assert executors.asked == []
    end_emitting(world, executors)
    world.settle(worker)
    assert statuses(world) == {run_id: "SUCCEEDED"}
    assert len(world.dump(MAIL)) == 1


def test_a_run_that_expired_before_its_claim_never_runs(world: World) -> None:
    worker, executors = world.worker()
    (run_id,) = world.fire(1)
    world.cancel(run_id, EventKind.RUN_EXPIRED)
    world.settle(worker, 10)
    assert executors.submitted == []
    assert statuses(world) == {run_id: "FAILED"}


def test_a_cancel_that_the_arbiter_refuses_stops_nothing(world: World) -> None:
    """Given a cancel that came before the run was made, when the run is claimed, then it runs."""
    run_id = make_run_id("acme:job-1", START + 1)
    world.cancel(run_id)
    worker, executors = world.worker()
    assert world.fire(1) == [run_id]
    world.settle(worker, 10)
    assert [attempt.work.run_id for attempt in executors.submitted] == [run_id]
    assert executors.asked == []


def test_a_cancel_of_another_run_stops_nobody(world: World) -> None:
    worker, executors, run_ids = claimed(world, 3)
    world.cancel(run_ids[1])
    world.turn(worker, count=60)
    assert [attempt.work.run_id for attempt in executors.asked] == [run_ids[1]]


def test_a_cancel_during_doubt_is_heeded_once_the_doubt_is_settled(world: World) -> None:
    worker, executors = world.worker()
    world.settle(worker)
    world.cluster.faults.next_commit("t.worker.worker-1", CommitFate.UNANSWERED)
    (run_id,) = world.fire(1)
    world.turn(worker)
    assert executors.submitted == []
    world.cancel(run_id)
    world.turn(worker, count=10)
    if executors.running:
        assert executors.asked == executors.running
        executors.end(executors.running[0], Outcome.FAILED)
        world.settle(worker)
    assert statuses(world) == {run_id: "CANCELLED"}


def test_a_turn_asks_for_a_bounded_number_of_ends_and_every_partition_comes_to_its_turn(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(barrier, "MARKS_MAX", 1)
    worker, executors, run_ids = claimed(world, 6)
    end_emitting(world, executors)
    asked: list[int] = []

    def count_asked(client: str, operation: str) -> None:
        if operation == "high_watermark" and client != "outside":
            asked[-1] += 1

    world.cluster.faults.on_call = count_asked
    for _ in range(PARTITIONS + 1):
        asked.append(0)
        world.turn(worker)
    world.cluster.faults.on_call = None
    assert max(asked) <= 1
    assert world.succeeded() == sorted(run_ids)


# -- cancelled so long ago that it is forgotten ----------------------------------------------------------------------


def test_a_retry_that_reaches_its_topic_days_later_may_be_of_a_run_that_was_named_and_forgotten(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ladder and the dispatcher stand still with everything else; a retry's record is placed when they go on."""
    monkeypatch.setattr(control, "KNOWN_MAX", 1)
    run_id, other = world.fire(2)
    for each in (run_id, other):
        world.cancel(each, EventKind.RUN_EXPIRED)
    tail = control.ControlTail(world.outside, world.names.control)
    tail.catch_up()
    a_day_later = world.clock.now() + 24 * 3_600 * 1_000_000
    work = next(
        work
        for record in world.dump(world.names.runs(Tier.MEDIUM))
        if (work := decode_work(record.value or b"")).run_id == run_id
    )
    retry = Attempt(work._replace(attempt=2), a_day_later, placed_at=a_day_later)
    first = Attempt(work._replace(run_id="acme:job@20991231T000000Z"), a_day_later, placed_at=a_day_later)
    assert (tail.names(retry), tail.names(first)) == (True, False)


def test_a_worker_that_stood_still_for_longer_than_control_is_kept_heeds_the_next_cancel(world: World) -> None:
    """Given records of control that were removed before it read them, then it goes on with those that are left."""
    worker, executors, (run_id, other) = claimed(world, 2)
    for number in range(3):
        for partition in range(PARTITIONS):
            told = Control(ControlKind.CANCEL_REQUESTED, "acme:old", f"acme:old@20261101T09000{number}Z", 0)
            world.put(control_message(world.names, told)._replace(partition=partition))
    for partition in range(PARTITIONS):
        place = TopicPartition(world.names.control, partition)
        world.cluster.delete_records(place, world.outside.high_watermark(place))
    world.cancel(run_id)
    world.settle(worker, 20)
    assert [each.work.run_id for each in executors.asked] == [run_id]
    end_emitting(world, executors)
    world.settle(worker, 20)
    assert statuses(world)[other] == "SUCCEEDED"


def cancel_told(world: World, run_id: str) -> None:
    """On control alone, in every partition."""
    told = control_message(world.names, Control(ControlKind.CANCEL_REQUESTED, job_of_run(run_id), run_id, 0))
    for partition in range(PARTITIONS):
        world.put(told._replace(partition=partition))


def fired(world: World) -> Attempt:
    world.fire(1)
    (record,) = world.dump(world.names.runs(Tier.MEDIUM))
    return Attempt(decode_work(record.value or b""), START, placed_at=START)


def throws(trouble: Exception) -> NoReturn:
    raise trouble


def made_anew(world: World) -> None:
    world.cluster.delete_topic(world.names.control)
    world.cluster.create_topic(world.names.control, PARTITIONS)


def test_all_of_a_control_that_was_made_anew_is_known_before_the_next_claim(world: World) -> None:
    attempt = fired(world)
    for _ in range(3):
        cancel_told(world, "acme:old@20261101T090000Z")
    tail = control.ControlTail(world.outside, world.names.control)
    tail.catch_up()
    made_anew(world)
    cancel_told(world, attempt.work.run_id)
    tail.catch_up()
    assert tail.names(attempt)


def test_an_end_of_a_control_that_was_made_anew_since_holds_nothing_back_for_ever(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        cancel_told(world, "acme:old@20261101T090000Z")
    tail = control.ControlTail(world.outside, world.names.control)
    marks = barrier.ControlBarrier(tail)
    attempt = fired(world)
    marks.claimed([attempt])
    marks.look([attempt])
    assert not marks.passed(attempt)
    tail.catch_up()
    made_anew(world)
    with monkeypatch.context() as client:
        client.setattr(MemoryReader, "poll", lambda *_: throws(LostResource("it stood beyond the end")))
        with pytest.raises(LostResource):
            tail.look()
    tail.look()
    marks.look([attempt])
    assert marks.passed(attempt)
