"""Where a worker begins in its tiers: below the start of the log, and in a new pool."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import pytest
from position_world import DAY_US, count_events_read, go_away, places, positions_of, remove_work
from structlog.testing import capture_logs
from waterclock.retry_router.loop import RetryRouter
from waterclock.workers.loop import Worker
from worker_world import PARTITIONS, HandExecutors, World

from waterclock.log.memory import MemoryLog
from waterclock.log.port import Committed, TopicPartition
from waterclock.model.events import EventKind, Origin, Pending, RunEvent, WorkRecord
from waterclock.model.ids import make_run_id
from waterclock.model.job import Tier
from waterclock.wire.messages import event_message, work_message

from . import router_world

POOL = "fresh"


@pytest.fixture
def events_read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    return count_events_read(monkeypatch)


# Below the start of the log -----------------------------------------------------------------------------------------


def test_a_position_that_retention_has_passed_holds_up_no_tier() -> None:
    """Given work that was removed while the workers were away, then what is left is claimed, and it is told."""
    world = World()
    worker, _ = world.worker(process="p1")
    world.settle(worker)
    go_away(worker)
    low = world.fire(12, Tier.LOW)
    removed = remove_work(world, Tier.LOW, keep=2)
    left = {record.offset for record in world.dump(world.names.runs(Tier.LOW))}
    assert left, "nothing is left, so this proves less"
    with capture_logs() as told:
        worker, executors = world.worker(process="p2", slots=20)
        world.settle(worker)
    high = world.fire(3, Tier.HIGH)
    world.settle(worker)
    claimed = {attempt.work.run_id for attempt in executors.submitted}
    assert claimed >= set(high)
    assert len(claimed & set(low)) == 2 * PARTITIONS
    assert world.lag(Tier.LOW) == 0
    errors = [line for line in told if line["log_level"] == "error"]
    assert {line["topic"] for line in errors} == {world.names.runs(Tier.LOW)}
    assert sum(line["records_at_most"] for line in errors) == removed
    assert [lease.by for lease in world.leases()] == ["p1", "p2"], "no incarnation was lost over it"


def test_a_tier_that_retention_overtakes_while_it_starves_goes_on() -> None:
    world = World()
    worker, executors = world.worker(slots=1)
    world.fire(1, Tier.HIGH)
    world.settle(worker)
    world.fire(12, Tier.LOW)
    world.turn(worker, count=100)
    remove_work(world, Tier.LOW, keep=1)
    for _ in range(PARTITIONS + 1):
        executors.end_all()
        world.settle(worker)
    assert len(world.started()) == 1 + PARTITIONS
    assert world.lag(Tier.LOW) == 0
    assert len(world.leases()) == 1


def test_nothing_is_told_of_positions_that_stand_in_the_log() -> None:
    world = World()
    worker, _ = world.worker(process="p1")
    world.settle(worker)
    go_away(worker)
    world.fire(4, Tier.LOW)
    with capture_logs() as told:
        worker, executors = world.worker(process="p2")
        world.settle(worker)
    assert len(executors.running) == 4
    assert [line for line in told if line["log_level"] == "error"] == []


def test_runs_whose_work_was_removed_end_once_the_position_has_passed() -> None:
    """Worker and retry router together: the one leaves the gap behind, the other sees it and says so of each run."""
    world = router_world.World()
    names = router_world.NAMES
    place = TopicPartition(names.runs(Tier.HIGH), 0)
    world.cluster.group(names.worker_group(Tier.HIGH)).commit({place: Committed(0)})
    gone = [world.pending()[0] for _ in range(2)]
    world.cluster.delete_records(place, 2)
    kept, _ = world.pending()
    executors = HandExecutors()
    log = MemoryLog(world.cluster, "worker-1")
    worker = Worker(
        world.clock, log, names, executors, worker="worker-1", process="p", generation=router_world.GENERATION
    )
    router: RetryRouter = world.router()
    for _ in range(700):
        worker.step()
        router.step()
        world.clock.advance(200_000)
    assert [attempt.work.run_id for attempt in executors.submitted] == [kept]
    expired = {event.run_id: event.reason for event in world.events(EventKind.RUN_EXPIRED)}
    assert expired == dict.fromkeys(gone, "work-record-gone")


# A new pool ---------------------------------------------------------------------------------------------------------


def _world_with_a_new_pool(history: int) -> World:
    """Others have a history, a new pool's topics have just been made."""
    world = World()
    for tier in Tier:
        world.cluster.create_topic(world.names.runs(tier, POOL), PARTITIONS)
    world.fire(history)
    world.clock.advance(DAY_US)
    return world


def _worker_of_pool(world: World, name: str = "f-1") -> tuple[Worker, HandExecutors]:
    executors = HandExecutors()
    log = MemoryLog(world.cluster, name)
    return Worker(world.clock, log, world.names, executors, worker=name, process=name, pool=POOL), executors


def _fire_in_pool(world: World) -> str:
    at = world.clock.now()
    run_id = make_run_id("acme:x", at)
    pending = Pending(1, at, at, Tier.HIGH, Origin.SCHEDULE, pool=POOL)
    world.put(event_message(world.names, RunEvent(EventKind.PENDING, "acme:x", run_id, at, detail=pending)))
    world.put(work_message(world.names, WorkRecord(run_id, at, at, 1, "acme:x", 1, Tier.HIGH, POOL, "noop", b"")))
    return run_id


def test_a_new_pool_begins_at_once_whatever_others_have_done(events_read: list[int]) -> None:
    world = _world_with_a_new_pool(history=200)
    worker, executors = _worker_of_pool(world)
    world.turn(worker, count=3)
    assert [positions_of(world, tier, POOL) for tier in Tier] == [[0] * PARTITIONS] * 3
    run_id = _fire_in_pool(world)
    world.turn(worker, count=2)
    assert [attempt.work.run_id for attempt in executors.running] == [run_id]
    assert events_read == []


def test_work_that_was_removed_whole_leaves_nothing_to_be_read_for(events_read: list[int]) -> None:
    world = World()
    world.fire(20)
    remove_work(world, Tier.MEDIUM, keep=0)
    worker, _ = world.worker()
    world.settle(worker)
    assert world.lag(Tier.MEDIUM) == 0
    assert events_read == []


def test_run_events_are_read_from_when_the_oldest_work_that_is_kept_was_written(events_read: list[int]) -> None:
    world = _world_with_a_new_pool(history=200)
    run_id = _fire_in_pool(world)
    worker, executors = _worker_of_pool(world)
    world.turn(worker, count=6)
    assert [attempt.work.run_id for attempt in executors.running] == [run_id]
    assert 1 <= len(events_read) <= 10


def test_work_of_a_partition_that_holds_markers_alone_is_waited_for_from_its_beginning(events_read: list[int]) -> None:
    world = _world_with_a_new_pool(history=10)
    for place in places(world, Tier.HIGH, POOL):
        span = world.cluster.partition(place).open_span()
        world.cluster.partition(place).end(span, world.clock.now(), commit=True)
    worker, executors = _worker_of_pool(world)
    world.turn(worker, count=6)
    run_id = _fire_in_pool(world)
    world.turn(worker, count=2)
    assert [attempt.work.run_id for attempt in executors.running] == [run_id]
    assert events_read == []
