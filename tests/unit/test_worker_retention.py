"""Claims of runs whose beginning retention has removed from the log: what is left of it decides, with the word of who
made the work record."""

from __future__ import annotations

import pytest
from waterclock.workers.loop import Worker

from tests.unit.test_worker_verify import JOB, RUN, hand_out, say, until_retrying
from tests.unit.worker_world import START, HandExecutors, World
from waterclock.log.port import TopicPartition
from waterclock.model.events import (
    EventKind,
    Outcome,
    Retrying,
    RunEvent,
    WorkRecord,
)
from waterclock.model.ids import US_PER_S, make_run_id, partition_of
from waterclock.model.job import Tier
from waterclock.model.known_state import state_to_text
from waterclock.wire.messages import event_message, work_message

OTHER = make_run_id(JOB, START + 1)


def _forget(world: World) -> None:
    place = TopicPartition(world.names.run_events, partition_of(JOB, world.outside.partitions(world.names.run_events)))
    world.cluster.delete_records(place, world.outside.high_watermark(place))


def _second(world: World, *, verified: bool = True) -> tuple[Worker, HandExecutors]:
    """Four weeks later the second attempt's work record comes, and the log holds nothing of the first any more."""
    offset, state = until_retrying(world)
    say(world, EventKind.RETRYING, 2, Retrying(START, 0))
    world.clock.advance(28 * 24 * 3_600 * US_PER_S)
    _forget(world)
    worker, executors = world.worker()
    world.settle(worker)
    hand_out(world, 2, *((offset + 1, state_to_text(state)) if verified else (-1,)))
    return worker, executors


def test_a_retry_whose_announcement_is_gone_runs() -> None:
    world = World()
    worker, executors = _second(world)
    world.settle(worker, 10)
    assert [attempt.work.attempt for attempt in executors.submitted] == [2]
    executors.end_all()
    world.settle(worker)
    assert world.succeeded() == [RUN]


@pytest.mark.parametrize("kind", [EventKind.CANCEL_REQUESTED, EventKind.RUN_EXPIRED])
def test_an_end_that_is_left_on_the_log_counts(kind: EventKind) -> None:
    world = World()
    worker, executors = _second(world)
    say(world, kind)
    world.settle(worker, 10)
    assert len(world.events(EventKind.STARTED)) == 1, "it was claimed, or this proves nothing"
    assert executors.submitted == []


def test_of_two_claims_that_are_left_the_first_one_counts() -> None:
    world = World()
    worker, executors = _second(world)
    claim = RunEvent(EventKind.STARTED, JOB, RUN, world.clock.now(), 2, "worker-9", 0)
    world.put(event_message(world.names, claim))
    world.settle(worker, 10)
    assert len(world.events(EventKind.STARTED)) == 2
    assert executors.submitted == []


def test_a_cancel_of_a_retry_that_runs_stops_it_and_is_recorded() -> None:
    """Given a run that began before the log does, when it is cancelled while it runs, then it ends cancelled."""
    world = World()
    worker, executors = _second(world, verified=False)
    world.settle(worker, 10)
    (attempt,) = executors.running
    world.cancel(RUN)
    world.turn(worker, count=100)
    assert executors.asked == [attempt]
    world.turn(worker, count=450)
    executors.end(attempt, Outcome.FAILED)
    world.settle(worker)
    (ended,) = world.events(EventKind.ATTEMPT_CANCELLED)
    assert (ended.run_id, ended.attempt) == (RUN, 2)


def test_a_run_whose_beginning_is_there_is_judged_by_it() -> None:
    """Given a log that retention has cut, when a claim's own run is unknown by it, then the claim does not count."""
    world = World()
    until_retrying(world)
    _forget(world)
    world.clock.advance(24 * 3_600 * US_PER_S)
    say(world, EventKind.REVISED)  # the log goes on long before the run was made
    world.clock.advance(3_600 * US_PER_S)
    worker, executors = world.worker()
    world.settle(worker)
    now = world.clock.now()
    work = WorkRecord(OTHER, now, now, 1, JOB, 1, Tier.HIGH, "default", "pay", b"", at_most_once=True)
    world.put(work_message(world.names, work))  # of a torn round: without its PENDING
    world.settle(worker, 10)
    assert [event.run_id for event in world.events(EventKind.STARTED)] == [OTHER]
    assert executors.submitted == []
