"""A member that dies inside a round does not keep its partitions waiting until the broker gives its transaction up."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from waterclock.abandoned import Abandoned
from waterclock.clock import ManualClock
from waterclock.log.memory import MemoryCluster, MemoryLog
from waterclock.log.port import Committed, Consumer, Outgoing, Producer, TopicPartition
from waterclock.model.errors import AccessRefused, BackendDown, Fenced
from waterclock.transact import Rounds
from waterclock.wire.names import Names

NAMES, ROLE = Names(), "dispatcher"
SESSION_S = 6.0
A_LONG_TRANSACTION_S = 600.0
EVENT = Outgoing(NAMES.run_events, b"k", b"v")
EVENTS = TopicPartition(NAMES.run_events, 0)
PLACES = [TopicPartition("t", 0), TopicPartition("t", 1)]


class Member:
    """One of the group, moved by hand."""

    def __init__(self, cluster: MemoryCluster, instance: str) -> None:
        self.client = instance
        self.log = MemoryLog(cluster, instance, session_timeout_s=SESSION_S, transaction_timeout_s=A_LONG_TRANSACTION_S)
        self.consumer: Consumer = self.log.consumer(NAMES.group(ROLE), ["t"], instance=instance)
        abandoned = Abandoned(self.log, NAMES, ROLE, instance)
        self.rounds = Rounds(self.log, NAMES.transactional_id(ROLE, instance), abandoned=abandoned)

    def positions(self) -> dict[TopicPartition, Committed | None]:
        return self.rounds.positions(self.consumer, sorted(self.consumer.owned()))

    def sends_records(self) -> Producer:
        """Of a round, and does not come to its positions."""
        producer = self.log.producer(NAMES.transactional_id(ROLE, self.client))
        producer.init(1)
        producer.begin()
        producer.append(EVENT)
        return producer

    def opens_a_round(self) -> Producer:
        """With a position among it, and does not come back to end it."""
        producer = self.log.producer(NAMES.transactional_id(ROLE, self.client))
        producer.init(1)
        producer.begin()
        producer.send_offsets(dict.fromkeys(self.consumer.owned(), Committed(7)), self.consumer.metadata())
        return producer


class Scene:
    """Two members that know of each other."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.cluster = MemoryCluster(self.clock)
        self.cluster.create_topic("t", 2)
        self.cluster.create_topic(NAMES.run_events, 1)
        self.one, self.other = Member(self.cluster, "d-1"), Member(self.cluster, "d-2")
        self.turn(self.one, self.other)
        assert len(self.one.consumer.owned()) == len(self.other.consumer.owned()) == 1
        self.one.positions()
        self.other.positions()

    def turn(self, *members: Member, seconds: float = 1.0) -> None:
        for _ in range(round(seconds / 0.1)):
            for member in members:
                member.rounds.poll(member.consumer, 0, 0.0)
            self.clock.advance(100_000)


def test_who_takes_over_from_a_member_that_is_gone_ends_the_round_that_it_left_open() -> None:
    scene = Scene()
    left_open = scene.other.opens_a_round()  # and is heard of no more
    scene.turn(scene.one, seconds=SESSION_S + 1)
    assert scene.one.consumer.owned() == set(PLACES)
    assert scene.one.positions() == dict.fromkeys(PLACES)
    with pytest.raises(Fenced):
        left_open.commit(1)


def test_a_member_that_is_still_in_the_group_is_waited_for_and_not_fenced() -> None:
    scene = Scene()
    slow = scene.other.opens_a_round()
    (place,) = scene.other.consumer.owned()
    with pytest.raises(BackendDown):
        scene.one.rounds.positions(scene.one.consumer, [place])
    slow.commit(1)
    assert scene.one.rounds.positions(scene.one.consumer, [place]) == {place: Committed(7)}


def test_of_members_whom_a_new_process_has_never_met_it_ends_nothing() -> None:
    scene = Scene()
    scene.other.opens_a_round()
    scene.cluster.kill("d-2")
    scene.cluster.kill("d-1")
    scene.clock.advance(8_000_000)
    late = Member(scene.cluster, "d-3")
    scene.turn(late, seconds=SESSION_S + 1)
    assert late.consumer.owned() == set(PLACES)
    with pytest.raises(BackendDown):
        late.positions()
    scene.clock.advance(round(A_LONG_TRANSACTION_S * 1_000_000))
    scene.turn(late)
    assert late.positions() == dict.fromkeys(PLACES)


