"""A transaction that times out while its broker is away ends when that is back: nobody waits for it for ever."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, IsolationLevel, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from tests.acceptance import dumps
from tests.acceptance.real_stack import wait_for
from tests.free_ports import free_port
from waterclock.log.kafka_topics import ensure_topics
from waterclock.log.port import TopicSpec
from waterclock.stack.servers import start_kafka

pytestmark = pytest.mark.servers

TOPICS = tuple(f"hanging.{name}" for name in "abcdef")
WRITERS = 8
PARTITIONS = 4
TIMEOUT_S = 8.0
WITHIN_S = 60.0
"""Kafka looks for timed-out transactions every 10 s, from its start."""


def _open_transaction(bootstrap: str, number: int) -> Producer:
    timeout = {"transactional.id": f"writer-{number}", "transaction.timeout.ms": int(TIMEOUT_S * 1_000)}
    producer = Producer(dumps.client(bootstrap) | timeout)
    producer.init_transactions(30)
    producer.begin_transaction()
    for topic in TOPICS:
        for partition in range(PARTITIONS):
            producer.produce(topic, b"x", partition=partition)
    producer.flush(10)
    consumer = Consumer(dumps.client(bootstrap) | {"group.id": f"group-{number}"})
    producer.send_offsets_to_transaction([TopicPartition(TOPICS[0], 0, 1)], consumer.consumer_group_metadata(), 10)
    return producer


def _open_partitions(bootstrap: str) -> list[tuple[str, int]]:
    """Where the last stable offset is not the high watermark."""
    admin = AdminClient(dumps.client(bootstrap))
    places = {TopicPartition(topic, at): OffsetSpec.latest() for topic in TOPICS for at in range(PARTITIONS)}
    stable, high = (
        {(place.topic, place.partition): told.result(20).offset for place, told in answers.items()}
        for answers in (
            admin.list_offsets(places, isolation_level=level)
            for level in (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED)
        )
    )
    return [place for place in high if stable[place] != high[place]]


def _has_ended(bootstrap: str) -> bool:
    """Whether no transaction is open. Right after a start a leader may still be on its way: then nobody knows."""
    try:
        return not _open_partitions(bootstrap)
    except KafkaException:
        return False


def test_a_transaction_that_times_out_while_the_broker_is_away_does_not_hang(tmp_path: Path) -> None:
    port = free_port()
    server = start_kafka(tmp_path / "kafka", port=port)
    writers = []
    try:
        ensure_topics(server.address, [TopicSpec(topic, PARTITIONS, {}) for topic in TOPICS])
        writers = [_open_transaction(server.address, number) for number in range(WRITERS)]
        assert len(_open_partitions(server.address)) == len(TOPICS) * PARTITIONS
        server.kill()
        time.sleep(TIMEOUT_S + 1.0)  # what is tried is a broker that stays away for longer than that
        server = start_kafka(tmp_path / "kafka", port=port)
        wait_for(lambda: _has_ended(server.address), "every transaction ended", WITHIN_S, every_s=1.0)
    finally:
        server.stop()
    assert len(writers) == WRITERS
