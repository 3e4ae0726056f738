"""What a record is after it went through the log: place, order, bytes, headers and times; and the log's own figures."""

from __future__ import annotations

import pytest

from waterclock.log.port import Isolation, Outgoing, TopicPartition
from waterclock.log.reading import newest_by_key
from waterclock.model.errors import NotFound, RequestError, RoundInDoubt
from waterclock.model.ids import US_PER_S, partition_of

from .world import (
    WAIT_S,
    LogWorld,
    append_plain,
    committed_round,
    everything,
    joined,
    message,
    open_round,
    read_to,
    ready_producer,
    taken,
    values,
)


def test_a_key_goes_to_the_partition_that_the_ids_name(world: LogWorld) -> None:
    topic, log = world.new_topic(8), world.new_log()
    keys = [f"tenant-{n % 3}:job-{n}" for n in range(100)] + ["x", "acme:münchen"]
    tickets = append_plain(world, log, [message(topic, key, key=key, partition=None) for key in keys])
    assert [ticket.partition for ticket in tickets] == [partition_of(key, 8) for key in keys]
    for partition in range(8):
        found = everything(log, Isolation.COMMITTED, TopicPartition(topic, partition))
        assert values(found) == [key for key in keys if partition_of(key, 8) == partition]


def test_a_tracked_record_of_a_round_knows_its_place(world: LogWorld) -> None:
    topic, log = world.new_topic(8), world.new_log()
    producer = ready_producer(world, log, world.new_name("txn"))
    (ticket,) = committed_round(producer, [message(topic, "value", key="acme:nightly", partition=None)])
    assert (ticket.partition, ticket.offset) == (partition_of("acme:nightly", 8), 0)


def test_bytes_and_headers_come_back_as_they_were(world: LogWorld) -> None:
    topic, log = world.new_topic(), world.new_log()
    place = TopicPartition(topic, 0)
    headers = (("ce_id", b"a"), ("ce_id", b"b"), ("empty", b""), ("text", "é".encode()))
    sent = Outgoing(topic, b"\x00key", b"\xc3\x01\x00\xff", headers, 0)
    append_plain(world, log, [sent])
    committed_round(ready_producer(world, log, world.new_name("txn")), [sent])
    for record in everything(log, Isolation.COMMITTED, place, headers=True):
        assert (record.topic, record.partition) == place
        assert (record.key, record.value, record.headers) == (sent.key, sent.value, headers)
    plain = everything(log, Isolation.COMMITTED, place)
    assert len(plain) == 2
    assert all(record.headers == () for record in plain), "a reader opened without headers has none"


def test_a_consumer_gets_headers_only_if_it_asked(world: LogWorld) -> None:
    topic, log = world.new_topic(), world.new_log()
    place = TopicPartition(topic, 0)
    append_plain(world, log, [Outgoing(topic, b"k", b"v", (("kind", b"x"),), 0)])
    for wanted, expected in ((True, (("kind", b"x"),)), (False, ())):
        consumer = world.keep(log.consumer(world.new_name("group"), [topic], headers=wanted))
        joined(world, consumer, count=1)
        consumer.start({place: 0})
        (record,) = taken(world, consumer, 1)
        assert record.headers == expected


def test_a_null_value_is_kept_apart_from_an_empty_one(world: LogWorld) -> None:
    topic, log = world.new_topic(), world.new_log()
    append_plain(world, log, [Outgoing(topic, b"k", None, (), 0), Outgoing(topic, b"k", b"", (), 0)])
    found = everything(log, Isolation.COMMITTED, TopicPartition(topic, 0))
    assert [record.value for record in found] == [None, b""]


@pytest.mark.parametrize("append_time", [True, False], ids=["append_time", "create_time"])
def test_record_times_are_microseconds_and_never_go_back(world: LogWorld, append_time: bool) -> None:
    topic, log = world.new_topic(append_time=append_time), world.new_log()
    place = TopicPartition(topic, 0)
    for n in range(3):
        append_plain(world, log, [message(topic, str(n))])
    times = [record.timestamp_us for record in everything(log, Isolation.COMMITTED, place)]
    assert times == sorted(times)
    assert 1_600_000_000 * US_PER_S < times[0] < 4_000_000_000 * US_PER_S
    assert all(at % 1_000 == 0 for at in times), "Kafka counts milliseconds"


def test_the_offset_at_a_time_is_the_first_record_not_older(world: LogWorld) -> None:
    topic, log = world.new_topic(append_time=True), world.new_log()
    place = TopicPartition(topic, 0)
    append_plain(world, log, [message(topic, "old")])
    first = everything(log, Isolation.COMMITTED, place)[0].timestamp_us

    def is_later() -> bool:
        append_plain(world, log, [message(topic, "new")])
        return everything(log, Isolation.COMMITTED, place)[-1].timestamp_us > first

    world.advance_or_wait(is_later, "a record of a later millisecond")
    records = everything(log, Isolation.COMMITTED, place)
    last_at = records[-1].timestamp_us
    assert log.offset_at(place, 0) == 0
    assert log.offset_at(place, first) == 0
    assert log.offset_at(place, last_at) == next(r.offset for r in records if r.timestamp_us >= last_at)
    assert log.offset_at(place, last_at - 999) == log.offset_at(place, last_at), "between two milliseconds"
    assert log.offset_at(place, last_at + 1) == log.high_watermark(place) == len(records)


