"""The Log port in memory: for tests and for the simulation, where Kafka's rules count and its speed does not.

Why: a role's core can be crashed at any call, from one seed, a thousand times a second. What must hold is the port,
word for word; ``tests/conformance/log`` runs the same cases on this and on a real broker. The parts: ``partition``
(storage and visibility), ``transactions`` (fencing, atomicity), ``groups`` (membership, positions), ``producer`` and
``consumer`` (the clients), ``cluster`` (what processes share), ``faults`` (what may go wrong).

Limits: everything takes effect at once and nothing waits, so time-outs come only when the Clock is moved; what a real
client would find out later, in a background thread, it finds out here at the call. A member of a topic that does not
exist is refused, where a real one says so once and takes its share of the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from waterclock.clock import Clock
from waterclock.model.ids import Instant

from .memory_cluster import MemoryCluster
from .memory_consumer import MemoryConsumer, MemoryReader
from .memory_faults import CommitFate, Faults, Killed
from .memory_producer import MemoryAppender, MemoryProducer
from .port import Committed, Isolation, TopicPartition

__all__ = ["CommitFate", "Faults", "Killed", "MemoryCluster", "MemoryLog"]


class MemoryLog:
    """One process's access to a cluster in memory; see ``port.Log``.

    ``transaction_timeout_s`` and ``session_timeout_s`` are this client's settings, measured on the cluster's clock.
    ``clock``: that of the process's machine, which stamps what it appends to topics without append time: in a cluster
    such stamps differ by as much as machines' clocks do, and go back within a partition. None: the cluster's clock.
    """

    def __init__(
        self,
        cluster: MemoryCluster,
        client_id: str = "memory",
        *,
        transaction_timeout_s: float = 10.0,
        session_timeout_s: float = 10.0,
        clock: Clock | None = None,
    ) -> None:
        self.cluster = cluster
        self._client = cluster.join(client_id, min(transaction_timeout_s, session_timeout_s), clock)
        self._transaction_timeout_s = transaction_timeout_s
        self._session_timeout_s = session_timeout_s

    @classmethod
    def alone(cls, clock: Clock, topics: Mapping[str, int], log_append_time: frozenset[str] = frozenset()) -> MemoryLog:
        """A Log on a cluster of its own, with these topics (name to number of partitions)."""
        cluster = MemoryCluster(clock)
        for name, partitions in topics.items():
            cluster.create_topic(name, partitions, append_time=name in log_append_time)
        return cls(cluster)

    def producer(self, transactional_id: str) -> MemoryProducer:
        return MemoryProducer(self.cluster, self._client, transactional_id, self._transaction_timeout_s)

    def appender(self, *, linger_s: float = 0.0) -> MemoryAppender:  # noqa: ARG002 - nothing waits here
        return MemoryAppender(self.cluster, self._client)

    def consumer(
        self, group: str, topics: Sequence[str], *, instance: str | None = None, headers: bool = False
    ) -> MemoryConsumer:
        return MemoryConsumer(
            self.cluster,
            self._client,
            group,
            topics,
            instance=instance,
            session_s=self._session_timeout_s,
            headers=headers,
        )

    def reader(self, isolation: Isolation, *, headers: bool = False) -> MemoryReader:
        return MemoryReader(self.cluster, self._client, isolation, headers=headers)

    def partitions(self, topic: str) -> int:
        self.cluster.enter(self._client, "partitions")
        return len(self.cluster.topic(topic).partitions)

    def topic_id(self, topic: str) -> str:
        self.cluster.enter(self._client, "topic_id")
        return self.cluster.topic(topic).topic_id

    def low_watermark(self, partition: TopicPartition) -> int:
        self.cluster.enter(self._client, "low_watermark")
        return self.cluster.partition(partition).low

    def high_watermark(self, partition: TopicPartition) -> int:
        self.cluster.enter(self._client, "high_watermark")
        return self.cluster.partition(partition).high

    def open_from(self, topics: Sequence[str]) -> dict[TopicPartition, int]:
        self.cluster.enter(self._client, "open_from")
        return {
            TopicPartition(name, number): partition.lso
            for name in topics
            if name in self.cluster.topic_names()
            for number, partition in enumerate(self.cluster.topic(name).partitions)
            if partition.lso < partition.high
        }

    def members(self, group: str) -> frozenset[str]:
        self.cluster.enter(self._client, "members")
        return self.cluster.group(group).instances()

    def group_positions(self, group: str) -> dict[TopicPartition, Committed]:
        self.cluster.enter(self._client, "group_positions")
        return self.cluster.group(group).positions()

    def offset_at(self, partition: TopicPartition, at: Instant) -> int:
        self.cluster.enter(self._client, "offset_at")
        return self.cluster.partition(partition).offset_at(at)

    def close(self) -> None:
        """Holds nothing."""
