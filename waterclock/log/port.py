"""The Log port: what Waterclock needs of Kafka, and nothing else.

Two implementations, held together by one conformance suite (``tests/conformance``): ``kafka.py`` over
confluent-kafka, and ``memory.py``. Roles never touch a producer's transaction methods: ``waterclock/transact.py``
alone calls them.

Threads: an object made by a Log belongs to the thread that uses it; nothing here is shared between threads.
Errors: everything a driver raises arrives as an error of ``waterclock.model.errors``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import NamedTuple, Protocol, TypeAlias

from waterclock.model.ids import Instant

Headers: TypeAlias = tuple[tuple[str, bytes], ...]

UNREADABLE: Headers = (("waterclock-unreadable-headers", b""),)
"""In place of a record's headers where the client cannot read them: a name is not UTF-8. The record itself is whole."""


class TopicPartition(NamedTuple):
    """One partition of one topic."""

    topic: str
    partition: int


class TopicSpec(NamedTuple):
    """A topic as it must be: ``config`` holds what differs from the broker's defaults."""

    name: str
    partitions: int
    config: dict[str, str]


class Record(NamedTuple):
    """A record as read. ``timestamp_us`` is Kafka's record time in microseconds (append time on ``commands``).

    ``headers`` is () where the reader was opened without headers.
    """

    topic: str
    partition: int
    offset: int
    timestamp_us: Instant
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class Outgoing(NamedTuple):
    """A record to append. ``partition`` None: by murmur2 of the key, as Java's default partitioner does."""

    topic: str
    key: bytes
    value: bytes | None
    headers: Headers = ()
    partition: int | None = None


class Committed(NamedTuple):
    """A committed position of a group: the next offset to read, and the text that rides with it (<= 4,095 chars)."""

    offset: int
    metadata: str = ""


METADATA_MAX = 4_095


class Ticket:
    """Follows one appended record. ``offset`` is None until its delivery report came; a flush brings them all."""

    __slots__ = ("offset", "partition")

    def __init__(self) -> None:
        self.offset: int | None = None
        self.partition: int = -1


class GroupMetadata(NamedTuple):
    """A snapshot of a membership, taken when records were polled; fences zombies by the generation.

    ``generation`` below 0 means that the consumer has not joined: it fences nothing and is refused by transact.
    ``raw`` is the driver's own object.
    """

    group: str
    generation: int
    member_id: str
    raw: object


class Polled(NamedTuple):
    """What one poll brought. ``assigned`` and ``revoked`` happened before any of ``records`` was taken.

    Newly assigned partitions deliver nothing until ``start()`` names their position. Records of partitions that
    are revoked in this very poll are not among ``records``. Under the eager protocol a rebalance revokes everything
    and assigns anew. ``revoked`` holds lost partitions too: drop what you hold for them, commit nothing.
    ``waited_s``: until the first of ``records`` was there; in memory nothing waits.
    """

    records: Sequence[Record]
    assigned: tuple[TopicPartition, ...] = ()
    revoked: tuple[TopicPartition, ...] = ()
    waited_s: float = 0.0


class Isolation(Enum):
    """What a reader sees: committed records up to the last stable offset, or everything."""

    COMMITTED = "read_committed"
    UNCOMMITTED = "read_uncommitted"


class Producer(Protocol):
    """A transactional producer. Only ``waterclock/transact.py`` calls it.

    Raises (any method): Fenced: somebody has the id, or the transaction timed out; this object is dead.
    RoundAborted: the transaction cannot commit and must be aborted; the producer is usable after ``abort()``.
    RoundInDoubt: no answer, or the brokers have forgotten an id that was idle for a week; this object is dirty and must
    be replaced (close it, new one, same id, ``init()``).
    """

    @property
    def dirty(self) -> bool:
        """True once anything left the outcome of a call open (also reported in the background by the client)."""
        ...

    def init(self, timeout_s: float) -> None:
        """Fence every older producer with this id and abort its open transaction (KIP-98). Raises BackendDown."""
        ...

    def begin(self) -> None:
        """Open a transaction."""
        ...

    def append(self, message: Outgoing) -> None:
        """Append to the open transaction. When the local queue is full: waits, within a bound."""
        ...

    def append_tracked(self, message: Outgoing) -> Ticket:
        """As ``append``, and follow the record's offset."""
        ...

    def send_offsets(self, offsets: Mapping[TopicPartition, Committed], group: GroupMetadata) -> None:
        """Make the group's positions part of the transaction (KIP-447). Call it after the appends."""
        ...

    def flush(self, timeout_s: float) -> None:
        """Wait until everything appended so far stands in the log, uncommitted. Raises RoundInDoubt, RoundAborted."""
        ...

    def commit(self, timeout_s: float) -> None:
        """Flush and commit; when it returns, the round has landed and every ticket has its offset."""
        ...

    def abort(self, timeout_s: float) -> None:
        """Abort cleanly; nothing of the transaction will be visible to readers of committed records."""
        ...

    def close(self) -> None:
        """Give the object up, from a bounded background thread; never blocks."""
        ...


