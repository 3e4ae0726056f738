"""What is asked about a claim is answered soon, however long other things take to be read back."""

from __future__ import annotations

import pytest
from waterclock.workers import read_back
from waterclock.workers.executors.port import Attempt
from waterclock.workers.loop import Worker

from tests.unit.worker_world import START, HandExecutors, World
from waterclock.log.port import TopicPartition
from waterclock.model.events import (
    DRAINED,
    Control,
    ControlKind,
    Ended,
    EventKind,
    Origin,
    Pending,
    RunEvent,
    WorkRecord,
)
from waterclock.model.ids import US_PER_S, make_run_id, partition_of
from waterclock.model.job import Tier
from waterclock.wire.messages import control_message, event_message, work_message

OLD = "acme:pay"
MINE = next(job for job in map("acme:job-{}".format, range(99)) if partition_of(job, 2) == partition_of(OLD, 2))
MUCH = 600
"""Events of an hour: one in six seconds; a turn reads five."""
SOON = 20
"""Turns."""


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(read_back, "_SLICE_RECORDS", 5)
    monkeypatch.setattr(read_back, "NEAR_RECORDS", 100)
    return World()


def fire(world: World, job: str, fire_at: int, *, at_most_once: bool = False) -> str:
    """PENDING, and the work record of the first attempt."""
    run_id = make_run_id(job, fire_at)
    pending = Pending(1, fire_at, fire_at, Tier.HIGH, Origin.SCHEDULE)
    world.put(event_message(world.names, RunEvent(EventKind.PENDING, job, run_id, fire_at, detail=pending)))
    hand_out(world, job, fire_at, at_most_once=at_most_once)
    return run_id


def hand_out(world: World, job: str, fire_at: int, attempt: int = 1, *, at_most_once: bool = False) -> None:
    head = (make_run_id(job, fire_at), fire_at, fire_at, attempt, job, 1, Tier.HIGH, "default", "noop", b"", "")
    world.put(work_message(world.names, WorkRecord(*head, at_most_once)))


