"""One tier's consumer, where a real client differs from the one in memory."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from worker_world import World

from waterclock.log.memory import CommitFate
from waterclock.log.memory_consumer import MemoryConsumer
from waterclock.log.port import TopicPartition
from waterclock.model.job import Tier


def test_a_position_of_before_the_start_never_steps_over_a_void_round(monkeypatch) -> None:
    """Given a client that tells its old position for a while after a start, as librdkafka does, nothing is skipped."""
    world = World()
    worker, executors = world.worker(slots=20)
    world.settle(worker)
    told: dict[TopicPartition, int] = {}
    position, start = MemoryConsumer.position, MemoryConsumer.start

    def start_late(self, positions):
        for partition in positions:
            before = position(self, partition)
            if before is not None:
                told[partition] = before
        start(self, positions)

    def old_position(self, partition):
        return told.get(partition) or position(self, partition)

    monkeypatch.setattr(MemoryConsumer, "start", start_late)
    monkeypatch.setattr(MemoryConsumer, "position", old_position)
    run_ids = world.fire(12)
    world.cluster.faults.next_commit("t.worker.worker-1", CommitFate.ABORTS)
    world.turn(worker)
    assert executors.submitted == []
    # The client has not fetched anything yet when the positions step over gaps.
    taken = MemoryConsumer.poll
    monkeypatch.setattr(MemoryConsumer, "poll", lambda self, _limit, *waits: taken(self, 0, *waits))
    world.clock.advance(5_100_000)
    world.turn(worker, count=2)
    assert told
    assert world.started() == []
    assert world.lag(Tier.MEDIUM) == 12, "a crash here would lose them"
    monkeypatch.setattr(MemoryConsumer, "poll", taken)
    told.clear()
    world.turn(worker, count=5)
    assert world.started() == sorted(run_ids)