class Appender(Protocol):
    """A plain idempotent producer: heartbeats, and commands from outside a role."""

    def append(self, message: Outgoing) -> Ticket:
        """Send; returns at once."""
        ...

    def flush(self, timeout_s: float) -> None:
        """Wait until everything appended is acknowledged by all replicas. Raises BackendDown."""
        ...

    def close(self) -> None: ...


class Consumer(Protocol):
    """A member of a consumer group: read_committed, no auto-commit, range assignor, positions started by hand."""

    @property
    def group(self) -> str: ...

    def poll(self, max_records: int, timeout_s: float, linger_s: float = 0.0) -> Polled:
        """Take up to ``max_records``: waits at most ``timeout_s`` for the first, then takes what is there.

        ``linger_s``: what comes sooner after the call waits for more until then, and all of it is taken together.

        The only place where membership changes. Call it at least every few seconds, also without room (``max_records``
        0 serves the membership alone and takes nothing). Raises BackendDown.
        """
        ...

    def owned(self) -> frozenset[TopicPartition]:
        """The partitions assigned now, as of the last poll."""
        ...

    @property
    def has_share(self) -> bool:
        """Whether the group has given this member its share, also an empty one, as of the last poll."""
        ...

    def metadata(self) -> GroupMetadata:
        """The membership, as of now. Take it when the records are polled, never at commit."""
        ...

    def start(self, positions: Mapping[TopicPartition, int]) -> None:
        """Deliver these owned partitions from these offsets on; also the way back after an abort (a seek).

        Records fetched earlier for them are dropped. An offset beyond the log raises LostResource at the next poll.
        """
        ...

    def position(self, partition: TopicPartition) -> int | None:
        """The next offset that poll will deliver from, past markers and gaps; None before anything was fetched."""
        ...

    def committed(
        self, partitions: Sequence[TopicPartition], timeout_s: float
    ) -> dict[TopicPartition, Committed | None]:
        """The group's committed positions. Waits for pending transactional commits. Raises BackendDown on time-out."""
        ...

    def commit(self, positions: Mapping[TopicPartition, Committed]) -> None:
        """A plain synchronous commit, with metadata. For the recorder alone: every other role commits in rounds.

        Raises RoundAborted when the generation is stale, BackendDown when no broker answers.
        """
        ...

    def pause(self) -> None:
        """Deliver nothing until ``resume``; prefetched records are purged, positions stay."""
        ...

    def resume(self) -> None: ...

    def close(self, *, leave: bool = False) -> None:
        """Stop. Static members keep their partitions for the session unless ``leave``."""
        ...


class Reader(Protocol):
    """Reads partitions without a group: state topics, control, leases, dumps."""

    def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        """Read these partitions, from these offsets on; replaces what was assigned before."""
        ...

    def poll(self, max_records: int, timeout_s: float) -> Sequence[Record]:
        """As ``Consumer.poll``, records alone. A position outside the log is told at each poll, until ``assign``."""
        ...

    def position(self, partition: TopicPartition) -> int:
        """The next offset, past markers and gaps; the assigned one while nothing was fetched."""
        ...

    def close(self) -> None: ...


class Log(Protocol):
    """Makes the clients and answers questions about partitions."""

    def producer(self, transactional_id: str) -> Producer: ...

    def appender(self, *, linger_s: float = 0.0) -> Appender:
        """``linger_s``: how long a record may wait for others, so that they go out together; a flush ends the wait."""
        ...

    def consumer(
        self, group: str, topics: Sequence[str], *, instance: str | None = None, headers: bool = False
    ) -> Consumer:
        """A group member. ``instance``: static membership (KIP-345), the process slot's stable name."""
        ...

    def reader(self, isolation: Isolation, *, headers: bool = False) -> Reader: ...

    def partitions(self, topic: str) -> int:
        """Number of partitions. Raises NotFound where the topic does not exist, BackendDown."""
        ...

    def topic_id(self, topic: str) -> str:
        """What tells a topic from one of the same name that was made anew: never asked of memory. Raises NotFound where
        it does not exist, BackendDown."""
        ...

    def low_watermark(self, partition: TopicPartition) -> int:
        """The first offset still kept."""
        ...

    def high_watermark(self, partition: TopicPartition) -> int:
        """The end, open transactions included (``list_offsets`` READ_UNCOMMITTED, never the LSO)."""
        ...

    def open_from(self, topics: Sequence[str]) -> dict[TopicPartition, int]:
        """Where readers of committed records stop before the end, for somebody's transaction is open: the partitions of
        these topics in which it is so, with the offset. A topic that does not exist has none. Slow: two questions of
        its own. Raises BackendDown."""
        ...

    def members(self, group: str) -> frozenset[str]:
        """The static names of a group's members, asked from outside; none of a group that never was. Slow: a question
        of its own. Raises BackendDown."""
        ...

    def group_positions(self, group: str) -> dict[TopicPartition, Committed]:
        """What a group has committed, asked from outside; {} for one that never did. Slow: a question of its own.

        Waits for pending transactional commits. Raises BackendDown on time-out.
        """
        ...

    def offset_at(self, partition: TopicPartition, at: Instant) -> int:
        """The first offset whose record time is at or after ``at``; the high watermark where there is none."""
        ...

    def close(self) -> None: ...
