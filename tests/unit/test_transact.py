"""What the one round promises, on the log in memory."""

from __future__ import annotations

import pytest

from waterclock.clock import ManualClock
from waterclock.log.memory import CommitFate, MemoryCluster, MemoryLog
from waterclock.log.port import Committed, Isolation, Outgoing, TopicPartition
from waterclock.log.reading import read_range
from waterclock.model.errors import BackendDown, Fenced, RequestError, RoundAborted, RoundInDoubt
from waterclock.transact import Round, Rounds

PLACE = TopicPartition("t", 0)


class World:
    def __init__(self, partitions: int = 1) -> None:
        self.clock = ManualClock()
        self.cluster = MemoryCluster(self.clock)
        self.cluster.create_topic("t", partitions)
        self.log = MemoryLog(self.cluster, "one")

    def values(self) -> list[bytes | None]:
        end = self.cluster.partition(PLACE).lso
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


@pytest.mark.parametrize(("fate", "landed"), [(CommitFate.UNANSWERED, True), (CommitFate.LOST, False)])
def test_any_record_of_a_doubtful_round_tells_where_the_first_stands_behind_an_open_transaction(
    fate: CommitFate, landed: bool
) -> None:
    world = World(partitions=2)
    rounds, draft = _doubtful(world, fate)
    assert rounds.landed(draft) is landed


def test_a_doubt_stays_one_where_open_transactions_hold_all_its_records_back() -> None:
    world = World(partitions=2)
    _left_open(world, 1)
    rounds, draft = _doubtful(world, CommitFate.UNANSWERED)
    with pytest.raises(BackendDown):
        rounds.landed(draft)
    world.clock.advance(60_000_000)
    assert rounds.landed(draft)


def test_a_record_that_was_not_reported_tells_that_its_round_did_not_land() -> None:
    world = World(partitions=2)
    rounds, draft = _doubtful(world, CommitFate.LOST)
    next(iter(reversed(draft.tickets.values()))).offset = None
    assert rounds.landed(draft) is False


def _doubtful(world: World, fate: CommitFate) -> tuple[Rounds, Round]:
    """A round of a record in each partition; the first stands behind a transaction that somebody has left open."""
    _left_open(world, 0)
    rounds = Rounds(world.log, "id")
    rounds.open()
    world.cluster.faults.next_commit("id", fate)
    draft = rounds.draft()
    for number in (0, 1):
        draft.append_tracked(Outgoing("t", b"k", b"a", partition=number))
    with pytest.raises(RoundInDoubt):
        rounds.commit(draft)
    return rounds, draft


def _left_open(world: World, number: int) -> None:
    dead = MemoryLog(world.cluster, f"dead-{number}", transaction_timeout_s=20.0).producer(f"dead-{number}")
    dead.init(1)
    dead.begin()
    dead.append(Outgoing("t", b"k", b"open", partition=number))


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


def test_a_role_that_was_idle_for_a_week_goes_on_with_a_new_producer() -> None:
    world = World()
    rounds = Rounds(world.log, "id")
    rounds.open()
    for number in range(2):
        world.cluster.coordinator.forget_idle()
        draft = rounds.draft()
        draft.append(message(b"a"))
        with pytest.raises(RoundInDoubt):
            rounds.commit(draft)
        rounds.commit(draft)
        assert world.values() == [b"a"] * (number + 1)
        assert rounds.init_count == number + 2


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


def early(world: World, sent: list[Outgoing]) -> Rounds:
    rounds = Rounds(world.log, "id")
    rounds.send_early(sent)
    assert rounds.is_early
    assert world.values() == []
    return rounds


def test_a_round_goes_on_from_what_was_sent_early() -> None:
    world = World()
    sent = [message(b"a"), message(b"b")]
    rounds = early(world, sent)
    draft = rounds.draft()
    draft.extend([Outgoing("t", b"other", b"c"), *sent])
    rounds.commit(draft)
    assert world.values() == [b"a", b"b", b"c"]
    assert not rounds.is_early


def test_what_was_sent_early_and_then_not_decided_is_never_read() -> None:
    for decided in ([], [message(b"a")], [message(b"a"), message(b"b"), message(b"c")]):
        world = World()
        sent = [message(b"a"), message(b"b")]
        rounds = early(world, sent)
        draft = rounds.draft()
        draft.extend(decided)  # equal records, and yet not those that were sent
        rounds.commit(draft)
        assert world.values() == [each.value for each in decided]
        assert not rounds.is_early


def test_what_has_to_stand_before_or_belongs_to_the_same_key_is_not_put_behind() -> None:
    for case in ("ahead", "key", "tracked"):
        world = World()
        sent = [message(b"late")]
        rounds = early(world, sent)
        draft = rounds.draft()
        if case == "ahead":
            draft.go_ahead([Outgoing("t", b"control", b"first")])
        elif case == "key":
            draft.append(message(b"first"))
        else:
            draft.append_tracked(Outgoing("t", b"tracked", b"first"))
        draft.extend(sent)
        rounds.commit(draft)
        assert world.values() == [b"first", b"late"], case


def test_what_was_sent_early_can_be_given_up_and_a_doubt_leaves_nothing_of_it() -> None:
    world = World()
    rounds = early(world, [message(b"a")])
    rounds.give_up_early()
    rounds.give_up_early()
    sent = [message(b"b")]
    rounds.send_early(sent)
    with pytest.raises(RuntimeError, match="already"):
        rounds.send_early(sent)
    draft = rounds.draft()
    draft.extend(sent)
    world.cluster.faults.next_commit("id", CommitFate.LOST)
    with pytest.raises(RoundInDoubt):
        rounds.commit(draft)
    assert not rounds.is_early
    assert rounds.init_count == 2
    rounds.commit(draft)
    assert world.values() == [b"b"]


def test_a_rebalance_gives_up_what_was_sent_early() -> None:
    world = World()
    world.cluster.create_topic("in", 2)
    rounds = Rounds(world.log, "id")
    mine = world.log.consumer("g", ["in"], instance="one")
    while len(mine.owned()) < 2:
        rounds.poll(mine, 1, 0.0)
        mine.start({TopicPartition("in", number): 0 for number in range(2)})
    rounds.send_early([message(b"a")])
    other = MemoryLog(world.cluster, "two").consumer("g", ["in"], instance="two")
    for _ in range(10):
        other.poll(1, 0.0)
        rounds.poll(mine, 1, 0.0)
    assert len(mine.owned()) == 1
    assert not rounds.is_early
    assert world.cluster.partition(PLACE).lso == world.log.high_watermark(PLACE)
