"""A worker whose slots are all taken by code that never stops: what waits in its partitions is for the others."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import pytest
from structlog.testing import capture_logs
from waterclock.workers.loop import Worker
from worker_world import HandExecutors, World

from waterclock.model.events import EventKind
from waterclock.model.job import Tier


@pytest.fixture
def world() -> World:
    return World()


def hung(world: World, worker: Worker, executors: HandExecutors) -> list[str]:
    """Runs that hang in all of a worker's slots, and were given up."""
    run_ids = world.fire(8)
    world.turn(worker, count=20)
    assert len(executors.running) == 8
    for run_id in run_ids:
        world.cancel(run_id)
    world.turn(worker, count=70, us=200_000)  # asked, forced 10 s later, given up a second after that
    assert {event.run_id for event in world.events(EventKind.ATTEMPT_CANCELLED)} == set(run_ids)
    return run_ids


def test_others_claim_what_a_worker_cannot_whose_handlers_all_hang(world: World) -> None:
    hanging, executors = world.worker("worker-1", slots=8)
    hung(world, hanging, executors)
    other, others = world.worker("worker-2")
    with capture_logs() as lines:
        for _ in range(100):
            world.turn(hanging, other, us=200_000)
    assert [line["slots_stuck"] for line in lines if line["event"] == "groups_left"] == [8]
    waiting = world.fire(8)
    world.turn(hanging, other, count=20)
    assert sorted(attempt.work.run_id for attempt in others.running) == sorted(waiting)
    assert world.lag(Tier.MEDIUM) == 0
    assert hanging.ready, "it lives, and is to go on as soon as it can"


def test_it_comes_back_as_soon_as_one_of_them_has_ended(world: World) -> None:
    worker, executors = world.worker(slots=8)
    hung(world, worker, executors)
    world.turn(worker, count=100, us=200_000)
    waiting = world.fire(1)
    world.turn(worker, count=20)
    assert len(executors.submitted) == 8
    executors.end(executors.running[0])
    world.turn(worker, count=20, us=1_000_000)
    assert [attempt.work.run_id for attempt in executors.submitted[8:]] == waiting
    executors.end_all()
    world.turn(worker)
    assert not worker.drain()


def test_a_worker_whose_attempts_still_run_stays_a_member(world: World) -> None:
    worker, executors = world.worker(slots=8)
    world.fire(8)
    with capture_logs() as lines:
        world.turn(worker, count=200, us=200_000)
    assert len(executors.running) == 8
    assert "groups_left" not in {line["event"] for line in lines}


def test_one_that_is_shut_down_meanwhile_does_not_come_back(world: World) -> None:
    worker, executors = world.worker(slots=8)
    hung(world, worker, executors)
    world.turn(worker, count=100, us=200_000)
    assert not worker.drain()
    executors.end_all()
    world.fire(3)
    assert not worker.drain()
    assert len(executors.submitted) == 8
