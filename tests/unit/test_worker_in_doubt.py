"""A worker in doubt about a round keeps what it runs, also where an open transaction hides a record of that round."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from waterclock.log.memory import CommitFate, MemoryLog
from waterclock.log.memory_consumer import MemoryReader
from waterclock.log.port import Record
from waterclock.model.events import EventKind, RunEvent
from waterclock.model.ids import partition_of
from waterclock.wire.messages import event_message

from .worker_world import World


def test_it_keeps_its_runs_where_another_record_of_the_round_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    poll = MemoryReader.poll

    def waits(reader: MemoryReader, most: int, timeout_s: float) -> Sequence[Record]:
        found = poll(reader, most, timeout_s)
        if not found:
            world.clock.advance(round(timeout_s * 1_000_000))
        return found

    worker, executors = world.worker(slots=8)
    world.settle(worker)
    job = world.fire(4)[0].partition("@")[0]  # the first record is this one's
    monkeypatch.setattr(MemoryReader, "poll", waits)
    dead = MemoryLog(world.cluster, "dead", transaction_timeout_s=20.0).producer("dead")
    dead.init(1)
    dead.begin()
    like_it = next(f"acme:{n}" for n in range(50) if partition_of(f"acme:{n}", 2) == partition_of(job, 2))
    dead.append(event_message(world.names, RunEvent(EventKind.PENDING, like_it, f"{like_it}@20260101T000000Z", 1)))
    world.cluster.faults.next_commit("t.worker.worker-1", CommitFate.UNANSWERED)
    world.turn(worker, count=100)
    assert len(executors.submitted) == 4
    assert executors.forgotten_count == 0
