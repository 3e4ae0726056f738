"""A member that was polled without room, paused and resumed: what was set aside meanwhile ends no fetching."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, Message
from confluent_kafka import TopicPartition as Place

from waterclock.log import kafka_consumer
from waterclock.log.kafka_consumer import KafkaConsumer
from waterclock.log.port import TopicPartition

PARTITION = TopicPartition("t", 0)


class Driver:
    """One partition of ten records, assigned at the first poll; hands out nothing while paused."""

    def __init__(self, _conf: object, **_: object) -> None:
        self.is_paused = False
        self._next: int | None = None
        self._on_assign: Callable[[Any, list[Place]], None] | None = None

    def consumer_group_metadata(self) -> bytes:
        return b"CGMDv2:" + (1).to_bytes(4, "little") + b"g\0m\0\0"

    def subscribe(self, _topics: list[str], on_assign: Any, **_: Any) -> None:
        self._on_assign = on_assign

    def assign(self, places: list[Place]) -> None:
        self._next = places[0].offset if places else None

    def position(self, places: list[Place]) -> list[Place]:
        return [Place(*PARTITION, -1001 if self._next is None else self._next) for _ in places]

    def pause(self, places: list[Place]) -> None:
        self.is_paused = bool(places)

    def resume(self, places: list[Place]) -> None:
        self.is_paused = self.is_paused and not places

    def poll(self, _timeout: float) -> Message | None:
        told, self._on_assign = self._on_assign, None
        if told is not None:
            told(self, [Place(*PARTITION)])
        if self.is_paused or self._next is None or self._next == 10:
            return None
        self._next += 1
        stamp = (TIMESTAMP_CREATE_TIME, 1)
        return Message(topic="t", partition=0, offset=self._next - 1, key=b"k", value=b"v", timestamp=stamp)

    def consume(self, count: int, _timeout: float) -> list[Message]:
        found = (self.poll(0.0) for _ in range(count))
        return [message for message in found if message is not None]


@pytest.fixture
def member(monkeypatch: pytest.MonkeyPatch) -> KafkaConsumer:
    monkeypatch.setattr(kafka_consumer, "Consumer", Driver)
    consumer = KafkaConsumer({}, "g", ["t"], headers=False)
    consumer.poll(0, 0.0)
    consumer.start({PARTITION: 0})
    return consumer


def test_what_was_set_aside_before_a_pause_ends_no_fetching(member: KafkaConsumer) -> None:
    member.poll(0, 0.0)
    member.poll(0, 0.0)
    member.pause()
    member.resume()

    first = member.poll(4, 0.0).records
    rest = member.poll(100, 0.0).records

    assert [record.offset for record in (*first, *rest)] == list(range(10))
    assert member.position(PARTITION) == 10


def test_a_paused_member_hands_out_nothing_until_it_goes_on(member: KafkaConsumer) -> None:
    member.pause()
    assert [*member.poll(0, 0.0).records, *member.poll(5, 0.0).records] == []
    member.resume()
    assert len(member.poll(100, 0.0).records) == 10
