"""Attempts are told apart by identity, yet nothing that a worker says of them depends on where they lie in memory."""

from __future__ import annotations

import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from waterclock.workers.executors.port import Attempt
from waterclock.workers.slots import Slots
from worker_world import PARTITIONS, START, World

from waterclock.model.events import Control, ControlKind, EventKind, RunEvent, WorkRecord
from waterclock.model.ids import job_of_run, partition_of
from waterclock.model.job import Tier
from waterclock.wire.messages import control_message, event_message

MANY = 60
"""So many stand in order by chance once in 10^80 tests."""
_WORK = WorkRecord("acme:a@20261121T090000Z", 0, 0, 1, "acme:a", 1, Tier.LOW, "default", "noop", b"")


def test_what_is_held_is_told_in_the_order_of_its_claims() -> None:
    slots = Slots(MANY)
    attempts = [Attempt(_WORK, 0, token) for token in range(MANY)]
    random.Random(7).shuffle(attempts)
    slots.hold(attempts)
    slots.release(attempts[10:20])
    assert slots.held() == attempts[:10] + attempts[20:]


def test_attempts_that_are_cancelled_together_are_stopped_in_the_order_of_their_claims() -> None:
    world = World()
    worker, executors = world.worker(slots=MANY)
    run_ids = world.fire(MANY)
    world.settle(worker)
    assert len(executors.running) == MANY
    random.Random(7).shuffle(run_ids)
    for run_id in run_ids:
        world.cancel(run_id)
    world.settle(worker)
    assert len(executors.asked) == MANY
    for partition in range(PARTITIONS):  # the log is read back partition by partition
        asked = [attempt for attempt in executors.asked if _partition(attempt) == partition]
        assert asked == [attempt for attempt in executors.submitted if _partition(attempt) == partition]


def test_claims_that_wait_for_the_log_at_a_shutdown_are_handed_back_in_their_order() -> None:
    world = World()
    worker, executors = world.worker(slots=MANY)
    world.settle(worker)
    somebody = world.outside.producer("somebody")
    somebody.init(1.0)
    somebody.begin()
    for number in range(PARTITIONS):
        event = RunEvent(EventKind.REVISED, "acme:other", "", START)
        somebody.append(event_message(world.names, event)._replace(partition=number))
    for run_id in world.fire(MANY):
        expired = Control(ControlKind.RUN_EXPIRED, job_of_run(run_id), run_id, START)
        world.put(control_message(world.names, expired))
    world.settle(worker)
    assert executors.submitted == [], "they are all asked about, and the log cannot answer"
    for _ in range(10):
        worker.drain()
        world.clock.advance(20_000)
    somebody.abort(1.0)
    started = [event.run_id for event in world.events(EventKind.STARTED)]
    assert len(started) == MANY
    assert [event.run_id for event in world.events(EventKind.ATTEMPT_FAILED)] == started


def _partition(attempt: Attempt) -> int:
    return partition_of(attempt.work.job_id, PARTITIONS)
