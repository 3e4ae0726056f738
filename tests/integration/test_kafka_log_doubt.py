"""What the real client leaves in doubt when a connection breaks at the worst moment, and what we make of it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing

import pytest
from confluent_kafka import KafkaException, Producer

from tests.conformance.proxy import CuttingProxy, Fate
from tests.conftest import Running, fresh_name
from waterclock.log.kafka import KafkaLog
from waterclock.log.kafka_producer import KafkaProducer
from waterclock.log.kafka_topics import ensure_topics
from waterclock.log.port import Isolation, Outgoing, TopicPartition
from waterclock.log.reading import read_range
from waterclock.model.errors import Fenced, LostResource, RoundInDoubt
from waterclock.wire.names import TopicSpec

pytestmark = pytest.mark.servers


class Place:
    """A broker behind a proxy that cuts, a topic of one partition, and logs on both sides of the proxy."""

    def __init__(self, server: Running, proxy: CuttingProxy, at_end: ExitStack) -> None:
        self.proxy = proxy
        self.topic = fresh_name("doubt")
        self.name = fresh_name("txn")
        self.log = KafkaLog(f"127.0.0.1:{proxy.port}", client_id="through-proxy")
        self.direct = KafkaLog(server.address, client_id="direct")
        self._at_end = at_end
        at_end.callback(self.log.close)
        at_end.callback(self.direct.close)
        ensure_topics(server.address, [TopicSpec(self.topic, 1, {})])

    def producer(self, log: KafkaLog | None = None) -> KafkaProducer:
        producer = (log or self.log).producer(self.name)
        self._at_end.callback(producer.close)
        producer.init(30.0)
        return producer

    def message(self, text: str) -> Outgoing:
        return Outgoing(self.topic, b"k", text.encode(), (), 0)

    def append_open(self, producer: KafkaProducer, text: str) -> None:
        """An open transaction with a record that has reached the broker."""
        partition = TopicPartition(self.topic, 0)
        end = self.direct.high_watermark(partition)
        producer.begin()
        producer.append(self.message(text))
        _until(lambda: self.direct.high_watermark(partition) > end, "the record is on the broker")

    def visible(self) -> list[bytes | None]:
        partition = TopicPartition(self.topic, 0)
        end = self.direct.high_watermark(partition)
        return [record.value for record in read_range(self.direct, Isolation.COMMITTED, partition, 0, end)]


@pytest.fixture
def place(kafka_server: Running) -> Iterator[Place]:
    with (
        ExitStack() as at_end,
        closing(CuttingProxy(kafka_server.host, kafka_server.port)) as proxy,
    ):
        yield Place(kafka_server, proxy, at_end)


@pytest.mark.parametrize("fate", [Fate.LOSE_ANSWER, Fate.LOSE_REQUEST, Fate.DELAY])
def test_a_commit_that_the_client_repeated_lands_and_leaves_the_producer_dirty(place: Place, fate: Fate) -> None:
    producer = place.producer()
    rule = place.proxy.rule(place.name, fate)
    producer.begin()
    producer.append(place.message("once"))
    before = producer.dirty
    producer.commit(10.0)
    assert rule.met.is_set()
    assert (before, producer.dirty) == (False, True)
    with pytest.raises(RoundInDoubt):
        producer.begin()
    assert place.visible() == [b"once"]


def test_a_late_copy_of_a_commit_cannot_end_a_round_of_the_producer_that_took_over(place: Place) -> None:
    producer = place.producer()
    rule = place.proxy.rule(place.name, Fate.DELAY)
    producer.begin()
    producer.append(place.message("first"))
    producer.commit(10.0)
    successor = place.producer()
    place.append_open(successor, "never")
    rule.release()
    successor.abort(10.0)
    assert place.visible() == [b"first"]


def test_the_client_alone_would_commit_what_it_aborts(place: Place) -> None:
    """Why a dirty producer begins nothing. If this fails, KIP-890 has come to the client: look at the rule again."""
    driver = Producer(
        {
            "bootstrap.servers": f"127.0.0.1:{place.proxy.port}",
            "transactional.id": place.name,
            "retry.backoff.ms": 5,
            "log_level": 0,
            "error_cb": lambda _: None,
        }
    )
    driver.init_transactions(30)
    rule = place.proxy.rule(place.name, Fate.DELAY)
    driver.begin_transaction()
    driver.produce(place.topic, b"first", b"k")
    driver.commit_transaction(10)
    driver.begin_transaction()
    driver.produce(place.topic, b"torn", b"k")
    driver.flush(10)
    rule.release()
    with pytest.raises(KafkaException):
        driver.abort_transaction(10)
    assert place.visible() == [b"first", b"torn"]


def test_a_connection_lost_between_rounds_is_noticed_before_the_next(place: Place) -> None:
    producer = place.producer()
    producer.begin()
    producer.append(place.message("before"))
    producer.commit(10.0)
    place.proxy.cut()

    def refused() -> bool:
        try:
            producer.begin()
        except RoundInDoubt:
            return True
        producer.abort(10.0)
        return False

    _until(refused, "the lost connection is noticed")
    assert producer.dirty


def test_no_answer_within_the_time_out_is_doubt_and_the_successor_settles_it(place: Place) -> None:
    producer = place.producer()
    place.append_open(producer, "unknown")
    place.proxy.cut(for_good=True)
    with pytest.raises(RoundInDoubt):
        producer.commit(1.0)
    assert producer.dirty
    with pytest.raises(RoundInDoubt):
        producer.abort(0.5)
    place.producer(place.direct)
    assert place.visible() == []


def test_close_never_waits_for_a_broker_that_does_not_answer(place: Place) -> None:
    producer = place.producer()
    place.append_open(producer, "open")
    place.proxy.cut(for_good=True)
    started = time.monotonic()
    producer.close()
    producer.close()
    assert time.monotonic() - started < 0.5


def test_a_fenced_producer_stays_fenced(place: Place) -> None:
    older = place.producer()
    older.begin()
    older.append(place.message("never"))
    place.producer(place.direct)
    attempts: list[Callable[[], None]] = [
        lambda: older.commit(10.0),
        older.begin,
        lambda: older.append(place.message("x")),
    ]
    for attempt in attempts:
        with pytest.raises(Fenced):
            attempt()
    assert older.dirty
    assert place.visible() == []


def test_what_the_client_says_reaches_the_log(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    producer = place.producer()
    with caplog.at_level(logging.INFO, "waterclock.kafka"):
        place.proxy.cut()
        _until(lambda: _is_dirty(producer), "the cut is heard of")
    assert any("Disconnected" in line for line in caplog.messages)


def _is_dirty(producer: KafkaProducer) -> bool:
    try:
        producer.begin()
        producer.abort(5.0)
    except LostResource:
        return True
    return False


def _until(condition: Callable[[], object], what: str, bound_s: float = 20.0) -> None:
    deadline = time.monotonic() + bound_s
    while not condition():
        assert time.monotonic() < deadline, f"still waiting: {what}"
        time.sleep(0.02)
