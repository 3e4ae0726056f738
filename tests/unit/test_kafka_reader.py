"""A reader of a real Kafka whose position left the log: it says so as long as it stands there."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaError, Message
from confluent_kafka import TopicPartition as Place

from waterclock.log import kafka_reader
from waterclock.log.kafka_reader import KafkaReader
from waterclock.log.port import TopicPartition
from waterclock.model.errors import LostResource

PARTITION = TopicPartition("t", 0)


class Driver:
    """Says once that its position is not in the log, and is silent from then on, as librdkafka is."""

    def __init__(self, _conf: object, **_: object) -> None:
        self._news = [Message(topic="t", partition=0, offset=3, error=KafkaError(KafkaError._AUTO_OFFSET_RESET))]
        self._at = -1001

    def assign(self, places: list[Place]) -> None:
        self._at = places[0].offset

    def position(self, _places: list[Place]) -> list[Place]:
        return [Place(*PARTITION, self._at)]

    def poll(self, _timeout: float) -> Message | None:
        return self._news.pop() if self._news else None

    def consume(self, _count: int, _timeout: float) -> list[Message]:
        return []

    def get_watermark_offsets(self, _place: Place, **_: Any) -> tuple[int, int]:
        return 5, 9


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> KafkaReader:
    monkeypatch.setattr(kafka_reader, "Consumer", Driver)
    made = KafkaReader({}, "test", headers=False)
    made.assign({PARTITION: 3})
    return made


def test_a_loss_is_told_at_each_poll_until_other_positions_are_assigned(reader: KafkaReader) -> None:
    assert reader.poll(10, 0.0) == []
    for _ in range(3):
        with pytest.raises(LostResource, match=r"position 3 of t\[0\] is not in the log, which begins at 5"):
            reader.poll(10, 0.0)
    reader.assign({PARTITION: 5})
    assert reader.poll(10, 0.0) == []


def test_a_loss_that_was_not_told_yet_is_none_of_the_positions_that_are_assigned_then(reader: KafkaReader) -> None:
    assert reader.poll(10, 0.0) == []
    reader.assign({PARTITION: 5})
    assert reader.poll(10, 0.0) == []
