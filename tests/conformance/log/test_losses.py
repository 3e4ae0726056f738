"""Positions that are not in the log any more, topics that are gone, and records that no partition takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from waterclock.log.port import Committed, Consumer, Isolation, Log, Outgoing, Record, TopicPartition
from waterclock.model.errors import BackendDown, LostResource, NotFound, RequestError, RoundAborted

from .world import (
    WAIT_S,
    LogWorld,
    append_plain,
    committed_round,
    everything,
    joined,
    message,
    nothing_comes,
    open_round,
    read_to,
    ready_producer,
    taken,
    values,
)

LARGEST = 999_900
"""Bytes of key and value that a client of ours sends."""


def alone_with_three(world: LogWorld, log: Log, topic: str) -> Consumer:
    """A consumer of both partitions, of which the first one has three records."""
    append_plain(world, log, [message(topic, str(n)) for n in range(3)])
    consumer = world.keep(log.consumer(world.new_name("group"), [topic]))
    joined(world, consumer, count=2)
    return consumer


def met(world: LogWorld, poll: Callable[[], Sequence[Record]], *, found: list[str]) -> str:
    """Poll until a loss is told; what came before goes to ``found``."""
    said: list[str] = []

    def is_told() -> bool:
        try:
            found.extend(values(poll()))
        except LostResource as loss:
            said.append(str(loss))
        return bool(said)

    world.advance_or_wait(is_told, "LostResource")
    return said[0]


def test_what_others_brought_is_handed_out_beside_a_loss_which_is_told_once(world: LogWorld) -> None:
    topic, log = world.new_topic(2), world.new_log()
    kept, lost = TopicPartition(topic, 0), TopicPartition(topic, 1)
    consumer = alone_with_three(world, log, topic)
    consumer.start({kept: 0, lost: 100})
    found: list[str] = []
    assert f"position 100 of {topic}[1]" in met(world, lambda: consumer.poll(10, 0.1).records, found=found)
    append_plain(world, log, [message(topic, "more"), message(topic, "unread", partition=1)])

    def is_read() -> bool:
        found.extend(values(consumer.poll(10, 0.1).records))
        return len(found) >= 4

    world.advance_or_wait(is_read, "the other partition's records")
    assert nothing_comes(lambda: consumer.poll(10, 0.1).records)
    assert found == ["0", "1", "2", "more"]
    assert consumer.position(lost) is None
    consumer.start({lost: 0})
    assert values(taken(world, consumer, 1)) == ["unread"]


def test_a_reader_is_handed_what_others_brought_and_told_of_a_loss_until_it_is_assigned(world: LogWorld) -> None:
    topic, log = world.new_topic(2), world.new_log()
    kept, lost = TopicPartition(topic, 0), TopicPartition(topic, 1)
    append_plain(world, log, [message(topic, str(n)) for n in range(3)])
    reader = world.keep(log.reader(Isolation.COMMITTED))
    reader.assign({kept: 0, lost: 100})
    found: list[str] = []
    met(world, lambda: reader.poll(10, 0.1), found=found)
    assert reader.position(kept) == len(found), "what it has passed was handed out"
    for _ in range(3):
        with pytest.raises(LostResource):
            reader.poll(10, 0.1)
    reader.assign({kept: len(found), lost: 0})
    found += values(read_to(world, reader, kept, 3))
    assert found == ["0", "1", "2"]


@pytest.mark.parametrize("count", [1, 6])
def test_a_position_in_a_topic_that_was_made_anew_is_a_loss_also_where_the_new_one_is_longer(
    world: LogWorld, count: int
) -> None:
    topic, log = world.new_topic(), world.new_log()
    place = TopicPartition(topic, 0)
    append_plain(world, log, [message(topic, f"old {n}") for n in range(3)])
    reader = world.keep(log.reader(Isolation.COMMITTED))
    reader.assign({place: 0})
    read_to(world, reader, place, 3)
    consumer = world.keep(log.consumer(world.new_name("group"), [topic]))
    joined(world, consumer, count=1)
    consumer.start({place: 0})
    taken(world, consumer, 3)
    world.make_anew(topic)
    append_plain(world, world.new_log("other"), [message(topic, f"new {n}") for n in range(count)])
    found: list[str] = []
    met(world, lambda: consumer.poll(10, 0.1).records, found=found)
    assert found == []

    def reader_is_told() -> bool:
        try:
            assert not reader.poll(10, 0.1)
        except LostResource:
            return True
        return False

    world.advance_or_wait(reader_is_told, "LostResource")


def test_a_topic_that_is_gone_is_silent_and_the_others_go_on(world: LogWorld) -> None:
    topic, other, log = world.new_topic(), world.new_topic(), world.new_log()
    gone, stays = TopicPartition(topic, 0), TopicPartition(other, 0)
    reader = world.keep(log.reader(Isolation.COMMITTED))
    reader.assign({gone: 0, stays: 0})
    consumer = world.keep(log.consumer(world.new_name("group"), [topic, other]))
    joined(world, consumer, count=2)
    consumer.start({gone: 0, stays: 0})
    append_plain(world, log, [message(topic, "one")])
    read_to(world, reader, gone, 1)
    taken(world, consumer, 1)
    world.delete_topic(topic)
    append_plain(world, log, [message(other, "two")])
    assert values(read_to(world, reader, stays, 1)) == ["two"]
    assert values(taken(world, consumer, 1)) == ["two"]
    assert consumer.committed([gone], WAIT_S) == {gone: None}
    with pytest.raises(NotFound):
        log.high_watermark(gone)


def test_a_position_in_a_topic_that_is_gone_aborts_the_round(world: LogWorld) -> None:
    topic, other, log = world.new_topic(), world.new_topic(), world.new_log()
    gone, stays = TopicPartition(topic, 0), TopicPartition(other, 0)
    consumer = world.keep(log.consumer(world.new_name("group"), [topic, other]))
    joined(world, consumer, count=2)
    producer = ready_producer(world, log, world.new_name("txn"))
    world.delete_topic(topic)
    producer.begin()
    with pytest.raises(RoundAborted):
        producer.send_offsets({gone: Committed(1), stays: Committed(1)}, consumer.metadata())
    producer.abort(WAIT_S)
    assert consumer.committed([stays], WAIT_S) == {stays: None}
    producer.begin()
    producer.send_offsets({stays: Committed(1)}, consumer.metadata())
    producer.commit(WAIT_S)


def test_of_a_partition_that_was_not_started_now_nothing_is_told_beyond_where_it_stood(world: LogWorld) -> None:
    """A real client forgets the position in the background: for a moment it tells the old one, which is still true."""
    topic, log = world.new_topic(2), world.new_log()
    one, two = TopicPartition(topic, 0), TopicPartition(topic, 1)
    consumer = alone_with_three(world, log, topic)
    consumer.start({one: 0})
    taken(world, consumer, 3)
    assert consumer.position(one) == 3
    consumer.start({two: 0})
    assert consumer.position(one) in {None, 3}
    append_plain(world, log, [message(topic, "next")])
    assert values(taken(world, consumer, 1)) == ["next"], "and it goes on where it stood"
    assert consumer.position(one) == 4


def test_somebody_outside_is_not_told_half_of_what_a_group_has_committed(world: LogWorld) -> None:
    topic, log, group = world.new_topic(2), world.new_log(), world.new_name("group")
    one, two = TopicPartition(topic, 0), TopicPartition(topic, 1)
    consumer = world.keep(log.consumer(group, [topic]))
    joined(world, consumer, count=2)
    producer = ready_producer(world, world.new_log(transaction_timeout_s=60.0), world.new_name("txn"))
    producer.begin()
    producer.send_offsets({one: Committed(1), two: Committed(2)}, consumer.metadata())
    producer.commit(WAIT_S)
    producer.begin()
    producer.send_offsets({one: Committed(3)}, consumer.metadata())
    with pytest.raises(BackendDown):
        world.new_log("outsider").group_positions(group)
    producer.commit(WAIT_S)
    assert world.new_log("outsider").group_positions(group) == {one: Committed(3), two: Committed(2)}


def test_a_record_for_a_partition_that_there_is_not_is_not_found_and_the_round_stays_usable(world: LogWorld) -> None:
    topic, log = world.new_topic(), world.new_log()
    producer = ready_producer(world, log, world.new_name("txn"))
    open_round(world, log, producer, [message(topic, "before")])
    with pytest.raises(NotFound):
        producer.append(message(topic, "nowhere", partition=1))
    producer.append(message(topic, "after"))
    producer.commit(WAIT_S)
    assert values(everything(log, Isolation.COMMITTED, TopicPartition(topic, 0))) == ["before", "after"]


def test_a_plain_record_for_a_topic_that_there_is_not_is_told_by_the_flush(world: LogWorld) -> None:
    log = world.new_log()
    appender = world.keep(log.appender())
    appender.append(message(world.new_name("missing"), "lost"))
    with pytest.raises(BackendDown):
        appender.flush(1.0)


def test_the_largest_record_is_what_the_client_takes_though_topics_take_more(world: LogWorld) -> None:
    topic, log = world.new_topic(), world.new_log()
    producer = ready_producer(world, log, world.new_name("txn"))
    producer.begin()
    with pytest.raises(RequestError):
        producer.append(Outgoing(topic, b"k", b"x" * 1_000_000, (), 0))
    producer.append(Outgoing(topic, b"k", b"x" * (LARGEST - 1), (), 0))
    producer.commit(WAIT_S)
    (record,) = everything(log, Isolation.COMMITTED, TopicPartition(topic, 0))
    assert len(record.value or b"") == LARGEST - 1
    assert committed_round(producer, [message(topic, "next")])[0].offset == 2
