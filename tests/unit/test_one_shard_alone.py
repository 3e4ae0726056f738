"""What cannot be read of one shard stops that shard alone, however many others its dispatcher has."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from waterclock.dispatcher import window

from tests.unit.dispatcher_world import NAMES, START, World, every
from waterclock.log.memory import MemoryLog
from waterclock.log.port import TopicPartition
from waterclock.model.errors import BackendDown
from waterclock.model.ids import US_PER_S, partition_of
from waterclock.model.job import CommandKind, JobVersion
from waterclock.store.memory import MemoryStore
from waterclock.store.port import DueRow

BAD_MINUTE = START // US_PER_S // 60 + 5


@pytest.fixture(autouse=True)
def _whole_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window, "SLOTS_PER_SLICE", 256)


def world_with_a_job_in_each(seconds: int) -> tuple[World, dict[int, str]]:
    """Two shards, and the job that each has."""
    world = World(partitions=2)
    world.run(2)
    jobs = {partition_of(job_id, 2): job_id for job_id in (f"t:job{number}" for number in range(20))}
    for job_id in jobs.values():
        world.command(CommandKind.CREATE, job_id, every(seconds))
    world.run(10)
    return world, jobs


@pytest.mark.parametrize("bad", [0, 1])
def test_a_bucket_that_cannot_be_read_stops_its_own_shard_alone(monkeypatch: pytest.MonkeyPatch, bad: int) -> None:
    world, jobs = world_with_a_job_in_each(10)
    right = MemoryStore.load_due

    def load_due(store: MemoryStore, slots: Sequence[int], minute: int, minutes: int = 1) -> list[DueRow]:
        if minute <= BAD_MINUTE < minute + minutes and any(slot % 2 == bad for slot in slots):
            raise BackendDown("cassandra", "ReadFailure: too many tombstones")
        return right(store, slots, minute, minutes)

    monkeypatch.setattr(MemoryStore, "load_due", load_due)
    world.run(15 * 60, step_s=0.25)
    assert len(world.runs(f"{jobs[bad]}@")) < 45
    assert len(world.runs(f"{jobs[1 - bad]}@")) >= 85, "the other has to go on"


def test_commands_whose_job_cannot_be_read_stop_those_of_no_other_shard(monkeypatch: pytest.MonkeyPatch) -> None:
    world, jobs = world_with_a_job_in_each(3_600)
    bad, good = jobs[0], jobs[1]
    right = MemoryStore.versions_below

    def versions_below(store: MemoryStore, wanted: Sequence[tuple[str, int]]) -> list[JobVersion | None]:
        if any(job_id == bad for job_id, _ in wanted):
            raise BackendDown("cassandra", "ReadFailure of one partition")
        return right(store, wanted)

    monkeypatch.setattr(MemoryStore, "versions_below", versions_below)
    world.command(CommandKind.TRIGGER, bad)
    for _ in range(5):
        world.command(CommandKind.TRIGGER, good)
        world.run(20, step_s=0.25)
    assert len(world.runs(f"{good}@")) == 5
    monkeypatch.undo()
    world.run(10, step_s=0.25)
    assert len(world.runs(f"{bad}@")) == 1


def test_a_partition_that_cannot_be_taken_over_stops_none_of_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    world, jobs = world_with_a_job_in_each(1)
    right = MemoryLog.high_watermark
    gone = TopicPartition(NAMES.state("dispatcher"), 0)

    def high_watermark(log: MemoryLog, place: TopicPartition) -> int:
        if place == gone:
            raise BackendDown("kafka", "it has no leader")
        return right(log, place)

    monkeypatch.setattr(MemoryLog, "high_watermark", high_watermark)
    world.crash()
    before = {number: len(world.runs(f"{job_id}@")) for number, job_id in jobs.items()}
    world.run(30)
    after = {number: len(world.runs(f"{job_id}@")) - before[number] for number, job_id in jobs.items()}
    assert after[0] == 0
    assert after[1] >= 25
    assert not world.dispatcher.ready
    monkeypatch.undo()
    world.run(10)
    assert world.dispatcher.ready
    assert len(world.runs(f"{jobs[0]}@")) > before[0]
