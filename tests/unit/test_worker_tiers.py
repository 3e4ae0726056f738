"""One tier's consumer, where a real client differs from the one in memory."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from waterclock.workers.positions import ClaimedPositions
from worker_world import World

from waterclock.log.memory import CommitFate
from waterclock.log.memory_consumer import MemoryConsumer
from waterclock.log.port import TopicPartition
from waterclock.model.events import EventKind, RunEvent, Started
from waterclock.model.fold import Fold
from waterclock.model.ids import ordinal
from waterclock.model.job import Tier
from waterclock.wire.codec import decode_work
from waterclock.wire.messages import event_message


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


def test_claims_are_judged_under_the_generation_of_the_log() -> None:
    """Given outcomes under tokens of generation 3, then a second attempt's claim counts for the position."""
    world = World()
    (run_id,) = world.fire(1)
    (record,) = world.dump("t.runs.medium")
    work = decode_work(record.value or b"")
    place = TopicPartition(record.topic, record.partition)

    def put(kind: EventKind, attempt: int, token: int = 0, offset: int = 0) -> int:
        detail = Started(place.topic, place.partition, offset) if kind is EventKind.STARTED else None
        event = RunEvent(kind, work.job_id, run_id, 0, attempt, "w", 0, token, detail=detail)
        return world.put(event_message(world.names, event))

    token = ordinal(3, put(EventKind.STARTED, 1, offset=5))
    put(EventKind.ATTEMPT_LOST, 1, token)
    put(EventKind.RETRYING, 2)
    put(EventKind.STARTED, 2, offset=9)
    for generation, expected in ((3, 10), (0, 6)):
        claimed = ClaimedPositions(world.outside, world.names.run_events, generation, lambda: None)
        assert claimed.rebuild([place]) == {place: expected}


def test_a_backlog_beyond_what_other_roles_hold_does_not_keep_a_worker_from_its_place(monkeypatch) -> None:
    """Given more open runs than a fold holds if nobody says otherwise, then whoever shrinks the backlog can begin."""
    monkeypatch.setitem(Fold.__init__.__kwdefaults__, "open_max", 2)
    world = World()
    world.fire(5)
    (place, *_) = {TopicPartition(record.topic, record.partition) for record in world.dump("t.runs.medium")}
    claimed = ClaimedPositions(world.outside, world.names.run_events, 0, lambda: None)
    assert claimed.rebuild([place]) == {place: 0}