def test_who_was_taken_for_dead_before_it_is_back_in_the_group_works_on_with_a_new_producer() -> None:
    scene = Scene()
    scene.other.opens_a_round()
    scene.cluster.kill("d-2")
    scene.turn(scene.one, seconds=SESSION_S + 1)
    back = Member(scene.cluster, "d-2")
    back.rounds.open()  # as after a doubt, and it is no member yet
    assert scene.one.positions() == dict.fromkeys(PLACES)
    third = scene.one.opens_a_round()  # so that somebody waits, and looks for who is gone
    with pytest.raises(BackendDown):
        scene.one.rounds.positions(scene.one.consumer, PLACES)
    third.abort(1)

    scene.turn(scene.one, back)
    (place,) = back.consumer.owned()
    assert back.positions() == {place: None}
    draft = back.rounds.draft()
    draft.advance(back.consumer, place, 3)
    back.rounds.commit(draft)
    assert back.positions() == {place: Committed(3)}


def test_who_takes_over_ends_a_round_that_was_left_open_before_its_positions_were_in_it() -> None:
    scene = Scene()
    left_open = scene.other.sends_records()  # and is heard of no more
    scene.turn(scene.one, seconds=SESSION_S + 1)
    assert scene.one.positions() == dict.fromkeys(PLACES)
    events = scene.cluster.partition(EVENTS)
    assert events.lso == events.high, "nobody waits at it"
    with pytest.raises(Fenced):
        left_open.commit(1)


def test_nobody_is_fenced_merely_for_having_left_the_group() -> None:
    scene = Scene()
    away = scene.other.sends_records()
    away.commit(1)
    scene.turn(scene.one, seconds=SESSION_S + 1)
    scene.one.positions()
    away.begin()
    away.append(EVENT)
    away.commit(1)


def test_rounds_that_end_while_positions_are_asked_for_fence_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene()
    away = scene.other.sends_records()
    away.commit(1)
    scene.turn(scene.one, seconds=SESSION_S + 1)
    of_a_worker = MemoryLog(scene.cluster, "w").producer("w")
    of_a_worker.init(1)
    of_a_worker.begin()
    of_a_worker.append(EVENT)
    told = scene.one.consumer.committed

    def committed(partitions: Sequence[TopicPartition], timeout_s: float) -> dict[TopicPartition, Committed | None]:
        of_a_worker.commit(1)
        of_a_worker.begin()
        of_a_worker.append(EVENT)  # its next one
        return told(partitions, timeout_s)

    monkeypatch.setattr(scene.one.consumer, "committed", committed)
    scene.one.positions()
    away.begin()
    away.append(EVENT)
    away.commit(1)


def test_a_member_that_lives_is_not_fenced_for_what_one_that_is_gone_left_open() -> None:
    scene = Scene()
    third = Member(scene.cluster, "d-0")
    scene.turn(scene.one, scene.other, third)
    for member in (scene.one, scene.other, third):
        member.positions()
    left_open = scene.other.sends_records()
    scene.turn(scene.one, third, seconds=SESSION_S + 1)
    slow = third.sends_records()
    scene.one.positions()
    slow.commit(1)
    with pytest.raises(Fenced):
        left_open.commit(1)


def test_where_it_may_not_be_ended_the_positions_are_told_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene()
    left_open = scene.other.sends_records()
    scene.turn(scene.one, seconds=SESSION_S + 1)

    def refused(rounds: Rounds) -> None:
        if rounds.transactional_id != scene.one.rounds.transactional_id:
            raise AccessRefused("kafka", "init")

    monkeypatch.setattr(Rounds, "open", refused)
    assert scene.one.positions() == dict.fromkeys(PLACES)
    monkeypatch.undo()
    assert scene.one.positions() == dict.fromkeys(PLACES)
    with pytest.raises(Fenced):
        left_open.commit(1)
