"""Taking a partition over: where reading begins, from where on it acts, and which positions may be committed."""

from __future__ import annotations

import pytest

from waterclock.clock import ManualClock
from waterclock.log.following import Beginning, Followed, Position, beginning
from waterclock.log.memory import MemoryLog
from waterclock.log.port import Committed, Outgoing, TopicPartition
from waterclock.model.fold import Fold

TP = TopicPartition("events", 0)


@pytest.fixture
def log() -> MemoryLog:
    made = MemoryLog.alone(ManualClock(), {"events": 1})
    appender = made.appender()
    for _ in range(10):
        appender.append(Outgoing("events", b"k", b"v"))
    return made


def test_a_successor_reads_from_the_fold_and_acts_from_the_committed_position(log: MemoryLog) -> None:
    assert beginning(log, TP, Committed(8, "fold-from=3")) == Beginning(3, 8, is_first=False)


def test_a_first_start_reads_all_and_acts_at_the_end(log: MemoryLog) -> None:
    assert beginning(log, TP, None) == Beginning(0, 10, is_first=True)


def test_lost_metadata_means_everything_kept(log: MemoryLog) -> None:
    assert beginning(log, TP, Committed(8)) == Beginning(0, 8, is_first=False)


def test_what_retention_removed_is_not_asked_for(log: MemoryLog) -> None:
    log.cluster.partition(TP).delete_before(5)
    assert beginning(log, TP, Committed(8, "fold-from=3")).start_at == 5
    assert beginning(log, TP, Committed(2, "fold-from=1")).start_at == 5


def test_nothing_is_committed_before_the_partition_is_live(log: MemoryLog) -> None:
    consumer = log.consumer("g", ["events"])
    assert consumer.poll(1, 0.0).assigned
    consumer.start({TP: 3})
    followed: Followed[object] = Followed(TP, Beginning(3, 8, is_first=False), Fold())
    consumer.poll(4, 0.0)
    followed.has_begun = True
    assert not followed.catch_up(consumer)
    assert followed.to_commit() is None
    consumer.poll(4, 0.0)
    assert followed.catch_up(consumer)
    assert followed.to_commit() == Committed(10, "fold-from=0")


def test_a_position_from_before_the_start_is_never_committed(log: MemoryLog) -> None:
    consumer = log.consumer("g", ["events"])
    assert consumer.poll(1, 0.0).assigned
    consumer.start({TP: 0})
    consumer.poll(9, 0.0)
    stale = Position(TP, 2)  # begun again from 2, while the client still tells 9
    stale.move(consumer)
    assert stale.to_commit() == Committed(2)
