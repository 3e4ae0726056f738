"""A worker of a pool takes that pool's work, and no other."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from waterclock.workers.loop import Worker
from worker_world import PARTITIONS, HandExecutors, World

from waterclock.log.memory import MemoryLog
from waterclock.log.port import TopicPartition
from waterclock.model.events import EventKind, Origin, Pending, RunEvent, WorkRecord
from waterclock.model.ids import make_run_id
from waterclock.model.job import Tier
from waterclock.serving import who_serves
from waterclock.wire.messages import event_message, work_message


def world_with_a_pool() -> World:
    world = World()
    for tier in Tier:
        world.cluster.create_topic(world.names.runs(tier, "gpu"), PARTITIONS)
    return world


def worker_of(world: World, name: str, pool: str) -> tuple[Worker, HandExecutors]:
    executors = HandExecutors()
    log = MemoryLog(world.cluster, name)
    worker = Worker(
        world.clock, log, world.names, executors, worker=name, process=name, pool=pool, handlers={"train": None}
    )
    return worker, executors


def fire(world: World, pool: str, number: int) -> str:
    at = world.clock.now()
    job_id = f"acme:{pool}-{number}"
    run_id = make_run_id(job_id, at)
    pending = Pending(1, at, at, Tier.LOW, Origin.SCHEDULE, pool=pool)
    world.put(event_message(world.names, RunEvent(EventKind.PENDING, job_id, run_id, at, detail=pending)))
    world.put(work_message(world.names, WorkRecord(run_id, at, at, 1, job_id, 1, Tier.LOW, pool, "train", b"")))
    return run_id


def test_each_pool_works_off_its_own_topics_in_its_own_groups() -> None:
    world = world_with_a_pool()
    plain, plain_executors = worker_of(world, "worker-1", "default")
    gpu, gpu_executors = worker_of(world, "gpu-1", "gpu")
    for_gpu = sorted(fire(world, "gpu", number) for number in range(3))
    for_plain = sorted(fire(world, "default", number) for number in range(3))
    world.turn(plain, gpu, count=8)
    assert sorted(attempt.work.run_id for attempt in gpu_executors.running) == for_gpu
    assert sorted(attempt.work.run_id for attempt in plain_executors.running) == for_plain
    group = world.cluster.group(world.names.worker_group(Tier.LOW, "gpu"))
    topic = world.names.runs(Tier.LOW, "gpu")
    places = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    committed = [group.committed(place) for place in places]
    assert [position and position.offset for position in committed] == [
        world.outside.high_watermark(place) for place in places
    ]


def test_work_of_a_pool_without_a_worker_waits_and_is_taken_by_the_first_one() -> None:
    world = world_with_a_pool()
    plain, _ = worker_of(world, "worker-1", "default")
    run_id = fire(world, "gpu", 1)
    world.turn(plain, count=10)
    assert world.started() == []
    gpu, _ = worker_of(world, "gpu-1", "gpu")
    world.turn(plain, gpu, count=8)
    assert world.started() == [run_id]


def test_its_beats_name_the_pool_and_the_handlers() -> None:
    world = world_with_a_pool()
    gpu, _ = worker_of(world, "gpu-1", "gpu")
    world.settle(gpu)
    world.clock.advance(2_500_000)
    world.turn(gpu)
    served = who_serves(world.outside, world.names, lease_ttl_s=15.0, now=world.clock.now())
    assert {pool: (each.workers, each.handlers) for pool, each in served.items()} == {
        "gpu": (("gpu-1",), frozenset({"train"}))
    }
