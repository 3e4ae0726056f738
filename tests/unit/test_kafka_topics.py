"""Topics that were just made: nobody is told that they are there before their leaders serve them."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as Place

from waterclock.log import kafka_topics
from waterclock.model.errors import AccessRefused, BackendDown

PLACES = [Place("t", 0), Place("t", 1), Place("u", 0)]


class Broker:
    """Answers as a broker whose replicas of some partitions come up after their metadata."""

    def __init__(self, refusals: dict[Place, int], why: int = KafkaError.NOT_LEADER_FOR_PARTITION) -> None:
        self._left, self._why = dict(refusals), why
        self.asked: list[list[Place]] = []

    def list_offsets(self, places: dict[Place, object], request_timeout: float) -> dict[Place, Future[object]]:
        assert request_timeout > 0
        self.asked.append(list(places))
        return {place: self._answer(place) for place in places}

    def poll(self, _timeout: float) -> None:
        """Nothing to serve."""

    def _answer(self, place: Place) -> Future[object]:
        answer: Future[object] = Future()
        left = self._left.get(place, 0)
        if left:
            self._left[place] = left - 1
            answer.set_exception(KafkaException(KafkaError(self._why)))
        else:
            answer.set_result(SimpleNamespace(offset=0))
        return answer


def test_a_topic_is_there_once_each_leader_answers_for_its_partition() -> None:
    broker = Broker({PLACES[1]: 2, PLACES[2]: 1})
    kafka_topics.await_served(broker, PLACES)  # type: ignore[arg-type]
    assert broker.asked == [PLACES, PLACES[1:], PLACES[1:2]]


def test_a_partition_that_nobody_serves_is_named_within_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    def ticks() -> Iterator[float]:
        at = 0.0
        while True:
            yield at
            at += 1.0

    times = ticks()
    monkeypatch.setattr(kafka_topics.time, "monotonic", lambda: next(times))  # type: ignore[attr-defined]
    broker = Broker({PLACES[1]: 1_000})
    with pytest.raises(BackendDown, match="topic t, partition 1: not served yet after 15 s: NOT_LEADER"):
        kafka_topics.await_served(broker, PLACES)  # type: ignore[arg-type]
    assert len(broker.asked) < 30


def test_many_partitions_may_take_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker makes the files of one after the other."""
    broker = Broker({PLACES[1]: 20})
    monkeypatch.setattr(kafka_topics.time, "monotonic", lambda: 2.0 * len(broker.asked))  # type: ignore[attr-defined]
    many = [*PLACES, *(Place("t", number) for number in range(10, 2_010))]
    kafka_topics.await_served(broker, many)  # type: ignore[arg-type]
    assert len(broker.asked) == 21


def test_who_may_not_ask_for_a_partition_hears_so_at_once() -> None:
    broker = Broker({PLACES[0]: 1_000}, KafkaError.TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(AccessRefused, match="topic t, partition 0"):
        kafka_topics.await_served(broker, PLACES)  # type: ignore[arg-type]
    assert len(broker.asked) == 1
