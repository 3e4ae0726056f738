"""The cluster in memory that several Logs share: topics, groups, the transaction coordinator, the planned faults.

Why: roles are processes, each with a Log of its own, on one Kafka; so are they in a test. Must hold: one thread, no
time but the Clock's, no order but that of the calls, so that one seed gives one history. Every port call enters
through ``enter``: there clients die, planned faults strike, and time-outs that have come are acted upon.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from waterclock.clock import Clock
from waterclock.model.errors import NotFound
from waterclock.model.ids import murmur2

from .memory_faults import Faults, Killed
from .memory_groups import Group
from .memory_partition import Partition, Span
from .memory_transactions import Coordinator
from .port import Outgoing, TopicPartition

_EARLY_S = 1e-3
"""Looked a little early rather than late: sums of floats differ in their last digits."""


class Topic(NamedTuple):
    """One topic. ``append_time``: LogAppendTime, by the cluster's clock; else records bear their writers' time."""

    partitions: tuple[Partition, ...]
    append_time: bool
    compact: bool
    topic_id: str = ""


class Client:
    """One life of one process on the cluster, with its machine's clock. ``alive`` ends with ``MemoryCluster.kill``."""

    __slots__ = ("alive", "client_id", "clock")

    def __init__(self, client_id: str, clock: Clock) -> None:
        self.client_id = client_id
        self.clock = clock
        self.alive = True


class MemoryCluster:
    """The brokers."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.faults = Faults()
        self.coordinator = Coordinator(clock)
        self._topics: dict[str, Topic] = {}
        self._topics_made = 0
        self.topics_version = 0
        """Grows whenever a topic comes or goes."""
        self._groups: dict[str, Group] = {}
        self._clients: list[Client] = []
        self._look_at_s = -1.0
        self._patience_s = float("inf")

    def create_topic(self, name: str, partitions: int, *, append_time: bool = False, compact: bool = False) -> None:
        """A new topic; one that exists stays as it is."""
        made = tuple(Partition() for _ in range(partitions))
        self._topics_made += name not in self._topics
        self.topics_version += 1
        self._topics.setdefault(name, Topic(made, append_time, compact, f"topic-{self._topics_made}"))

    def delete_topic(self, name: str) -> None:
        """It is gone, with what groups knew of it."""
        self._topics.pop(name, None)
        self.topics_version += 1
        for group in self._groups.values():
            group.forget_topic(name)

    def topic_names(self) -> tuple[str, ...]:
        """Every topic, in order of creation (dumps)."""
        return tuple(self._topics)

    def topic(self, name: str) -> Topic:
        """Raises NotFound."""
        found = self._topics.get(name)
        if found is None:
            raise NotFound(f"topic {name!r} does not exist")
        return found

    def partition(self, place: TopicPartition) -> Partition:
        """Raises NotFound."""
        partitions = self.topic(place.topic).partitions
        if not 0 <= place.partition < len(partitions):
            raise NotFound(f"{place.topic} has {len(partitions)} partitions, there is no {place.partition}")
        return partitions[place.partition]

    def find(self, place: TopicPartition) -> Partition | None:
        """The partition, where it exists."""
        topic = self._topics.get(place.topic)
        return topic.partitions[place.partition] if topic and place.partition < len(topic.partitions) else None

    def place_of(self, message: Outgoing) -> TopicPartition:
        """The partition that a record goes to: the one it names, or murmur2 of its key. Raises NotFound."""
        if message.partition is not None:
            return TopicPartition(message.topic, message.partition)
        return TopicPartition(message.topic, _hash(message.key) % len(self.topic(message.topic).partitions))

    def append(self, client: Client, place: TopicPartition, message: Outgoing, span: Span | None) -> int:
        """Store a client's record; returns its offset. Raises NotFound.

        Its stamp is the client's, as librdkafka takes it when it is asked to produce, unless the topic has append time.
        """
        at = self.clock.now()
        stamp = at if self.topic(place.topic).append_time else client.clock.now()
        return self.partition(place).append(at, message.key, message.value, message.headers, span, stamp)

    def expire_group(self, name: str) -> None:
        """Forget an empty group's positions, as a broker does after ``offsets.retention.minutes``."""
        self._groups.pop(name, None)

    def group(self, name: str) -> Group:
        """The group, made at its first use."""
        if name not in self._groups:
            self._groups[name] = Group(name, lambda topic: len(self.topic(topic).partitions))
        return self._groups[name]

    def join(self, client_id: str, patience_s: float, clock: Clock | None = None) -> Client:
        """A process connects. ``patience_s``: none of its transactions and sessions is over sooner than this.

        ``clock`` stamps what it appends; None: the cluster's.
        """
        client = Client(client_id, clock or self.clock)
        self._clients.append(client)
        self._patience_s = min(self._patience_s, patience_s)
        self._look_at_s = min(self._look_at_s, self.clock.monotonic_s() + patience_s)
        return client

    def enter(self, client: Client, operation: str) -> None:
        """Every port call begins here. Raises Killed, and whatever ``faults.on_call`` raises."""
        if not client.alive:
            raise Killed(f"{client.client_id} was killed and calls {operation}")
        if self.faults.on_call is not None:
            self.faults.on_call(client.client_id, operation)
        if self.clock.monotonic_s() >= self._look_at_s:
            self.tick()

    def tick(self) -> None:
        """Act on the time-outs that have come: transactions and sessions.

        Nothing can be over before the earliest end of what stands, nor before the patience of what begins from now on:
        up to there nobody has to look, which is most of what a call cost.
        """
        now_s = self.clock.monotonic_s()
        self.coordinator.expire()
        for group in self._groups.values():
            group.expire(now_s)
        ends_s = [group.next_end_s() for group in self._groups.values()]
        self._look_at_s = min(now_s + self._patience_s, self.coordinator.next_end_s(), *ends_s) - _EARLY_S

    def kill(self, client_id: str) -> None:
        """A process dies (SIGKILL): nothing is closed, its transaction stays open, its members hold what they own.

        What it still calls raises Killed; a new Log of the same client id is its restart.
        """
        for client in self._clients:
            if client.client_id == client_id:
                client.alive = False
        self._clients = [client for client in self._clients if client.alive]

    def compact(self, topic: str) -> None:
        """The log cleaner comes by: of each key the newest committed version stays."""
        for partition in self.topic(topic).partitions:
            partition.compact()

    def delete_records(self, place: TopicPartition, before: int) -> None:
        """Retention takes what lies below ``before``."""
        self.partition(place).delete_before(before)


@lru_cache(maxsize=65_536)
def _hash(key: bytes) -> int:
    return murmur2(key) & 0x7FFFFFFF
