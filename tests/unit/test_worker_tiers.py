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


def test_low_is_not_starved_where_a_slot_frees_now_and_then(monkeypatch) -> None:
    """Given a client that needs 0.7 s for its first record after a pause, as librdkafka does, LOW gets its weight's
    part: of slots that free four times a second, too, where its turn comes every five."""
    world = World()
    paused_until_s: dict[MemoryConsumer, float] = {}
    poll, resume = MemoryConsumer.poll, MemoryConsumer.resume

    def resume_late(self) -> None:
        resume(self)
        paused_until_s[self] = world.clock.monotonic_s() + 0.7

    def poll_late(self, max_records, *waits):
        fetches = world.clock.monotonic_s() < paused_until_s.get(self, 0.0)
        return poll(self, 0 if fetches else max_records, *waits)

    monkeypatch.setattr(MemoryConsumer, "resume", resume_late)
    monkeypatch.setattr(MemoryConsumer, "poll", poll_late)
    worker, executors = world.worker(slots=4)
    world.settle(worker)
    world.fire(400, Tier.HIGH)
    world.fire(20, Tier.LOW)
    for _ in range(200):
        world.turn(worker, count=10, us=25_000)
        executors.end(executors.running[0])
    tiers = [attempt.work.tier for attempt in executors.submitted]
    assert len(tiers) >= 200
    assert 10 <= tiers.count(Tier.LOW) <= 15, "one of fifteen: MEDIUM has nothing"
