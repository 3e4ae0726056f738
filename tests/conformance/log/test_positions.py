"""Committed positions with their text, and where a consumer stands."""

from __future__ import annotations

import pytest

from waterclock.log.port import METADATA_MAX, Committed, TopicPartition
from waterclock.model.errors import BackendDown, RoundAborted

from .world import WAIT_S, LogWorld, committed_round, joined, message, open_round, ready_producer, taken, values


def test_a_group_that_never_committed_has_no_position(world: LogWorld) -> None:
    topic, log = world.new_topic(2), world.new_log()
    consumer = world.keep(log.consumer(world.new_name("group"), [topic]))
    joined(world, consumer, count=2)
    places = [TopicPartition(topic, 0), TopicPartition(topic, 1)]
    assert consumer.committed(places, WAIT_S) == dict.fromkeys(places)


def test_a_round_carries_positions_and_their_text(world: LogWorld) -> None:
    topic, log = world.new_topic(2), world.new_log()
    one, two = TopicPartition(topic, 0), TopicPartition(topic, 1)
    consumer = world.keep(log.consumer(world.new_name("group"), [topic]))
    joined(world, consumer, count=2)
    producer = ready_producer(world, log, world.new_name("txn"))
    producer.begin()
    producer.send_offsets({one: Committed(3, "Ünicode cursor"), two: Committed(4)}, consumer.metadata())
    producer.commit(WAIT_S)
    assert consumer.committed([one, two], WAIT_S) == {one: Committed(3, "Ünicode cursor"), two: Committed(4)}

    producer.begin()
    producer.send_offsets({one: Committed(3)}, consumer.metadata())
    producer.commit(WAIT_S)
    assert consumer.committed([one], WAIT_S) == {one: Committed(3)}, "a commit without text erases it"


def test_an_aborted_round_leaves_the_position_that_stood(world: LogWorld) -> None:
    topic, log = world.new_topic(), world.new_log()
    place = TopicPartition(topic, 0)
    consumer = world.keep(log.consumer(world.new_name("group"), [topic]))
    joined(world, consumer, count=1)
    producer = ready_producer(world, log, world.new_name("txn"))
    producer.begin()
    producer.send_offsets({place: Committed(1, "stands")}, consumer.metadata())
    producer.commit(WAIT_S)
    producer.begin()
    producer.send_offsets({place: Committed(2, "falls")}, consumer.metadata())
    producer.abort(WAIT_S)
    assert consumer.committed([place], WAIT_S) == {place: Committed(1, "stands")}


def test_4095_characters_of_text_fit_and_4096_abort_the_round(world: LogWorld) -> None:
    topic, log = world.new_topic(), world.new_log()
    place = TopicPartition(topic, 0)
    consumer = world.keep(log.consumer(world.new_name("group"), [topic]))
    joined(world, consumer, count=1)
    producer = ready_producer(world, log, world.new_name("txn"))
    longest = Committed(1, "x" * METADATA_MAX)
    producer.begin()
    producer.send_offsets({place: longest}, consumer.metadata())
    producer.commit(WAIT_S)
    assert consumer.committed([place], WAIT_S) == {place: longest}

    producer.begin()
    with pytest.raises(RoundAborted):
        producer.send_offsets({place: Committed(2, "x" * (METADATA_MAX + 1))}, consumer.metadata())
    producer.abort(WAIT_S)
    assert consumer.committed([place], WAIT_S) == {place: longest}

    producer.begin()
    producer.send_offsets({place: Committed(2)}, consumer.metadata())
    producer.commit(WAIT_S)
    assert consumer.committed([place], WAIT_S) == {place: Committed(2)}


def test_one_round_carries_positions_of_several_groups(world: LogWorld) -> None:
    topic, log = world.new_topic(), world.new_log()
    place = TopicPartition(topic, 0)
    one = world.keep(log.consumer(world.new_name("one"), [topic]))
    two = world.keep(log.consumer(world.new_name("two"), [topic]))
    joined(world, one, count=1)
    joined(world, two, count=1)
    producer = ready_producer(world, log, world.new_name("txn"))
    producer.begin()
    producer.send_offsets({place: Committed(1, "one")}, one.metadata())
    producer.send_offsets({place: Committed(2, "two")}, two.metadata())
    producer.commit(WAIT_S)
    assert one.committed([place], WAIT_S) == {place: Committed(1, "one")}
    assert two.committed([place], WAIT_S) == {place: Committed(2, "two")}


def test_committed_waits_for_an_open_round(world: LogWorld) -> None:
    topic, log = world.new_topic(), world.new_log()
    place = TopicPartition(topic, 0)
    consumer = world.keep(log.consumer(world.new_name("group"), [topic]))
    joined(world, consumer, count=1)
    producer = ready_producer(world, log, world.new_name("txn"))
    producer.begin()
    producer.send_offsets({place: Committed(1)}, consumer.metadata())
    with pytest.raises(BackendDown):
        consumer.committed([place], 1.0)
    producer.commit(WAIT_S)
    assert consumer.committed([place], WAIT_S) == {place: Committed(1)}


