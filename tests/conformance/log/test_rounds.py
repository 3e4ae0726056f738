"""What a transaction shows, to whom, and when."""

from __future__ import annotations

from waterclock.log.port import Isolation, TopicPartition

from .world import (
    WAIT_S,
    LogWorld,
    append_plain,
    committed_round,
    everything,
    message,
    nothing_comes,
    open_round,
    read_to,
    ready_producer,
    values,
)


def test_a_commit_shows_its_records_in_order(world: LogWorld) -> None:
    topic, log = world.new_topic(), world.new_log()
    producer = ready_producer(world, log, world.new_name("txn"))
    tickets = committed_round(producer, [message(topic, word) for word in ("one", "two", "three")])
    records = everything(log, Isolation.COMMITTED, TopicPartition(topic, 0))
    assert values(records) == ["one", "two", "three"]
    assert [record.offset for record in records] == [ticket.offset for ticket in tickets] == [0, 1, 2]


def test_each_partition_keeps_the_order_of_its_appends(world: LogWorld) -> None:
    topic, log = world.new_topic(2), world.new_log()
    producer = ready_producer(world, log, world.new_name("txn"))
    for start in (0, 20):
        committed_round(producer, [message(topic, str(n), partition=n % 2) for n in range(start, start + 20)])
    for partition in (0, 1):
        records = everything(log, Isolation.COMMITTED, TopicPartition(topic, partition))
        assert values(records) == [str(n) for n in range(40) if n % 2 == partition]


def test_a_marker_takes_an_offset(world: LogWorld) -> None:
    topic, log = world.new_topic(), world.new_log()
    producer = ready_producer(world, log, world.new_name("txn"))
    (first,) = committed_round(producer, [message(topic, "one")])
    (second,) = committed_round(producer, [message(topic, "two")])
    assert (first.offset, second.offset) == (0, 2)
    place = TopicPartition(topic, 0)  # a commit returns when it is decided; the marker comes a moment later
    world.advance_or_wait(lambda: log.high_watermark(place) == 4, "the marker of the second round")


def test_an_abort_leaves_a_gap_and_shows_nothing(world: LogWorld) -> None:
    topic, log = world.new_topic(), world.new_log()
    producer = ready_producer(world, log, world.new_name("txn"))
    open_round(world, log, producer, [message(topic, "never"), message(topic, "ever")])
    producer.abort(WAIT_S)
    assert everything(log, Isolation.COMMITTED, TopicPartition(topic, 0)) == []
    (ticket,) = committed_round(producer, [message(topic, "then")])
    assert ticket.offset == 3
    assert values(everything(log, Isolation.COMMITTED, TopicPartition(topic, 0))) == ["then"]


def test_an_uncommitted_reader_sees_open_and_aborted_records(world: LogWorld) -> None:
    topic, log = world.new_topic(), world.new_log()
    producer = ready_producer(world, log, world.new_name("txn"))
    open_round(world, log, producer, [message(topic, "aborted")])
    producer.abort(WAIT_S)
    open_round(world, log, producer, [message(topic, "open")])
    assert values(everything(log, Isolation.UNCOMMITTED, TopicPartition(topic, 0))) == ["aborted", "open"]


def test_an_open_transaction_hides_what_others_write_behind_it(world: LogWorld) -> None:
    topic, log = world.new_topic(), world.new_log()
    place = TopicPartition(topic, 0)
    blocker = ready_producer(world, log, world.new_name("blocker"))
    other = ready_producer(world, log, world.new_name("other"))
    append_plain(world, log, [message(topic, "before")])
    open_round(world, log, blocker, [message(topic, "open")])
    append_plain(world, log, [message(topic, "plain")])
    committed_round(other, [message(topic, "committed")])

    reader = world.keep(log.reader(Isolation.COMMITTED))
    reader.assign({place: 0})
    assert values(read_to(world, reader, place, 1)) == ["before"]
    assert nothing_comes(lambda: reader.poll(10, 0.1))
    assert reader.position(place) == 1
    assert values(everything(log, Isolation.UNCOMMITTED, place)) == ["before", "open", "plain", "committed"]

    blocker.commit(WAIT_S)
    assert values(everything(log, Isolation.COMMITTED, place)) == ["before", "open", "plain", "committed"]


def test_the_high_watermark_counts_an_open_transaction(world: LogWorld) -> None:
    topic, log = world.new_topic(), world.new_log()
    place = TopicPartition(topic, 0)
    producer = ready_producer(world, log, world.new_name("txn"))
    assert log.high_watermark(place) == 0
    open_round(world, log, producer, [message(topic, "one"), message(topic, "two")])
    assert log.high_watermark(place) == 2
    producer.commit(WAIT_S)
    world.advance_or_wait(lambda: log.high_watermark(place) == 3, "the marker")


def test_where_transactions_are_open_is_told_from_outside(world: LogWorld) -> None:
    topic, still, log = world.new_topic(2), world.new_topic(), world.new_log()
    missing = world.new_name("missing")
    producer = ready_producer(world, log, world.new_name("txn"))
    append_plain(world, log, [message(topic, "before", partition=1), message(still, "plain")])
    assert log.open_from([topic, still, missing]) == {}
    open_round(world, log, producer, [message(topic, "one", partition=1), message(topic, "two", partition=1)])
    append_plain(world, log, [message(topic, "behind", partition=1)])
    assert log.open_from([topic, still, missing]) == {TopicPartition(topic, 1): 1}
    producer.commit(WAIT_S)
    world.advance_or_wait(lambda: log.open_from([topic, still, missing]) == {}, "the marker")


def test_an_empty_round_commits_and_aborts(world: LogWorld) -> None:
    topic, log = world.new_topic(), world.new_log()
    producer = ready_producer(world, log, world.new_name("txn"))
    producer.begin()
    producer.commit(WAIT_S)
    producer.begin()
    producer.abort(WAIT_S)
    assert log.high_watermark(TopicPartition(topic, 0)) == 0
    (ticket,) = committed_round(producer, [message(topic, "after")])
    assert ticket.offset == 0
    assert not producer.dirty


def test_a_round_over_several_topics_lands_in_each(world: LogWorld) -> None:
    first, second, log = world.new_topic(), world.new_topic(2), world.new_log()
    producer = ready_producer(world, log, world.new_name("txn"))
    committed_round(producer, [message(first, "a"), message(second, "b"), message(second, "c", partition=1)])
    assert values(everything(log, Isolation.COMMITTED, TopicPartition(first, 0))) == ["a"]
    assert values(everything(log, Isolation.COMMITTED, TopicPartition(second, 0))) == ["b"]
    assert values(everything(log, Isolation.COMMITTED, TopicPartition(second, 1))) == ["c"]
