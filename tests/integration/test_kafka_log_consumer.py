"""The consumer on a real broker: what the conformance suite cannot see because it has to do with prefetching."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from tests.conftest import Running, fresh_name
from waterclock.log.kafka import KafkaLog
from waterclock.log.kafka_consumer import HELD_MAX, KafkaConsumer
from waterclock.log.kafka_topics import ensure_topics
from waterclock.log.port import Isolation, Outgoing, TopicPartition
from waterclock.log.reading import read_range
from waterclock.model.errors import BackendDown, Fenced, LostResource, NotFound, RequestError
from waterclock.wire.names import TopicSpec

pytestmark = pytest.mark.servers

_PARTITIONS = 4


@pytest.fixture
def log(kafka_server: Running) -> Iterator[KafkaLog]:
    log = KafkaLog(kafka_server.address, client_id="consumer-test", session_timeout_s=6)
    yield log
    log.close()


@pytest.fixture
def topic(kafka_server: Running) -> str:
    name = fresh_name("consumer")
    ensure_topics(kafka_server.address, [TopicSpec(name, _PARTITIONS, {})])
    return name


def test_start_delivers_nothing_stale_and_leaves_no_gap_under_load(log: KafkaLog, topic: str) -> None:
    """Whatever was fetched ahead: after each start every partition goes on exactly from its position."""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    dice = random.Random(seed)
    each = 5_000
    _fill(log, topic, each)
    consumer = _owner(log, topic)
    expected = {TopicPartition(topic, p): 0 for p in range(_PARTITIONS)}
    consumer.start(expected)
    taken = starts = 0
    deadline = time.monotonic() + 60
    while starts < 60 or any(offset < each for offset in expected.values()):
        assert time.monotonic() < deadline
        for record in consumer.poll(dice.choice([1, 7, 500]), 0.1).records:
            at = TopicPartition(record.topic, record.partition)
            assert record.offset == expected[at], (at, record.offset, expected[at])
            expected[at] += 1
            taken += 1
        if dice.random() < 0.2:
            consumer.poll(0, 0.0)  # sets a record aside
        if starts < 60 and dice.random() < 0.3:
            moved = {at: dice.randrange(each) for at in dice.sample(sorted(expected), dice.randint(1, _PARTITIONS))}
            consumer.start(moved)
            expected.update(moved)
            starts += 1
    assert taken >= each
    consumer.close(leave=True)


def test_polls_without_room_lose_nothing_and_keep_the_order(log: KafkaLog, topic: str) -> None:
    each = 700
    _fill(log, topic, each)
    consumer = _owner(log, topic)
    consumer.start({TopicPartition(topic, p): 0 for p in range(_PARTITIONS)})
    for _ in range(HELD_MAX + 200):  # beyond the bound: from there on the fetching is paused
        assert not consumer.poll(0, 0.002).records
    seen: dict[int, list[int]] = {p: [] for p in range(_PARTITIONS)}

    def all_there() -> bool:
        for record in consumer.poll(300, 0.1).records:
            seen[record.partition].append(record.offset)
        return sum(map(len, seen.values())) >= each * _PARTITIONS

    _until(all_there, "everything is delivered")
    assert seen == {p: list(range(each)) for p in range(_PARTITIONS)}
    consumer.close(leave=True)


def test_a_bad_position_takes_no_good_record_with_it(log: KafkaLog, topic: str) -> None:
    _fill(log, topic, 100)
    consumer = _owner(log, topic)
    consumer.start({TopicPartition(topic, p): 0 if p else 5_000 for p in range(_PARTITIONS)})
    seen: list[int] = []
    losses: list[LostResource] = []

    def both() -> bool:
        try:
            seen.extend(record.partition for record in consumer.poll(50, 0.1).records)
        except LostResource as lost:
            losses.append(lost)
        return len(seen) >= 300 and bool(losses)

    _until(both, "the good partitions and the loss")
    assert sorted(seen) == [1] * 100 + [2] * 100 + [3] * 100
    assert f"{topic}[0]" in str(losses[0])
    consumer.close(leave=True)


def test_the_older_of_two_with_one_instance_name_is_fenced_for_good(log: KafkaLog, topic: str) -> None:
    group = fresh_name("group")
    older = _owner(log, topic, group=group, instance="slot-1")
    newer = _owner(log, topic, group=group, instance="slot-1")

    def is_fenced() -> bool:
        try:
            older.poll(1, 0.1)
        except Fenced:
            return True
        return False

    _until(is_fenced, "the older member is fenced")
    for _ in range(3):
        with pytest.raises(Fenced):
            older.poll(1, 0.0)
    older.close()
    newer.close(leave=True)


def test_a_static_member_that_leaves_frees_its_partitions_at_once(log: KafkaLog, topic: str) -> None:
    group = fresh_name("group")
    _owner(log, topic, group=group, instance="slot-1").close(leave=True)
    started = time.monotonic()
    successor = _owner(log, topic, group=group, instance="slot-2")
    assert time.monotonic() - started < 4.0  # the session is 6 s
    successor.close(leave=True)


def test_a_paused_consumer_keeps_its_membership_and_its_place(log: KafkaLog, topic: str) -> None:
    _fill(log, topic, 50)
    consumer = _owner(log, topic)
    consumer.pause()
    consumer.start({TopicPartition(topic, p): 0 for p in range(_PARTITIONS)})
    for _ in range(10):
        assert not consumer.poll(10, 0.05).records
    consumer.resume()
    count = 0

    def all_there() -> bool:
        nonlocal count
        count += len(consumer.poll(500, 0.1).records)
        return count >= 50 * _PARTITIONS

    _until(all_there, "everything comes after resume")
    assert count == 50 * _PARTITIONS
    consumer.close(leave=True)


def test_a_poll_lingers_for_what_comes_behind_the_first(log: KafkaLog, topic: str) -> None:
    consumer = _owner(log, topic)
    consumer.start({TopicPartition(topic, p): 0 for p in range(_PARTITIONS)})
    appender = log.appender()

    def append(value: bytes) -> None:
        appender.append(Outgoing(topic, b"k", value, (), 0))
        appender.flush(10.0)

    later = [threading.Timer(at_s, append, (b"%d" % at_s,)) for at_s in (1, 2, 4)]
    for each in later:
        each.start()
    assert [record.value for record in consumer.poll(500, 10.0, 3.0).records] == [b"1", b"2"], "from the call on"
    assert [record.value for record in consumer.poll(500, 10.0, 0.0).records] == [b"4"], "the first, at once"
    for each in later:
        each.join()
    appender.close()
    consumer.close(leave=True)


def test_questions_about_what_does_not_exist_say_so(log: KafkaLog) -> None:
    with pytest.raises(NotFound):
        log.partitions("no-such-topic")
    with pytest.raises(NotFound):
        log.high_watermark(TopicPartition("no-such-topic", 0))


def test_without_a_broker_everything_is_down_within_its_bound() -> None:
    log = KafkaLog("127.0.0.1:1", client_id="nobody")
    producer = log.producer("nobody")
    with pytest.raises(BackendDown):
        producer.init(0.5)
    producer.close()
    consumer = log.consumer("nobody", ["nothing"])
    with pytest.raises(BackendDown):
        consumer.committed([TopicPartition("nothing", 0)], 0.5)

    def is_down() -> bool:
        try:
            consumer.poll(1, 0.1)
        except BackendDown:
            return True
        return False

    _until(is_down, "a poll says that no broker is there")
    consumer.close()
    appender = log.appender()
    appender.append(Outgoing("nothing", b"k", b"v"))
    with pytest.raises(BackendDown):
        appender.flush(0.5)
    appender.close()
    log.close()


def test_topics_are_made_once_and_another_number_of_partitions_is_refused(kafka_server: Running) -> None:
    name = fresh_name("topics")
    assert ensure_topics(kafka_server.address, [TopicSpec(name, 2, {"cleanup.policy": "compact"})]) == [name]
    assert ensure_topics(kafka_server.address, [TopicSpec(name, 2, {})]) == []
    with pytest.raises(RequestError, match="has 2 partitions, not 4"):
        ensure_topics(kafka_server.address, [TopicSpec(name, 4, {})])
    with pytest.raises(RequestError, match="cannot be made"):
        ensure_topics(kafka_server.address, [TopicSpec(f"{name}x", 1, {"no.such.setting": "1"})])


def test_a_reader_takes_headers_only_when_asked(log: KafkaLog, topic: str) -> None:
    appender = log.appender()
    appender.append(Outgoing(topic, b"k", None, (("a", b"1"), ("a", b"2")), 0))
    appender.flush(10.0)
    appender.close()
    for asked, expected in ((True, (("a", b"1"), ("a", b"2"))), (False, ())):
        (record,) = read_range(log, Isolation.COMMITTED, TopicPartition(topic, 0), 0, 1, headers=asked)
        assert record.headers == expected
        assert record.value is None


def _fill(log: KafkaLog, topic: str, each: int) -> None:
    appender = log.appender()
    for n in range(each):
        for p in range(_PARTITIONS):
            appender.append(Outgoing(topic, b"k", b"%d" % n, (), p))
    appender.flush(30.0)
    appender.close()


def _owner(log: KafkaLog, topic: str, *, group: str | None = None, instance: str | None = None) -> KafkaConsumer:
    consumer = log.consumer(group or fresh_name("group"), [topic], instance=instance)

    def owns() -> bool:
        consumer.poll(1, 0.05)
        return len(consumer.owned()) == _PARTITIONS

    _until(owns, "all partitions are assigned")
    return consumer


def _until(condition: Callable[[], object], what: str, bound_s: float = 30.0) -> None:
    deadline = time.monotonic() + bound_s
    while not condition():
        assert time.monotonic() < deadline, f"still waiting: {what}"