def test_somebody_outside_is_told_who_is_in_a_group_and_who_is_not_any_more(world: LogWorld) -> None:
    topic, group = world.new_topic(), world.new_name("group")
    outsider = world.new_log("outsider")
    assert outsider.members(group) == frozenset()
    here = world.keep(world.new_log().consumer(group, [topic], instance="here"))
    joined(world, here, count=1)
    assert outsider.members(group) == {"here"}
    here.close(leave=True)
    world.advance_or_wait(lambda: outsider.members(group) == frozenset(), "who has left is not named")


def test_a_plain_commit_keeps_its_text_until_one_without_erases_it(world: LogWorld) -> None:
    topic, log = world.new_topic(), world.new_log()
    place = TopicPartition(topic, 0)
    consumer = world.keep(log.consumer(world.new_name("group"), [topic]))
    joined(world, consumer, count=1)
    consumer.commit({place: Committed(6, "text")})
    assert consumer.committed([place], WAIT_S) == {place: Committed(6, "text")}
    consumer.commit({place: Committed(6)})
    assert consumer.committed([place], WAIT_S) == {place: Committed(6)}


def test_a_plain_commit_of_a_stale_generation_is_refused(world: LogWorld) -> None:
    topic, log, group = world.new_topic(2), world.new_log(), world.new_name("group")
    first, second = world.keep(log.consumer(group, [topic])), world.keep(log.consumer(group, [topic]))
    joined(world, first, count=2)

    def second_alone() -> bool:
        second.poll(0, 0.05)
        first.poll(0, 0.05)
        return bool(second.owned())

    world.advance_or_wait(second_alone, "the second member has its share")
    (place,) = second.owned()
    never = world.keep(log.consumer(group, [topic]))
    with pytest.raises(RoundAborted):
        never.commit({place: Committed(1)})
    assert second.committed([place], WAIT_S) == {place: None}


def test_the_position_steps_past_the_marker(world: LogWorld) -> None:
    topic, log = world.new_topic(), world.new_log()
    place = TopicPartition(topic, 0)
    consumer = world.keep(log.consumer(world.new_name("group"), [topic]))
    joined(world, consumer, count=1)
    consumer.start({place: 0})
    assert consumer.position(place) is None
    producer = ready_producer(world, log, world.new_name("txn"))
    committed_round(producer, [message(topic, "one"), message(topic, "two")])
    assert values(taken(world, consumer, 2)) == ["one", "two"]

    def drained() -> bool:
        assert not consumer.poll(10, 0.1).records
        return consumer.position(place) == 3

    world.advance_or_wait(drained, "the position is the high watermark")
    assert log.high_watermark(place) == 3


def test_the_position_steps_past_a_marker_that_is_all_that_is_left(world: LogWorld) -> None:
    topic, log = world.new_topic(), world.new_log()
    place = TopicPartition(topic, 0)
    producer = ready_producer(world, log, world.new_name("txn"))
    committed_round(producer, [message(topic, "one")])
    consumer = world.keep(log.consumer(world.new_name("group"), [topic]))
    joined(world, consumer, count=1)
    consumer.start({place: 1})

    def drained() -> bool:
        assert not consumer.poll(10, 0.1).records
        return consumer.position(place) == 2

    world.advance_or_wait(drained, "the position is the high watermark")


def test_the_position_steps_past_an_aborted_round(world: LogWorld) -> None:
    topic, log = world.new_topic(), world.new_log()
    place = TopicPartition(topic, 0)
    producer = ready_producer(world, log, world.new_name("txn"))
    open_round(world, log, producer, [message(topic, "never"), message(topic, "ever")])
    producer.abort(WAIT_S)
    consumer = world.keep(log.consumer(world.new_name("group"), [topic]))
    joined(world, consumer, count=1)
    consumer.start({place: 0})

    def drained() -> bool:
        assert not consumer.poll(10, 0.1).records
        return consumer.position(place) == 3

    world.advance_or_wait(drained, "the position is the high watermark")


def test_somebody_outside_reads_what_a_group_has_committed(world: LogWorld) -> None:
    topic, log = world.new_topic(2), world.new_log()
    group, one = world.new_name("group"), TopicPartition(topic, 0)
    assert world.new_log("outsider").group_positions(group) == {}
    consumer = world.keep(log.consumer(group, [topic]))
    joined(world, consumer, count=2)
    producer = ready_producer(world, log, world.new_name("txn"))
    producer.begin()
    producer.send_offsets({one: Committed(3, "cursor")}, consumer.metadata())
    producer.commit(WAIT_S)
    assert world.new_log("outsider").group_positions(group) == {one: Committed(3, "cursor")}
