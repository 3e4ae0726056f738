"""One tier's consumer, where a real client differs from the one in memory."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from worker_world import World

from waterclock.log.memory import CommitFate, MemoryLog
from waterclock.log.memory_consumer import MemoryConsumer
from waterclock.log.port import Committed, TopicPartition
from waterclock.model.errors import BackendDown
from waterclock.model.ids import job_of_run, partition_of
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


def test_the_open_round_of_a_worker_that_died_costs_no_other_what_it_runs() -> None:
    """Given a broker that ends it late: the positions in it are waited for, and everything else goes on meanwhile."""
    world = World()
    worker, executors = world.worker("worker-1")
    other, _ = world.worker("worker-2")
    world.turn(worker, other, count=10)
    world.fire(8)
    world.turn(worker, other, count=10)
    runs = list(executors.running)
    (place,) = other._tiers[Tier.MEDIUM]._consumer.owned()
    log = MemoryLog(world.cluster, "worker-2/", transaction_timeout_s=60.0)
    died = log.producer("t.worker.worker-2")
    died.init(1.0)
    died.begin()
    died.send_offsets({place: Committed(world.outside.high_watermark(place))}, other._tiers[1]._consumer.metadata())
    world.turn(worker, count=600)
    assert place in worker._tiers[Tier.MEDIUM]._consumer.owned()

    executors.end(runs[0])
    fresh = [run_id for run_id in world.fire(14) if partition_of(job_of_run(run_id), 2) != place.partition]
    world.turn(worker, count=50)
    assert world.succeeded() == [runs[0].work.run_id]
    assert set(fresh[:5]) <= {attempt.work.run_id for attempt in executors.running}
    world.turn(worker, count=1_000)
    assert executors.forgotten_count == 0

    executors.end_all()
    died.commit(1.0)
    world.turn(worker, count=50)
    executors.end_all()
    world.turn(worker, count=50)
    assert world.lag(Tier.MEDIUM) == 0


def test_what_a_client_goes_on_with_before_it_is_started_again_is_not_taken(monkeypatch) -> None:
    """Given a round that was void, and a broker that does not tell the positions at once: nothing is passed over."""
    world = World()
    worker, executors = world.worker(slots=4)
    world.settle(worker)
    run_ids = world.fire(12)
    world.cluster.faults.next_commit("t.worker.worker-1", CommitFate.ABORTS)
    world.turn(worker)
    assert executors.submitted == []

    def silent(*_: object) -> None:
        raise BackendDown("kafka", "no answer")

    with monkeypatch.context() as patched:
        patched.setattr(MemoryConsumer, "committed", silent)
        world.turn(worker, count=20)
    assert world.started() == []
    for _ in range(20):
        world.turn(worker, count=5)
        executors.end_all()
    assert world.started() == sorted(run_ids)
