"""Runs that happen once or never: user code sees them only when the log has said whose claim counts."""

from __future__ import annotations

import pytest
from waterclock.workers import read_back

from tests.unit.worker_world import START, World
from waterclock.log.port import Record, TopicPartition
from waterclock.model.events import EventKind, Origin, Pending, RunEvent, WorkRecord
from waterclock.model.ids import make_run_id
from waterclock.model.job import Tier
from waterclock.transact import Rounds
from waterclock.wire.codec import decode_event
from waterclock.wire.messages import event_message, work_message

JOB = "acme:pay"


def _fire(world: World, number: int = 1, *, at_most_once: bool = True, records: int = 1) -> str:
    """PENDING and its work record, the latter as often as a torn round or a lost position would deliver it."""
    fire_at = START + number
    run_id = make_run_id(JOB, fire_at)
    pending = Pending(1, fire_at, fire_at, Tier.HIGH, Origin.SCHEDULE)
    world.put(event_message(world.names, RunEvent(EventKind.PENDING, JOB, run_id, START, detail=pending)))
    work = WorkRecord(run_id, fire_at, fire_at, 1, JOB, 1, Tier.HIGH, "default", "pay", b"", "", at_most_once)
    for _ in range(records):
        world.put(work_message(world.names, work))
    return run_id


def _submitted(executors: object) -> list[str]:
    return [attempt.work.run_id for attempt in executors.submitted]  # type: ignore[attr-defined]


def test_it_runs_once_its_claim_was_read_back() -> None:
    world = World()
    worker, executors = world.worker()
    run_id = _fire(world)
    world.settle(worker, 8)
    assert _submitted(executors) == [run_id]
    executors.end_all()
    world.settle(worker)
    assert world.succeeded() == [run_id]
    assert world.lag(Tier.HIGH) <= 1


def test_a_work_record_that_comes_twice_runs_once() -> None:
    world = World()
    worker, executors = world.worker()
    run_id = _fire(world, records=2)
    ordinary = _fire(world, 2, at_most_once=False, records=2)
    world.settle(worker, 10)
    assert len(world.events(EventKind.STARTED)) == 4, "both records were claimed twice, or this proves nothing"
    assert sorted(_submitted(executors)) == sorted([run_id, ordinary, ordinary])


def test_the_slot_of_a_claim_that_does_not_count_is_free_again() -> None:
    world = World()
    worker, executors = world.worker(slots=2)
    run_id = _fire(world, records=2)
    world.settle(worker, 10)
    assert _submitted(executors) == [run_id]
    executors.end_all()
    more = [_fire(world, number) for number in (3, 4)]
    world.settle(worker, 12)
    assert _submitted(executors) == [run_id, *more]


def test_of_two_workers_with_the_same_record_one_runs_it() -> None:
    world = World()
    first, ones = world.worker("worker-1")
    second, twos = world.worker("worker-2")
    world.turn(first, second, count=6)
    run_ids = [_fire(world, number, records=3) for number in range(1, 9)]
    world.turn(first, second, count=30)
    for _ in range(4):
        ones.end_all()
        twos.end_all()
        world.turn(first, second, count=8)
    assert sorted(_submitted(ones) + _submitted(twos)) == sorted(run_ids)
    assert world.succeeded() == sorted(run_ids)


def test_nothing_else_waits_while_a_claim_cannot_be_read_back() -> None:
    world = World()
    worker, executors = world.worker()
    world.settle(worker)
    someone = Rounds(world.outside, "someone")
    someone.open()
    producer = someone._producer
    assert producer is not None
    producer.begin()
    for number in (100, 200):  # into both partitions: the end of committed reading stands still
        fire_at = START + number
        event = RunEvent(EventKind.REVISED, f"acme:other-{number}", "", fire_at)
        message = event_message(world.names, event)
        producer.append(message._replace(partition=number // 100 - 1))
    once = _fire(world, 1)
    ordinary = _fire(world, 2, at_most_once=False)
    world.settle(worker, 10)
    assert _submitted(executors) == [ordinary]
    producer.abort(1.0)
    world.settle(worker, 6)
    assert _submitted(executors) == [ordinary, once]


def test_a_dead_incarnation_runs_nothing_that_it_had_not_read_back() -> None:
    world = World()
    worker, executors = world.worker()
    world.settle(worker)
    _fire(world)
    worker.step()
    while not world.started():
        worker.step()
    assert executors.submitted == []
    world.clock.advance(60_000_000)
    worker.step()
    world.settle(worker, 10)
    assert executors.submitted == [], "its lease had run out: the attempt is the keeper's to declare lost"


def test_it_runs_where_retention_removes_what_is_just_being_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Given a claim whose run's beginning goes while the worker reads towards it, then what is left tells."""
    monkeypatch.setattr(read_back, "_SLICE_RECORDS", 1)
    world = World()
    worker, executors = world.worker()
    world.settle(worker)
    for number in range(2, 12):
        _fire(world, number, records=0)
    run_id = _fire(world)
    world.turn(worker, count=2)
    (started,) = (each for each in world.dump(world.names.run_events) if _kind(each) is EventKind.STARTED)
    assert not _submitted(executors), "it is read for, or this proves nothing"
    world.cluster.delete_records(TopicPartition(started.topic, started.partition), started.offset)
    other = _fire(world, 30, at_most_once=False)
    world.settle(worker, 20)
    assert sorted(_submitted(executors)) == sorted([run_id, other])


def _kind(record: Record) -> EventKind:
    return decode_event(record.value or b"").kind
