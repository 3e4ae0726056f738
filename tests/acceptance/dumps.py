"""What stands in topics and tables, read by raw drivers: the only evidence that a check may judge.

Dumps are taken at rest (nobody writes any more) and reach the high watermark, open transactions included: a reader that
stops before it, because a transaction was left open, is told as an error and never as a short dump.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Any

from cassandra.cluster import Cluster
from confluent_kafka import Consumer, IsolationLevel, Message, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from waterclock.log.kafka_groups import committed_of

DUMP_WITHIN_S = 240.0
PATIENCE_S = 60.0
_BATCH = 2_000
_QUIET_S = 0.5
_US_PER_MS = 1_000


def client(bootstrap: str, **more: str | int | bool) -> dict[str, Any]:
    """The configuration of a raw client; silent, because servers come and go around it and waits are bounded."""
    return {"bootstrap.servers": bootstrap, "log_level": 0, "error_cb": lambda _: None, **more}


def reader(bootstrap: str, *, committed: bool, **more: str | int | bool) -> Consumer:
    """A raw consumer outside every group; properties are given with underscores for dots."""
    given = {name.replace("_", "."): value for name, value in more.items()}
    isolation = "read_committed" if committed else "read_uncommitted"
    plain: dict[str, str | int | bool] = {
        "group.id": "check",
        "enable.auto.commit": False,
        "auto.offset.reset": "error",
    }
    return Consumer(client(bootstrap, **{**plain, "isolation.level": isolation, **given}))


def partitions_of(bootstrap: str, topic: str) -> list[int]:
    """The partitions of a topic."""
    admin = AdminClient(client(bootstrap))
    return sorted(admin.list_topics(topic, timeout=10).topics[topic].partitions)


def high_watermarks(bootstrap: str, topic: str) -> dict[int, int]:
    """The end of each partition, open transactions included."""
    asked = {TopicPartition(topic, at): OffsetSpec.latest() for at in partitions_of(bootstrap, topic)}
    admin = AdminClient(client(bootstrap))  # it must outlive its answers
    answers = admin.list_offsets(asked, isolation_level=IsolationLevel.READ_UNCOMMITTED)
    return {place.partition: answer.result(10).offset for place, answer in answers.items()}


def messages(bootstrap: str, topic: str, *, committed: bool, within_s: float = DUMP_WITHIN_S) -> Iterator[Message]:
    """Every record from the beginning to the high watermark. Raises TimeoutError where it cannot be reached."""
    ends = high_watermarks(bootstrap, topic)
    consumer = reader(bootstrap, committed=committed)
    try:
        consumer.assign([TopicPartition(topic, at, 0) for at in ends])
        until = time.monotonic() + within_s
        while True:
            batch = consumer.consume(_BATCH, _QUIET_S)
            for message in batch:
                if message.error() is not None:
                    raise RuntimeError(f"dump of {topic}[{message.partition()}]: {message.error()}")
                if message.offset() < ends[message.partition()]:
                    yield message
            places = consumer.position([TopicPartition(topic, at) for at in ends])
            if all(max(place.offset, 0) >= ends[place.partition] for place in places):
                return
            if time.monotonic() > until:
                raise TimeoutError(f"{topic}: the dump stands at {places}, not at {ends}: is a transaction open?")
    finally:
        consumer.close()


def dump(bootstrap: str, topic: str) -> list[dict[str, Any]]:
    """The committed records of a topic, as the oracle takes them."""
    return [plain(message) for message in messages(bootstrap, topic, committed=True)]


def plain(message: Message) -> dict[str, Any]:
    """A record as the oracle takes it."""
    return {
        "partition": message.partition(),
        "offset": message.offset(),
        "timestamp_us": message.timestamp()[1] * _US_PER_MS,
        "key": message.key(),
        "value": message.value(),
    }


def aborted(bootstrap: str, topic: str, committed: list[dict[str, Any]]) -> list[tuple[int, int, int]]:
    """(partition, offset, timestamp in microseconds) of what read_uncommitted shows beside the committed dump."""
    gone = aborted_records(bootstrap, topic, committed)
    return [(record["partition"], record["offset"], record["timestamp_us"]) for record in gone]


def aborted_records(bootstrap: str, topic: str, committed: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same, whole records."""
    kept = {(record["partition"], record["offset"]) for record in committed}
    return [
        plain(message)
        for message in messages(bootstrap, topic, committed=False)
        if (message.partition(), message.offset()) not in kept
    ]


def rows(port: int, query: str) -> list[Any]:
    """The rows of one CQL query on the check's own Cassandra, as named tuples."""
    # On a machine full of roles the first words of a connection take longer than the driver's own 2 s and 5 s.
    cluster = Cluster(["127.0.0.1"], port=port, connect_timeout=PATIENCE_S, control_connection_timeout=PATIENCE_S)
    try:
        return list(cluster.connect("waterclock").execute(query, timeout=PATIENCE_S))
    finally:
        cluster.shutdown()


def committed_texts(bootstrap: str, group: str, topic: str) -> dict[int, tuple[int, str]]:
    """{partition: (offset, text)} of the positions that the group has committed there, with what rides along."""
    positions = committed_of(AdminClient(client(bootstrap)), group, stable=False)
    return {place.partition: (at.offset, at.metadata) for place, at in positions.items() if place.topic == topic}


def unread(bootstrap: str, group: str, topics: Iterable[str]) -> int:
    """How many offsets the group's committed positions stand before the ends; a missing position counts as all."""
    positions = committed_of(AdminClient(client(bootstrap)), group, stable=False)
    stands = {(place.topic, place.partition): at.offset for place, at in positions.items()}
    return sum(
        max(0, end - stands.get((topic, at), 0))
        for topic in topics
        for at, end in high_watermarks(bootstrap, topic).items()
    )