def much_happens(world: World, *workers: Worker) -> None:
    """An hour of others' events, in the partition of ``MINE`` and ``OLD``."""
    for number in range(MUCH):
        other = make_run_id(MINE, START + 10**12 + number)
        world.put(event_message(world.names, RunEvent(EventKind.STARTED, MINE, other, START, 1)))
        world.turn(*workers, us=3_600 * US_PER_S // MUCH)


def hand_back_old(world: World) -> str:
    """A run of ``OLD``, from its beginning until a worker elsewhere hands it back."""
    run_id = make_run_id(OLD, START)
    pending = Pending(1, START, START, Tier.HIGH, Origin.SCHEDULE)
    world.put(event_message(world.names, RunEvent(EventKind.PENDING, OLD, run_id, START, detail=pending)))
    claim = RunEvent(EventKind.STARTED, OLD, run_id, START, 1, "elsewhere", 0)
    token = world.put(event_message(world.names, claim))
    failed = claim._replace(kind=EventKind.ATTEMPT_FAILED, token=token, detail=Ended(START, DRAINED))
    world.put(event_message(world.names, failed))
    world.put(event_message(world.names, RunEvent(EventKind.RETRYING, OLD, run_id, START, 2)))
    return run_id


def hand_out_old(world: World) -> None:
    """The next attempt of that run, which may be called once at most."""
    hand_out(world, OLD, START, 2, at_most_once=True)


def turns_until(world: World, worker: Worker, attempts: list[Attempt], run_id: str) -> int:
    """How many it takes until this run is among the attempts."""
    for count in range(5 * MUCH):
        if run_id in [attempt.work.run_id for attempt in attempts]:
            return count
        world.turn(worker)
    raise AssertionError(f"{run_id} is never among them")


def running(world: World) -> tuple[Worker, HandExecutors, str]:
    """A worker, and an attempt that it runs. Before that a run of ``OLD`` was handed back."""
    hand_back_old(world)
    worker, executors = world.worker()
    world.settle(worker)
    run_id = fire(world, MINE, world.clock.now())
    world.settle(worker)
    assert [each.work.run_id for each in executors.running] == [run_id]
    return worker, executors, run_id


def test_a_cancel_is_heeded_as_soon_after_an_hour_as_at_once(world: World) -> None:
    worker, executors, run_id = running(world)
    much_happens(world, worker)
    world.cancel(run_id)
    assert turns_until(world, worker, executors.asked, run_id) < SOON


def test_a_cancel_is_heeded_whatever_the_clocks_of_its_two_records_say(world: World) -> None:
    """Given a request far before the place where its stamp on control lets it be looked for, then all is read."""
    worker, executors, run_id = running(world)
    much_happens(world, worker)
    world.put(event_message(world.names, RunEvent(EventKind.CANCEL_REQUESTED, MINE, run_id, world.clock.now())))
    much_happens(world, worker)
    told = Control(ControlKind.CANCEL_REQUESTED, MINE, run_id, world.clock.now())
    world.put(control_message(world.names, told))
    assert turns_until(world, worker, executors.asked, run_id) > SOON, "the short way does not lead there"


def test_what_is_passed_over_for_one_is_read_for_another(world: World) -> None:
    """Given runs begun an hour apart, when both are cancelled, then each is heeded, and soon."""
    worker, executors, first = running(world)
    much_happens(world, worker)
    second = fire(world, MINE, world.clock.now())
    world.settle(worker)
    much_happens(world, worker)
    world.cancel(first)
    world.cancel(second)
    assert turns_until(world, worker, executors.asked, first) < SOON
    assert turns_until(world, worker, executors.asked, second) < SOON


def test_a_claim_that_does_not_count_is_dropped_also_an_hour_later(world: World) -> None:
    """Given a cancel before the claim that control tells an hour after it, then the attempt is stopped, unrecorded."""
    worker, executors = world.worker()
    world.settle(worker)
    run_id = fire(world, MINE, world.clock.now())
    world.put(event_message(world.names, RunEvent(EventKind.CANCEL_REQUESTED, MINE, run_id, world.clock.now())))
    world.settle(worker)
    much_happens(world, worker)
    told = Control(ControlKind.CANCEL_REQUESTED, MINE, run_id, world.clock.now())
    world.put(control_message(world.names, told))
    assert turns_until(world, worker, executors.asked, run_id) < SOON
    executors.end_all()
    world.settle(worker)
    assert world.events(EventKind.ATTEMPT_CANCELLED, EventKind.ATTEMPT_SUCCEEDED) == []


def test_nobody_waits_for_a_claim_that_is_read_for_from_an_hour_ago(world: World) -> None:
    """Given a run under way, and an old claim of its partition, when others are asked about, then they are answered."""
    worker, executors, under_way = running(world)
    much_happens(world, worker)
    hand_out_old(world)
    world.settle(worker, 3)
    fresh = fire(world, MINE, world.clock.now(), at_most_once=True)
    world.cancel(under_way)
    assert turns_until(world, worker, executors.submitted, fresh) < SOON
    assert turns_until(world, worker, executors.asked, under_way) < SOON
    assert turns_until(world, worker, executors.submitted, make_run_id(OLD, START)) > SOON, "or it proves nothing"


def test_a_long_reading_ends_however_much_is_asked_beside_it(world: World) -> None:
    worker, executors, _ = running(world)
    much_happens(world, worker)
    hand_out_old(world)
    world.settle(worker, 3)
    executors.end_all()
    for _ in range(2 * MUCH // 5):
        fire(world, MINE, world.clock.now(), at_most_once=True)
        world.turn(worker, count=2)
        executors.end_all()
    assert make_run_id(OLD, START) in [attempt.work.run_id for attempt in executors.submitted]


@pytest.mark.parametrize("turns", range(6))
def test_an_answer_is_told_also_where_another_reading_is_lost_in_its_turn(world: World, turns: int) -> None:
    """Given a short reading that ends about when retention takes what a long one reads, then both are answered."""
    worker, executors, _ = running(world)
    much_happens(world, worker)
    hand_out_old(world)
    world.settle(worker, 3)
    fresh = fire(world, MINE, world.clock.now(), at_most_once=True)
    world.turn(worker, count=turns)
    place = TopicPartition(world.names.run_events, partition_of(OLD, 2))
    world.cluster.delete_records(place, MUCH)
    assert turns_until(world, worker, executors.submitted, fresh) < SOON
    assert turns_until(world, worker, executors.submitted, make_run_id(OLD, START)) < SOON


def test_claims_behind_an_old_one_do_not_take_all_the_slots(world: World) -> None:
    """Given as many fresh claims of its partition as there are slots, then work of other partitions is begun."""
    worker, executors = world.worker(slots=4)
    hand_back_old(world)
    much_happens(world)
    world.settle(worker)
    hand_out_old(world)
    world.settle(worker, 3)
    for number in range(4):
        fire(world, MINE, world.clock.now() + number, at_most_once=True)
    world.settle(worker, 3)
    executors.end_all()
    elsewhere = next(job for job in map("acme:b{}".format, range(99)) if partition_of(job, 2) != partition_of(OLD, 2))
    ordinary = fire(world, elsewhere, world.clock.now())
    for _ in range(SOON):
        world.turn(worker)
        executors.end_all()
    begun = [attempt.work.run_id for attempt in executors.submitted]
    assert ordinary in begun
    assert make_run_id(OLD, START) not in begun, "it is still read for, or this proves nothing"
