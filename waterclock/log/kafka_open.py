"""Where the open transactions of a real Kafka begin: what readers of committed records are kept from.

Each such partition has its last stable offset below its high watermark. The high watermark is asked for first, so that
what is appended between the two questions is not taken for that. How it fails: BackendDown after 10 s.
"""

from __future__ import annotations

from collections.abc import Sequence

from confluent_kafka import IsolationLevel, KafkaException
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec

from waterclock.model.errors import BackendDown, NotFound

from .kafka_errors import BACKEND, error_of, query_error
from .port import TopicPartition

TIMEOUT_S = 10.0


def open_places(admin: AdminClient, places: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
    """Of these partitions those with an open transaction, and where it begins; of one that is gone nothing.

    Raises BackendDown.
    """
    if not places:
        return {}
    ends = _ends(admin, places, IsolationLevel.READ_UNCOMMITTED)
    stable = _ends(admin, places, IsolationLevel.READ_COMMITTED)
    return {place: offset for place, offset in stable.items() if offset < ends.get(place, offset)}


def _ends(admin: AdminClient, places: Sequence[TopicPartition], level: IsolationLevel) -> dict[TopicPartition, int]:
    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]  # confluent-kafka types this one not at all
    wanted = {Place(*place): latest for place in places}
    asked = admin.list_offsets(wanted, isolation_level=level, request_timeout=TIMEOUT_S)
    found: dict[TopicPartition, int] = {}
    for at, future in asked.items():
        place = TopicPartition(at.topic, at.partition)
        try:
            found[place] = future.result(TIMEOUT_S + 1).offset
        except KafkaException as raised:
            error = query_error(error_of(raised), f"end of {at.topic}[{at.partition}]")
            if not isinstance(error, NotFound):  # the topic was taken away meanwhile
                raise error from raised
        except TimeoutError as late:
            raise BackendDown(BACKEND, f"end of {at.topic}[{at.partition}]: no answer") from late
    return found
