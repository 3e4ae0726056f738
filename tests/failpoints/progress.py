"""Who goes on, as the topics show it: a tail of committed positions, claims and commands, from outside.

Every round of a role that reads Kafka commits positions, and those are records of ``__consumer_offsets``: the first one
behind a crash, of a partition that the crashed process owned, is the successor's first round. A worker's is its first
STARTED, because its partitions may be somebody else's by then; the API's the first command that came through it.
"""

from __future__ import annotations

import struct
from bisect import bisect_right, insort
from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

from confluent_kafka import OFFSET_END, Message, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.acceptance import dumps
from tests.acceptance.following import Following
from tests.oracle.records import decode
from waterclock.wire.names import RUNGS, Names

_POSITIONS = "__consumer_offsets"
_BATCH = 2_000
_US_PER_MS = 1_000
_POSITION_KEYS = (0, 1)
"""Versions of keys that name a position; others tell of groups."""


class Sign(NamedTuple):
    """What shows that somebody goes on: a position of a group, a claim of a worker, a command of the API."""

    kind: str
    name: str
    partition: int = -1


Signs: TypeAlias = frozenset[Sign]
API = Sign("commands", "api")


class Progress:
    """When each sign was seen, in microseconds of this machine's clock. ``api_jobs``: how its jobs' ids begin."""

    def __init__(self, bootstrap: str, names: Names, following: Following, api_jobs: bytes) -> None:
        self._names = names
        self._following = following
        self._api_jobs = api_jobs
        self._stamps: dict[Sign, list[int]] = defaultdict(list)
        self._events_read = 0
        self._admin = AdminClient(dumps.client(bootstrap))
        self._consumer = dumps.reader(bootstrap, committed=True, auto_offset_reset="latest")
        self._consumer.assign(
            [
                TopicPartition(topic, at, OFFSET_END)
                for topic in (_POSITIONS, names.commands)
                for at in dumps.partitions_of(bootstrap, topic)
            ]
        )

    def glance(self) -> None:
        """Take what has come."""
        for message in self._consumer.consume(_BATCH, 0.0):
            if message.error() is not None:
                raise RuntimeError(f"{message.topic()}: {message.error()}")
            sign = self._sign_of(message)
            if sign is not None:
                insort(self._stamps[sign], message.timestamp()[1] * _US_PER_MS)
        self._following.glance()
        events = self._following.events
        for record in events[self._events_read :]:
            _, event = decode(record["value"])
            if event["kind"] == "STARTED":
                insort(self._stamps[Sign("claims", event["worker"])], record["timestamp_us"])
        self._events_read = len(events)

    def first_after(self, signs: Iterable[Sign], at: int) -> int | None:
        """The first of these signs after ``at``; None where there is none yet."""
        found = []
        for sign in signs:
            stamps = self._stamps.get(sign, [])
            index = bisect_right(stamps, at)
            found += stamps[index : index + 1]
        return min(found, default=None)

    def signs_of(self, core: str, instance: str) -> Signs:
        """What this core of this instance shows when it goes on. Empty: its groups are on the move, ask again."""
        if core == "worker":
            return frozenset({Sign("claims", instance)})
        if core == "api":
            return frozenset({API})
        return frozenset(
            Sign("positions", f"{group} {topic}", partition)
            for group, topic, partition in self._owned(self._groups_of(core), instance)
        )

    def owner(self, core: str, partition: int) -> str:
        """The instance whose core owns this partition; "" while nobody does."""
        groups = self._groups_of(core)
        for group, described in self._admin.describe_consumer_groups(groups).items():
            for member in described.result(10).members:
                places = member.assignment.topic_partitions if member.assignment else ()
                if any(place.partition == partition for place in places) and group in groups:
                    return str(member.group_instance_id)
        return ""

    def close(self) -> None:
        """Stop reading."""
        self._consumer.close()

    def _groups_of(self, core: str) -> list[str]:
        name = self._names.group
        if core == "ladder":
            return [f"{name('retry-ladder')}.{word}" for word in RUNGS]
        roles = {"router": "retry-router", "keeper": "lease-keeper"}
        return [name(roles.get(core, core))]

    def _owned(self, groups: list[str], instance: str) -> Iterable[tuple[str, str, int]]:
        for group, described in self._admin.describe_consumer_groups(groups).items():
            for member in described.result(10).members:
                if member.group_instance_id == instance and member.assignment:
                    for place in member.assignment.topic_partitions:
                        yield group, place.topic, place.partition

    def _sign_of(self, message: Message) -> Sign | None:
        key = message.key()
        if message.topic() == self._names.commands:
            return API if key is not None and key.startswith(self._api_jobs) else None
        if message.value() is None or struct.unpack_from(">h", key)[0] not in _POSITION_KEYS:
            return None
        group, at = _text(key, 2)
        topic, at = _text(key, at)
        return Sign("positions", f"{group} {topic}", struct.unpack_from(">i", key, at)[0])


def _text(data: bytes, at: int) -> tuple[str, int]:
    (length,) = struct.unpack_from(">h", data, at)
    return data[at + 2 : at + 2 + length].decode(), at + 2 + length
