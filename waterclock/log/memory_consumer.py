"""The group consumer and the reader in memory.

Why: the order of revoke, assign and delivery is where roles go wrong, so it is exact here. Must hold: membership
changes in ``poll`` alone, and there before any record is taken; a newly assigned partition delivers nothing before
``start``; an abort rewinds nobody. Partitions take turns, beginning each poll with the next one, so that none starves.
Nothing waits: a poll that finds nothing returns at once, whatever its time-out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from waterclock.model.errors import BackendDown, Fenced, LostResource, RoundAborted

from .memory_cluster import Client, MemoryCluster
from .memory_groups import Member, Standing
from .memory_partition import Partition
from .outside import outside
from .port import METADATA_MAX, Committed, GroupMetadata, Isolation, Polled, Record, TopicPartition


class Cursor:
    """Positions in a set of partitions, and the taking of records from them in turns.

    A position that is not in the log is told as the real client tells it: by the poll after the one that met it, once,
    also where all was started anew in between; nothing more of that partition is delivered before it is, and what the
    others brought is handed out. A topic that is gone is silent; of one that was made anew no position is in the log.
    """

    def __init__(self, cluster: MemoryCluster, isolation: Isolation, *, headers: bool) -> None:
        self._cluster = cluster
        self._isolation = isolation
        self._headers = headers
        self._is_committed = isolation is Isolation.COMMITTED
        self._next: dict[TopicPartition, int] = {}
        self._counts_in: dict[TopicPartition, Partition] = {}
        self._lost: set[TopicPartition] = set()
        self._trouble: LostResource | None = None
        self._places: list[tuple[TopicPartition, Partition]] | None = None
        self._looked_up_at = -1
        self._turn = 0
        self.moved: dict[TopicPartition, int] = {}

    def start(self, positions: Mapping[TopicPartition, int]) -> None:
        """Go on from these positions. The client assigns all anew: of none it tells a position until it moves on."""
        for place, offset in positions.items():
            self._next[place] = offset
            self._counts_in.pop(place, None)
        self._lost.clear()
        self.moved.clear()
        self._places = None

    def clear(self) -> None:
        """No partitions any more."""
        self._next.clear()
        self._counts_in.clear()
        self._lost.clear()
        self.moved.clear()
        self._places = None

    def position(self, place: TopicPartition) -> int:
        """The next offset to deliver from."""
        return self._next[place]

    def take(self, limit: int) -> list[Record]:
        """Up to ``limit`` records."""
        places = self._places
        if places is None or self._looked_up_at != self._cluster.topics_version:
            places = self._places = self._looked_up()
        self._turn += 1
        found: list[Record] = []
        for index in range(len(places)):
            if len(found) >= limit:
                break
            place, partition = places[(index + self._turn) % len(places)]
            start = self._next[place]
            if not partition.low <= start <= partition.high:
                self._lose(place, outside(place, start, partition.low, partition.high))
            elif start < (partition.lso if self._is_committed else partition.high):
                found += self._take_from(place, partition, limit - len(found))
        return found

    def raise_trouble(self) -> None:
        """Raises LostResource: what an earlier take met."""
        trouble, self._trouble = self._trouble, None
        if trouble is not None:
            raise trouble

    def forget_trouble(self) -> None:
        """What was lost was assigned before: nobody stands there any more."""
        self._trouble = None

    def _looked_up(self) -> list[tuple[TopicPartition, Partition]]:
        """Positions were set, one was lost, or topics have come or gone."""
        self._looked_up_at = self._cluster.topics_version
        found: list[tuple[TopicPartition, Partition]] = []
        for place in sorted(self._next.keys() - self._lost):
            partition = self._cluster.find(place)
            if partition is None:
                continue
            if self._counts_in.setdefault(place, partition) is partition:
                found.append((place, partition))
            else:
                self._lose(place, outside(place, self._next[place], None, None))
        return found

    def _lose(self, place: TopicPartition, loss: LostResource) -> None:
        self._lost.add(place)
        self._trouble = self._trouble or loss
        self._places = None

    def _take_from(self, place: TopicPartition, partition: Partition, limit: int) -> list[Record]:
        start = self._next[place]
        entries, position = partition.read(start, self._isolation, limit)
        if position != start:
            self._next[place] = self.moved[place] = position
        with_headers = self._headers
        return [
            Record(
                place.topic,
                place.partition,
                e.offset,
                e.timestamp_us,
                e.key,
                e.value,
                e.headers if with_headers else (),
            )
            for e in entries
        ]


class MemoryConsumer:
    """See ``port.Consumer``. Joins at its first poll; heartbeats with every poll and only there."""

    def __init__(
        self,
        cluster: MemoryCluster,
        client: Client,
        group: str,
        topics: Sequence[str],
        *,
        instance: str | None,
        session_s: float,
        headers: bool,
    ) -> None:
        self._cluster = cluster
        self._client = client
        self._group = cluster.group(group)
        self._topics = tuple(topics)
        self._instance = instance
        self._session_s = session_s
        self._member: Member | None = None
        self._generation = -1
        self._owned: tuple[TopicPartition, ...] = ()
        self._has_share = False
        self._cursor = Cursor(cluster, Isolation.COMMITTED, headers=headers)
        self._is_paused = False
        self._is_closed = False
        self._is_fenced = False

    @property
    def group(self) -> str:
        return self._group.name

    def poll(self, max_records: int, timeout_s: float, linger_s: float = 0.0) -> Polled:  # noqa: ARG002 - nothing waits
        self._enter("poll")
        self._cursor.raise_trouble()
        revoked = self._keep_membership()
        assigned = self._take_assignment()
        records = [] if self._is_paused else self._cursor.take(self._cluster.faults.fetched(max_records))
        return Polled(records, assigned, revoked)

    def owned(self) -> frozenset[TopicPartition]:
        return frozenset(self._owned)

    @property
    def has_share(self) -> bool:
        return self._has_share

    def metadata(self) -> GroupMetadata:
        member_id = "" if self._member is None else self._member.member_id
        return GroupMetadata(self._group.name, self._generation, member_id, None)

    def start(self, positions: Mapping[TopicPartition, int]) -> None:
        self._enter("start")
        for place in positions:
            if place not in self._owned:
                raise LostResource(f"{place} is not assigned to this member of {self._group.name}")
        self._cursor.start(positions)

    def position(self, partition: TopicPartition) -> int | None:
        return self._cursor.moved.get(partition)

    def committed(
        self, partitions: Sequence[TopicPartition], timeout_s: float
    ) -> dict[TopicPartition, Committed | None]:
        self._enter("committed")
        for place in partitions:
            if self._group.is_pending(place):
                raise BackendDown("kafka", f"{place}: a transaction holds an offset open, waited {timeout_s} s")
        return {place: self._group.committed(place) for place in partitions}

    def commit(self, positions: Mapping[TopicPartition, Committed]) -> None:
        self._enter("plain commit")
        if any(len(committed.metadata) > METADATA_MAX for committed in positions.values()):
            raise RoundAborted(f"OFFSET_METADATA_TOO_LARGE: more than {METADATA_MAX} characters")
        refusal = self._group.refusal(self.metadata(), transactional=False)
        if refusal is not None:
            raise RoundAborted(refusal)
        self._group.commit(positions)

    def pause(self) -> None:
        self._enter("pause")
        self._is_paused = True

    def resume(self) -> None:
        self._enter("resume")
        self._is_paused = False

    def close(self, *, leave: bool = False) -> None:
        if self._client.alive and self._member is not None and (leave or self._instance is None):
            self._group.leave(self._member)
        self._is_closed = True

    def _keep_membership(self) -> tuple[TopicPartition, ...]:
        """Heartbeat, join or join again; returns what was revoked or lost."""
        now_s = self._cluster.clock.monotonic_s()
        if self._member is None:
            self._join(now_s)
            return ()
        standing = Standing.FENCED if self._is_fenced else self._group.beat(self._member, now_s)
        if standing is Standing.STEADY:
            return ()
        if standing is Standing.FENCED:
            self._is_fenced = True  # for good, as with the real client
            raise Fenced(f"{self._group.name}: another consumer has the instance {self._instance}")
        revoked, self._owned, self._has_share = self._owned, (), False
        self._cursor.clear()
        if standing is Standing.UNKNOWN:
            self._join(now_s)
        else:
            self._group.rejoin(self._member)
        return revoked

    def _join(self, now_s: float) -> None:
        for topic in self._topics:
            self._cluster.topic(topic)  # NotFound beats a group that waits for nothing
        self._generation = -1
        self._member = self._group.join(self._client.client_id, self._instance, self._topics, self._session_s, now_s)

    def _take_assignment(self) -> tuple[TopicPartition, ...]:
        member = self._member
        if member is None or self._group.is_rebalancing or self._generation == self._group.generation:
            return ()
        self._generation = self._group.generation
        self._owned, self._has_share = member.assignment, True
        return self._owned

    def _enter(self, operation: str) -> None:
        self._cluster.enter(self._client, operation)
        if self._is_closed:
            raise RuntimeError(f"{operation} on a closed consumer of {self._group.name}")


class MemoryReader:
    """See ``port.Reader``."""

    def __init__(self, cluster: MemoryCluster, client: Client, isolation: Isolation, *, headers: bool) -> None:
        self._cluster = cluster
        self._client = client
        self._cursor = Cursor(cluster, isolation, headers=headers)
        self._loss: str | None = None

    def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        self._cluster.enter(self._client, "assign")
        self._loss = None
        self._cursor.forget_trouble()
        self._cursor.clear()
        self._cursor.start(positions)

    def poll(self, max_records: int, timeout_s: float) -> Sequence[Record]:  # noqa: ARG002 - nothing here waits
        self._cluster.enter(self._client, "read")
        if self._loss is not None:
            raise LostResource(self._loss)
        try:
            self._cursor.raise_trouble()
        except LostResource as lost:
            self._loss = str(lost)
            raise
        return self._cursor.take(self._cluster.faults.fetched(max_records))

    def position(self, partition: TopicPartition) -> int:
        return self._cursor.position(partition)

    def close(self) -> None:
        """Holds nothing."""
