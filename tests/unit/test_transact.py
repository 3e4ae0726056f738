"""What the one round promises, on the log in memory."""

from __future__ import annotations

import pytest

from waterclock.clock import ManualClock
from waterclock.log.memory import CommitFate, MemoryCluster, MemoryLog
from waterclock.log.port import Committed, Isolation, Outgoing, TopicPartition
from waterclock.log.reading import read_range
from waterclock.model.errors import Fenced, RequestError, RoundAborted, RoundInDoubt
from waterclock.transact import Rounds

PLACE = TopicPartition("t", 0)


class World:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.cluster = MemoryCluster(self.clock)
        self.cluster.create_topic("t", 1)
        self.log = MemoryLog(self.cluster, "one")

    def values(self) -> list[bytes | None]:
        end = self.log.high_watermark(PLACE)
        return [record.value for record in read_range(self.log, Isolation.COMMITTED, PLACE, 0, end)]


def message(value: bytes) -> Outgoing:
    return Outgoing("t", b"k", value)


def test_a_doubtful_round_is_settled_by_reading_one_record_back() -> None:
    for fate, landed in ((CommitFate.UNANSWERED, True), (CommitFate.LOST, False)):
        world = World()
        rounds = Rounds(world.log, "id")
        rounds.open()
        world.cluster.faults.next_commit("id", fate)
        draft = rounds.draft()
        draft.append_tracked(message(b"a"))
        with pytest.raises(RoundInDoubt):
            rounds.commit(draft)
        assert rounds.init_count == 2
        assert rounds.landed(draft) is landed
        assert world.values() == ([b"a"] if landed else [])


def test_a_round_goes_on_with_the_same_producer_after_a_clean_abort() -> None:
    world = World()
    rounds = Rounds(world.log, "id")
    rounds.open()
    world.cluster.faults.next_commit("id", CommitFate.ABORTS)
    draft = rounds.draft()
    draft.append(message(b"a"))
    with pytest.raises(RoundAborted):
        rounds.commit(draft)
    again = rounds.draft()
    again.append(message(b"b"))
    rounds.commit(again)
    assert world.values() == [b"b"]
    assert rounds.init_count == 1


def test_a_record_that_no_broker_takes_leaves_no_transaction_open() -> None:
    world = World()
    rounds = Rounds(world.log, "id")
    rounds.open()
    draft = rounds.draft()
    draft.append(message(b"a"))
    draft.append(message(b"x" * 2_000_000))
    with pytest.raises(RequestError):
        rounds.commit(draft)
    again = rounds.draft()
    again.append(message(b"b"))
    rounds.commit(again)
    assert world.values() == [b"b"]


def test_a_twin_fences_and_the_older_one_never_fences_back() -> None:
    world = World()
    older = Rounds(world.log, "id")
    older.open()
    Rounds(MemoryLog(world.cluster, "two"), "id").open()
    draft = older.draft()
    draft.append(message(b"a"))
    with pytest.raises(Fenced):
        older.commit(draft)
    assert world.values() == []


def test_offsets_of_a_membership_that_changed_are_refused() -> None:
    world = World()
    rounds = Rounds(world.log, "id")
    consumer = world.log.consumer("g", ["t"])
    rounds.poll(consumer, 10, 0)
    draft = rounds.draft()
    draft.advance(consumer, PLACE, 0)
    other = world.log.consumer("g", ["t"])
    other.poll(0, 0)
    rounds.poll(consumer, 10, 0)
    with pytest.raises(RoundAborted):
        rounds.commit(draft)
    assert rounds.positions(consumer, [PLACE]) == {PLACE: None}


def test_offsets_without_a_membership_are_refused() -> None:
    world = World()
    rounds = Rounds(world.log, "id")
    consumer = world.log.consumer("g", ["t"])
    draft = rounds.draft()
    draft.append(message(b"a"))
    draft.advance(consumer, PLACE, 5)
    with pytest.raises(RoundAborted):
        rounds.commit(draft)
    assert world.values() == []


def test_records_and_positions_land_together() -> None:
    world = World()
    rounds = Rounds(world.log, "id")
    consumer = world.log.consumer("g", ["t"])
    rounds.poll(consumer, 10, 0)
    draft = rounds.draft()
    draft.append(message(b"a"))
    draft.advance(consumer, PLACE, 0, "cursor")
    rounds.commit(draft)
    assert world.values() == [b"a"]
    assert rounds.positions(consumer, [PLACE]) == {PLACE: Committed(0, "cursor")}
