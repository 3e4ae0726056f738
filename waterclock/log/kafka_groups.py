"""What the groups of a real Kafka have committed, asked from outside: no membership, no position of one's own.

Asked for with ``require_stable``: of a round that is just being committed the answer waits, so that no position is
seen that is already gone. How it fails: BackendDown after 10 s.
"""

from __future__ import annotations

from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException
from confluent_kafka.admin import AdminClient

from waterclock.model.errors import BackendDown

from .kafka_errors import BACKEND
from .port import Committed, TopicPartition

TIMEOUT_S = 10.0


def committed_of(admin: AdminClient, group: str) -> dict[TopicPartition, Committed]:
    """Every position that ``group`` has committed. Raises BackendDown."""
    asked = admin.list_consumer_group_offsets(
        [ConsumerGroupTopicPartitions(group)], require_stable=True, request_timeout=TIMEOUT_S
    )
    found = answer(asked[group]).topic_partitions
    return {
        TopicPartition(at.topic, at.partition): Committed(at.offset, (at.metadata or "").rstrip("\0"))
        for at in found
        if at.offset >= 0 and not at.error
    }


def answer(future: Any) -> Any:
    """What the administrator's client was answered. Raises BackendDown."""
    try:
        return future.result(TIMEOUT_S + 1)
    except (KafkaException, TimeoutError) as error:
        raise BackendDown(BACKEND, f"no answer about groups within {TIMEOUT_S:.0f} s: {error}") from error
