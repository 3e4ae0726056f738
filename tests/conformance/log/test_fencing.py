"""Who is shut out: older producers, older generations; and what a lost answer leaves to be found out."""

from __future__ import annotations

import pytest

from waterclock.log.port import Committed, Consumer, Isolation, Log, Producer, TopicPartition
from waterclock.model.errors import Fenced, RoundAborted, RoundInDoubt

from .world import WAIT_S, LogWorld, committed_round, everything, joined, message, open_round, ready_producer, values


def test_init_fences_the_older_producer_and_aborts_its_transaction(world: LogWorld) -> None:
    topic, log, name = world.new_topic(), world.new_log(), world.new_name("txn")
    place = TopicPartition(topic, 0)
    older = ready_producer(world, log, name)
    open_round(world, log, older, [message(topic, "older")])
    newer = ready_producer(world, world.new_log("successor"), name)
    assert log.high_watermark(place) == 2, "the abort marker is there as soon as init has returned"
    assert everything(log, Isolation.COMMITTED, place) == []
    committed_round(newer, [message(topic, "newer")])
    assert values(everything(log, Isolation.COMMITTED, place)) == ["newer"]


def test_a_zombie_cannot_commit(world: LogWorld) -> None:
    topic, log, name = world.new_topic(), world.new_log(), world.new_name("txn")
    older = ready_producer(world, log, name)
    open_round(world, log, older, [message(topic, "older")])
    ready_producer(world, world.new_log("successor"), name)
    with pytest.raises(Fenced):
        older.commit(WAIT_S)
    assert everything(log, Isolation.COMMITTED, TopicPartition(topic, 0)) == []


def test_a_zombie_cannot_begin_anew(world: LogWorld) -> None:
    topic, log, name = world.new_topic(), world.new_log(), world.new_name("txn")
    older = ready_producer(world, log, name)
    committed_round(older, [message(topic, "older")])
    ready_producer(world, world.new_log("successor"), name)
    with pytest.raises(Fenced):
        committed_round(older, [message(topic, "zombie")])
    with pytest.raises(Fenced):
        older.begin()
    assert values(everything(log, Isolation.UNCOMMITTED, TopicPartition(topic, 0))) == ["older"]


def test_a_transaction_that_outlives_its_time_out_is_aborted_and_its_producer_fenced(world: LogWorld) -> None:
    topic, log = world.new_topic(), world.new_log()
    place = TopicPartition(topic, 0)
    slow = ready_producer(world, world.new_log("slow", transaction_timeout_s=1.0), world.new_name("txn"))
    open_round(world, log, slow, [message(topic, "late")])
    world.advance_or_wait(lambda: log.high_watermark(place) == 2, "the coordinator's abort marker")
    with pytest.raises(Fenced):
        slow.commit(WAIT_S)
    assert everything(log, Isolation.COMMITTED, place) == []


def test_other_ids_are_not_fenced(world: LogWorld) -> None:
    topic, log = world.new_topic(), world.new_log()
    one = ready_producer(world, log, world.new_name("one"))
    open_round(world, log, one, [message(topic, "one")])
    ready_producer(world, log, world.new_name("two"))
    one.commit(WAIT_S)
    assert values(everything(log, Isolation.COMMITTED, TopicPartition(topic, 0))) == ["one"]


def _send_offset(producer: Producer, consumer: Consumer, place: TopicPartition, offset: int) -> None:
    producer.begin()
    producer.send_offsets({place: Committed(offset)}, consumer.metadata())
    producer.commit(WAIT_S)


def test_a_stale_generation_is_refused_and_the_producer_stays_usable(world: LogWorld) -> None:
    topic, log, group = world.new_topic(2), world.new_log(), world.new_name("group")
    output = world.new_topic()
    first = world.keep(log.consumer(group, [topic]))
    joined(world, first, count=2)
    stale = first.metadata()
    second = world.keep(log.consumer(group, [topic]))
    joined(world, first, second, count=2)
    (kept,) = first.owned()

    producer = ready_producer(world, log, world.new_name("txn"))
    producer.begin()
    producer.append(message(output, "stale"))
    with pytest.raises(RoundAborted):
        producer.send_offsets({kept: Committed(1)}, stale)
    producer.abort(WAIT_S)
    assert first.committed([kept], WAIT_S) == {kept: None}
    assert everything(log, Isolation.COMMITTED, TopicPartition(output, 0)) == []

    _send_offset(producer, first, kept, 1)
    assert first.committed([kept], WAIT_S) == {kept: Committed(1)}


