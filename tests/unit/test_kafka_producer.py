"""Producers whose client has died in the background: the next record hears it from the client's news, not from its own
refusal, which is the same for every death."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Message

from waterclock.log import kafka_appender, kafka_producer
from waterclock.log.kafka_appender import KafkaAppender
from waterclock.log.kafka_producer import KafkaProducer
from waterclock.log.port import Outgoing
from waterclock.model.errors import AccessRefused, BackendDown, Fenced, RoundAborted, RoundInDoubt

RECORD = Outgoing("t", b"k", b"v")


class PickyDriver:
    """Takes everything; reports at a flush alone, where all of partition 1 has failed and of 2 nothing is known yet."""

    def __init__(self, _conf: object, **_: object) -> None:
        self._open: list[tuple[int, Any]] = []

    def produce(self, _topic: str, _value: bytes, _key: bytes, partition: int, report: Any, *_: object) -> None:
        self._open.append((partition, report))

    def poll(self, _timeout: float) -> None: ...

    def flush(self, _timeout: float) -> None:
        for partition, report in (each for each in self._open if each[0] != 2):
            report(KafkaError(KafkaError._MSG_TIMED_OUT) if partition == 1 else None, Message(offset=7, partition=0))
        self._open.clear()


class DyingDriver:
    """Takes records until ``die``; then refuses each as librdkafka does, and says why at the next poll, once."""

    def __init__(self, _conf: object, **_: object) -> None:
        self.taken_count = 0
        self._is_dead = False
        self._news: KafkaError | None = None

    def die(self, code: int) -> None:
        self._is_dead, self._news = True, KafkaError(code, fatal=True)

    def begin_transaction(self) -> None: ...

    def produce(self, *_: object) -> None:
        if self._is_dead:
            raise KafkaException(KafkaError(KafkaError._FATAL))
        self.taken_count += 1

    def poll(self, _timeout: float) -> None:
        news, self._news = self._news, None
        if news is not None:
            raise KafkaException(news)

    def purge(self) -> None: ...

    def close(self) -> None: ...


@pytest.mark.parametrize(
    ("code", "meaning"),
    [(KafkaError._FENCED, Fenced), (KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, RoundInDoubt)],
    ids=["fenced", "not fenced"],
)
def test_a_producer_that_died_within_a_round_says_of_what(
    code: int, meaning: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = DyingDriver({})
    monkeypatch.setattr(kafka_producer, "Producer", lambda *_, **__: driver)
    producer = KafkaProducer({}, "waterclock.worker.0")
    producer.begin()
    producer.append(RECORD)

    driver.die(code)

    with pytest.raises(meaning) as caught:
        producer.append(RECORD)
    assert caught.type is meaning
    assert producer.dirty


class ForgottenDriver(DyingDriver):
    """Its open transaction has failed in the background, as librdkafka's does: each record is refused without a word
    why, and whoever begins another is told."""

    def __init__(self, code: int) -> None:
        super().__init__({})
        self._reason = KafkaError(code, txn_requires_abort=True)
        self.has_failed = False

    def begin_transaction(self) -> None:
        if self.has_failed:
            raise KafkaException(self._reason)

    def produce(self, *_: object) -> None:
        if self.has_failed:
            raise KafkaException(KafkaError(KafkaError._STATE))


@pytest.mark.parametrize(
    ("code", "meaning"),
    [(KafkaError.INVALID_PRODUCER_ID_MAPPING, RoundInDoubt), (KafkaError.INVALID_TIMESTAMP, RoundAborted)],
    ids=["forgotten", "one bad record"],
)
def test_a_producer_whose_id_the_brokers_have_forgotten_is_to_be_replaced(
    code: int, meaning: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = ForgottenDriver(code)
    monkeypatch.setattr(kafka_producer, "Producer", lambda *_, **__: driver)
    producer = KafkaProducer({}, "waterclock.worker.0")
    producer.begin()
    producer.append(RECORD)
    driver.has_failed = True
    with pytest.raises(meaning) as caught:
        producer.append(RECORD)
    assert caught.type is meaning
    assert producer.dirty is (meaning is RoundInDoubt)


def test_an_appender_that_never_flushes_gets_over_the_death_of_its_client(monkeypatch: pytest.MonkeyPatch) -> None:
    drivers: list[DyingDriver] = []

    def made(conf: Any, **_: Any) -> DyingDriver:
        drivers.append(DyingDriver(conf))
        return drivers[-1]

    monkeypatch.setattr(kafka_appender, "Producer", made)
    beats = KafkaAppender({}, "beats")
    beats.append(RECORD)
    drivers[0].die(KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER)

    with pytest.raises(BackendDown):
        beats.append(RECORD)
    beats.append(RECORD)

    assert [driver.taken_count for driver in drivers] == [1, 1]


def test_a_record_that_failed_is_not_forgotten_behind_many_that_landed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_appender, "Producer", PickyDriver)
    lines = KafkaAppender({}, "lines")
    lines.append(RECORD._replace(partition=1))
    for _ in range(500):
        lines.append(RECORD)

    with pytest.raises(BackendDown, match="was not taken"):
        lines.flush(1.0)
    lines.append(RECORD)
    lines.flush(1.0)


@pytest.mark.parametrize("partition", [1, 2], ids=["given up", "under way"])
def test_a_record_that_nobody_took_is_told_with_why_a_broker_did_not_let_us_in(
    partition: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until a flush goes well: what is wrong after that is something else."""
    monkeypatch.setattr(kafka_appender, "Producer", PickyDriver)
    lines = KafkaAppender({}, "lines")
    lines.append(RECORD)
    lines._watch.on_error(KafkaError(KafkaError._AUTHENTICATION, "SASL authentication failed"))
    lines.append(RECORD._replace(partition=partition))
    with pytest.raises(AccessRefused, match="SASL authentication failed"):
        lines.flush(1.0)
    lines.append(RECORD)
    lines.flush(1.0)
    lines.append(RECORD._replace(partition=partition))
    with pytest.raises(BackendDown) as told:
        lines.flush(1.0)
    assert told.type is BackendDown


def test_what_has_landed_is_not_kept_for_who_never_flushes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_appender, "Producer", PickyDriver)
    beats = KafkaAppender({}, "beats")
    for count in range(1_000):
        beats.append(RECORD._replace(partition=count % 2))
        beats._driver.flush(0.0)

    assert len(beats._unsettled) <= 110
