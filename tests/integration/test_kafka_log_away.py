"""A broker that is away is waited for: it never looks like a topic that is missing."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from waterclock.log.kafka import KafkaLog
from waterclock.log.kafka_topics import ensure_topics
from waterclock.log.port import TopicPartition, TopicSpec
from waterclock.model.errors import BackendDown
from waterclock.stack.servers import start_kafka

pytestmark = pytest.mark.servers


def _wait_for_leader(log: KafkaLog, place: TopicPartition) -> None:
    """A partition that was just made has no leader for a moment: the broker is not away then either."""
    for _ in range(100):
        try:
            assert log.high_watermark(place) == 0
        except BackendDown:
            time.sleep(0.1)
        else:
            return
    raise TimeoutError("no leader within 10 s")


def test_a_broker_that_went_away_is_down_and_its_topics_are_not_missing(tmp_path: Path) -> None:
    server = start_kafka(tmp_path / "kafka")
    log = KafkaLog(server.address, client_id="away")
    try:
        ensure_topics(server.address, [TopicSpec("there", 2, {})])
        assert log.partitions("there") == 2
        _wait_for_leader(log, TopicPartition("there", 1))
        server.kill()
        with pytest.raises(BackendDown):
            log.high_watermark(TopicPartition("there", 1))
        with pytest.raises(BackendDown):
            log.low_watermark(TopicPartition("there", 0))
    finally:
        log.close()
        server.stop()


def test_a_broker_that_came_back_is_asked_for_every_partition_without_a_second_start(tmp_path: Path) -> None:
    """Its leaders have new epochs then; the client learns of each by being refused."""
    server = start_kafka(tmp_path / "kafka")
    log = KafkaLog(server.address, client_id="back")
    places = [TopicPartition("there", number) for number in range(6)]
    try:
        ensure_topics(server.address, [TopicSpec("there", len(places), {})])
        for place in places:
            _wait_for_leader(log, place)
        server.kill()
        server = start_kafka(tmp_path / "kafka", port=server.port)
        other = KafkaLog(server.address, client_id="new")  # so that the first one learns nothing by the waiting
        for place in places:
            _wait_for_leader(other, place)
        other.close()
        assert [log.high_watermark(place) for place in places] == [0] * len(places)
        assert [log.low_watermark(place) for place in places] == [0] * len(places)
    finally:
        log.close()
        server.stop()