def test_the_offset_at_a_time_does_not_stop_at_an_open_transaction(world: LogWorld) -> None:
    topic, log = world.new_topic(append_time=True), world.new_log()
    place = TopicPartition(topic, 0)
    producer = ready_producer(world, log, world.new_name("txn"))
    open_round(world, log, producer, [message(topic, "open")])
    assert log.offset_at(place, 0) == 0
    assert log.offset_at(place, 4_000_000_000 * US_PER_S) == log.high_watermark(place) == 1
    producer.commit(WAIT_S)


def test_the_low_watermark_follows_retention(world: LogWorld) -> None:
    topic, log = world.new_topic(), world.new_log()
    place = TopicPartition(topic, 0)
    assert log.low_watermark(place) == 0
    append_plain(world, log, [message(topic, str(n)) for n in range(5)])
    world.delete_records(place, 3)
    assert log.low_watermark(place) == 3
    assert log.high_watermark(place) == 5
    assert values(everything(log, Isolation.COMMITTED, place)) == ["3", "4"]


def test_of_compacted_state_the_last_value_wins(world: LogWorld) -> None:
    topic, log = world.new_topic(compact=True), world.new_log()
    place = TopicPartition(topic, 0)
    producer = ready_producer(world, log, world.new_name("txn"))
    for n in range(3):
        committed_round(producer, [message(topic, f"a{n}", key="a"), message(topic, f"b{n}", key="b")])
    open_round(world, log, producer, [message(topic, "never", key="a")])
    producer.abort(WAIT_S)
    committed_round(producer, [Outgoing(topic, b"b", None, (), 0), message(topic, "c", key="c")])
    committed_round(producer, [message(topic, "a3", key="a")])
    for _ in range(2):
        assert list(newest_by_key(log, place).items()) == [("c", b"c"), ("a", b"a3")], "in the order of their writing"
        world.clean(topic)


def test_a_reader_position_moves_past_gaps_and_markers(world: LogWorld) -> None:
    topic, log = world.new_topic(), world.new_log()
    place = TopicPartition(topic, 0)
    producer = ready_producer(world, log, world.new_name("txn"))
    committed_round(producer, [message(topic, "one")])
    open_round(world, log, producer, [message(topic, "never")])
    producer.abort(WAIT_S)
    for isolation, expected in ((Isolation.COMMITTED, ["one"]), (Isolation.UNCOMMITTED, ["one", "never"])):
        reader = world.keep(log.reader(isolation))
        reader.assign({place: 0})
        assert reader.position(place) == 0
        assert values(read_to(world, reader, place, 4)) == expected
        assert reader.position(place) == 4
    assert log.high_watermark(place) == 4


def test_assign_replaces_what_was_assigned_before(world: LogWorld) -> None:
    topic, log = world.new_topic(2), world.new_log()
    append_plain(world, log, [message(topic, "zero"), message(topic, "one", partition=1)])
    reader = world.keep(log.reader(Isolation.COMMITTED))
    for partition, expected in ((0, "zero"), (1, "one"), (0, "zero")):
        place, other = TopicPartition(topic, partition), TopicPartition(topic, 1 - partition)
        reader.assign({other: 0})
        reader.assign({place: 0})
        assert values(read_to(world, reader, place, 1)) == [expected]


def test_what_does_not_exist_is_not_found(world: LogWorld) -> None:
    topic, log = world.new_topic(2), world.new_log()
    assert log.partitions(topic) == 2
    missing = world.new_name("missing")
    with pytest.raises(NotFound):
        log.partitions(missing)
    with pytest.raises(NotFound):
        log.high_watermark(TopicPartition(missing, 0))
    with pytest.raises(NotFound):
        log.low_watermark(TopicPartition(topic, 2))


def test_an_oversized_record_is_refused_and_the_round_stays_usable(world: LogWorld) -> None:
    topic, log = world.new_topic(), world.new_log()
    producer = ready_producer(world, log, world.new_name("txn"))
    producer.begin()
    producer.append(message(topic, "before"))
    with pytest.raises(RequestError):
        producer.append(message(topic, "x" * 2_000_000))
    producer.append(message(topic, "after"))
    producer.commit(WAIT_S)
    assert values(everything(log, Isolation.COMMITTED, TopicPartition(topic, 0))) == ["before", "after"]


def test_a_round_with_a_record_for_an_unknown_topic_never_commits(world: LogWorld) -> None:
    topic, log, name = world.new_topic(), world.new_log(), world.new_name("txn")
    producer = ready_producer(world, log, name)
    open_round(world, log, producer, [message(topic, "innocent")])
    producer.append(message(world.new_name("missing"), "lost"))
    with pytest.raises(RoundInDoubt):
        producer.commit(1.0)
    assert producer.dirty
    producer.close()
    ready_producer(world, log, name)
    assert everything(log, Isolation.COMMITTED, TopicPartition(topic, 0)) == []


def test_a_reader_that_goes_back_stands_there_at_once(world: LogWorld) -> None:
    """While records keep coming: the client clears in the background where it stood before."""
    topic, log = world.new_topic(), world.new_log()
    place, appender = TopicPartition(topic, 0), world.keep(log.appender())
    reader = world.keep(log.reader(Isolation.COMMITTED))
    reader.assign({place: 0})
    for turn in range(150):
        appender.append(message(topic, f"value {turn}"))
        appender.flush(WAIT_S)
        read_to(world, reader, place, turn + 1)
        appender.append(message(topic, "one more is on its way")) if turn % 2 else None
        reader.assign({place: 0})
        assert reader.position(place) == 0