def test_a_member_that_has_left_is_refused(world: LogWorld) -> None:
    topic, log, group = world.new_topic(2), world.new_log(), world.new_name("group")
    gone, stays = world.keep(log.consumer(group, [topic])), world.keep(log.consumer(group, [topic]))
    joined(world, gone, stays, count=2)
    (place,) = gone.owned()
    metadata = gone.metadata()
    gone.close(leave=True)
    joined(world, stays, count=2)
    producer = ready_producer(world, log, world.new_name("txn"))
    producer.begin()
    with pytest.raises(RoundAborted):
        producer.send_offsets({place: Committed(1)}, metadata)
    producer.abort(WAIT_S)
    assert stays.committed([place], WAIT_S) == {place: None}


def test_a_member_whose_instance_was_taken_over_is_refused_though_the_generation_is_the_same(world: LogWorld) -> None:
    topic, log, group = world.new_topic(), world.new_log(), world.new_name("group")
    place = TopicPartition(topic, 0)
    zombie = world.keep(log.consumer(group, [topic], instance="slot"))
    joined(world, zombie, count=1)
    metadata = zombie.metadata()
    heir = world.keep(world.new_log("heir").consumer(group, [topic], instance="slot"))
    joined(world, heir, count=1)
    assert heir.metadata().generation == metadata.generation
    producer = ready_producer(world, log, world.new_name("txn"))
    producer.begin()
    with pytest.raises(RoundAborted):
        producer.send_offsets({place: Committed(1)}, metadata)
    producer.abort(WAIT_S)
    assert heir.committed([place], WAIT_S) == {place: None}


def test_a_consumer_that_never_joined_has_no_generation_and_fences_nothing(world: LogWorld) -> None:
    """The trap for which transact refuses a generation below 0: the broker takes these positions."""
    topic, log, group = world.new_topic(), world.new_log(), world.new_name("group")
    place = TopicPartition(topic, 0)
    member = world.keep(log.consumer(group, [topic]))
    joined(world, member, count=1)
    stranger = world.keep(log.consumer(group, [topic]))
    assert stranger.metadata().generation < 0
    assert stranger.metadata().member_id == ""
    assert member.metadata().generation >= 0
    assert member.metadata().member_id
    _send_offset(ready_producer(world, log, world.new_name("txn")), stranger, place, 7)
    assert member.committed([place], WAIT_S) == {place: Committed(7)}


def test_the_broker_never_checks_who_owns_the_partition(world: LogWorld) -> None:
    """The trap for which transact cuts a round to the owned partitions: current membership is all that counts."""
    topic, log, group = world.new_topic(2), world.new_log(), world.new_name("group")
    one, two = world.keep(log.consumer(group, [topic])), world.keep(log.consumer(group, [topic]))
    joined(world, one, two, count=2)
    (of_two,) = two.owned()
    _send_offset(ready_producer(world, log, world.new_name("txn")), one, of_two, 9)
    assert two.committed([of_two], WAIT_S) == {of_two: Committed(9)}


def _round_without_answer(world: LogWorld, log: Log, *, applied: bool) -> tuple[Consumer, TopicPartition, Producer]:
    """A round of one record and one position whose commit got no answer; then a new producer with the same id."""
    topic, group, name = world.new_topic(), world.new_name("group"), world.new_name("txn")
    place = TopicPartition(topic, 0)
    consumer = world.keep(log.consumer(group, [topic]))
    joined(world, consumer, count=1)
    producer = ready_producer(world, log, name)
    world.lose_commit(name, applied=applied)
    open_round(world, log, producer, [message(topic, "doubtful")])
    producer.send_offsets({place: Committed(5, "cursor")}, consumer.metadata())
    assert not producer.dirty
    with pytest.raises(RoundInDoubt):
        producer.commit(2.0)
    assert producer.dirty
    with pytest.raises(RoundInDoubt):
        producer.begin()  # a dirty producer begins nothing
    producer.close()
    return consumer, place, ready_producer(world, log, name)


def test_a_commit_without_answer_that_was_applied_is_found_by_the_successor(world: LogWorld) -> None:
    log = world.new_log()
    consumer, place, successor = _round_without_answer(world, log, applied=True)
    assert consumer.committed([place], WAIT_S) == {place: Committed(5, "cursor")}
    assert values(everything(log, Isolation.COMMITTED, place)) == ["doubtful"]
    assert not successor.dirty
    committed_round(successor, [message(place.topic, "next")])
    assert values(everything(log, Isolation.COMMITTED, place)) == ["doubtful", "next"]


def test_a_commit_that_never_arrived_is_undone_by_the_successor(world: LogWorld) -> None:
    log = world.new_log()
    consumer, place, successor = _round_without_answer(world, log, applied=False)
    assert consumer.committed([place], WAIT_S) == {place: None}
    assert everything(log, Isolation.COMMITTED, place) == []
    committed_round(successor, [message(place.topic, "again")])
    assert values(everything(log, Isolation.COMMITTED, place)) == ["again"]
