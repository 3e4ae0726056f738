"""A member of a consumer group on a real Kafka: classic protocol, range, every position named by hand.

What must hold: an assignment delivers nothing until ``start`` (``on_assign`` assigns the empty list); membership
changes in ``poll`` alone, and of a poll that saw a revoke no record survives (the eager protocol takes everything);
``start`` replaces the whole assignment with explicit offsets, so nothing fetched before it is delivered after it (the
client numbers its assignments and throws away what belongs to an older one).

How it fails: a duplicate instance name ends the older member: it gets Fenced from every poll from then on (the client
itself would go silent). An exception out of a callback would lose the records of that poll: the callbacks raise none.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence

from confluent_kafka import Consumer, KafkaException
from confluent_kafka import TopicPartition as Place

from waterclock.model.errors import BackendDown, LostResource

from .kafka_assign import assign_at
from .kafka_closing import close_in_background
from .kafka_errors import BACKEND, commit_error, error_of, poll_trouble, query_error
from .kafka_feed import Feed
from .kafka_places import committed_places, places_of
from .kafka_properties import Conf
from .kafka_watch import Watch
from .port import Committed, GroupMetadata, Polled, Record, TopicPartition

HELD_MAX = 1_000
"""Records that a poll without room may set aside before the fetching is paused (resuming costs 0.7 s)."""

_CLOSE_WAIT_S = 5.0
_LEAVE_WAIT_S = 2.0
_METADATA_PREFIX = b"CGMDv2:"
_GENERATION_END = len(_METADATA_PREFIX) + 4


class KafkaConsumer:
    """The port's Consumer over confluent-kafka."""

    def __init__(self, conf: Conf, group: str, topics: Sequence[str], *, headers: bool) -> None:
        self._group = group
        self._topics: tuple[str, ...] | None = tuple(topics)
        watch = Watch(group)
        self._driver = Consumer(conf, logger=watch, error_cb=watch.on_error)
        self._feed = Feed(self._driver, watch, group, headers=headers)
        self._owned: frozenset[TopicPartition] = frozenset()
        self._has_share = False
        self._starts: dict[TopicPartition, int] = {}
        self._assigned: list[TopicPartition] = []
        self._revoked: list[TopicPartition] = []
        self._held: deque[Record] = deque()
        self._before: dict[TopicPartition, int | None] = {}
        self._is_paused = False
        self._is_stalled = False
        self._is_closed = False
        self.metadata()  # a client whose private layout has changed must not get as far as a commit

    @property
    def group(self) -> str:
        return self._group

    def poll(self, max_records: int, timeout_s: float, linger_s: float = 0.0) -> Polled:
        if self._topics is not None:
            self._join(self._topics)
        self._assigned, self._revoked = [], []
        if max_records <= 0:
            self._serve(timeout_s)
            records: list[Record] = []
        elif self._held and not self._is_paused:
            records = self._take_held(max_records)
        else:
            records = self._feed.take(max_records, timeout_s, linger_s)
        if not self._revoked and not self._assigned:
            return Polled(records, waited_s=self._feed.waited_s)
        if self._revoked:
            records = []  # eager: all that was ours when they were taken is gone; what is new has not been started
        return Polled(records, tuple(self._assigned), tuple(self._revoked))

    def owned(self) -> frozenset[TopicPartition]:
        return self._owned

    @property
    def has_share(self) -> bool:
        return self._has_share

    def metadata(self) -> GroupMetadata:
        raw = self._driver.consumer_group_metadata()
        if not isinstance(raw, bytes) or not raw.startswith(_METADATA_PREFIX):
            raise RuntimeError("the client's group metadata has a new layout: its generation cannot be read")
        generation = int.from_bytes(raw[len(_METADATA_PREFIX) : _GENERATION_END], "little", signed=True)
        _, member_id, _ = raw[_GENERATION_END:].split(b"\0", 2)
        return GroupMetadata(self._group, generation, member_id.decode(), raw)

    def start(self, positions: Mapping[TopicPartition, int]) -> None:
        self._require_open()
        for at in positions:
            if at not in self._owned:
                raise LostResource(f"{at.topic}[{at.partition}] is not assigned to this member of {self._group}")
        kept = {at: self._next(at) for at in self._starts if at not in positions}
        self._starts = {**kept, **positions}
        self._held.clear()
        places = places_of(self._starts)
        try:
            assign_at(self._driver, places)
            self._is_stalled = False
            # A partition can come back as it was left, paused or not (librdkafka #1849, #5113): say which.
            (self._driver.pause if self._is_paused else self._driver.resume)(places)
        except KafkaException as raised:
            raise query_error(error_of(raised), f"{self._group}: start") from raised

    def position(self, partition: TopicPartition) -> int | None:
        for record in self._held:
            if record.partition == partition.partition and record.topic == partition.topic:
                return self._before.get(partition, record.offset)
        return self._fetched(partition)

    def committed(
        self, partitions: Sequence[TopicPartition], timeout_s: float
    ) -> dict[TopicPartition, Committed | None]:
        if not partitions:
            return {}
        doing = f"{self._group}: committed"
        try:
            found = self._driver.committed([Place(at.topic, at.partition) for at in partitions], timeout_s)
        except KafkaException as raised:
            raise BackendDown(BACKEND, str(query_error(error_of(raised), doing))) from raised
        for place in found:
            if place.error is not None:
                raise query_error(place.error, f"{doing} {place.topic}[{place.partition}]")
        return {
            TopicPartition(place.topic, place.partition): (
                Committed(place.offset, (place.metadata or "").rstrip("\0")) if place.offset >= 0 else None
            )
            for place in found
        }

    def commit(self, positions: Mapping[TopicPartition, Committed]) -> None:
        if not positions:
            return
        try:
            for place in self._driver.commit(offsets=committed_places(positions), asynchronous=False):
                if place.error is not None:
                    raise commit_error(place.error, f"{self._group}: commit {place.topic}[{place.partition}]")
        except KafkaException as raised:
            raise commit_error(error_of(raised), f"{self._group}: commit") from raised

    def pause(self) -> None:
        self._is_paused = True
        self._halt()

    def resume(self) -> None:
        if self._held:
            self._is_stalled = self._is_stalled or self._is_paused  # fetched on once these are taken
        else:
            self._go_on()
        self._is_paused = False

    def close(self, *, leave: bool = False) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        if leave:
            self._leave()
        close_in_background(self._driver.close, self._group, wait_s=_CLOSE_WAIT_S)

    def _join(self, topics: tuple[str, ...]) -> None:
        """At the first poll, not before: the client would join in the background, and make the group wait for us."""
        self._require_open()
        self._driver.subscribe(
            list(topics), on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_revoke
        )
        self._topics = None

    def _serve(self, timeout_s: float) -> None:
        """Serve the membership; what the client hands out meanwhile is set aside, up to a bound, then paused."""
        if not self._held:
            self._before = {at: self._fetched(at) for at in self._starts}
        if len(self._held) >= HELD_MAX and not self._is_stalled:
            self._is_stalled = True
            self._halt()
        self._hold(self._feed.take(1, timeout_s))

    def _take_held(self, max_records: int) -> list[Record]:
        """What was set aside comes first. Polls all the same, for the membership, before anything is handed out."""
        held = self._held
        self._hold(self._feed.take(max(1, max_records - len(held)), 0.0))
        self._before = {}
        records = [held.popleft() for _ in range(min(max_records, len(held)))]
        if not held and self._is_stalled:
            self._is_stalled = False
            self._go_on()
        return records

    def _hold(self, records: list[Record]) -> None:
        if not self._revoked:
            self._held.extend(records)

    def _fetched(self, at: TopicPartition) -> int | None:
        """The client's own position: behind the last record it handed out, and the markers it has passed since."""
        if at not in self._starts:
            return None
        found = self._driver.position([Place(at.topic, at.partition)])[0].offset
        return found if found >= 0 else None

    def _next(self, at: TopicPartition) -> int:
        position = self.position(at)
        return self._starts[at] if position is None else position

    def _halt(self) -> None:
        self._driver.pause([Place(at.topic, at.partition) for at in self._starts])

    def _go_on(self) -> None:
        if not self._is_stalled:
            self._driver.resume([Place(at.topic, at.partition) for at in self._starts])

    def _leave(self) -> None:
        """A static member does not leave on close, but it does when it unsubscribes. Waits 2 s at most."""
        try:
            self._driver.unsubscribe()
            deadline = time.monotonic() + _LEAVE_WAIT_S
            while self._owned and time.monotonic() < deadline:
                self._driver.poll(0.02)
        except KafkaException as raised:
            self._feed.note(poll_trouble(error_of(raised), f"{self._group}: leave"))

    def _on_assign(self, driver: Consumer, places: list[Place]) -> None:
        try:
            driver.assign([])
        except KafkaException as raised:
            self._feed.note(poll_trouble(error_of(raised), f"{self._group}: assign"))
        self._assigned = [TopicPartition(place.topic, place.partition) for place in places]
        self._owned, self._has_share = frozenset(self._assigned), True
        self._starts = {}
        self._held.clear()

    def _on_revoke(self, driver: Consumer, places: list[Place]) -> None:
        try:
            driver.unassign()
        except KafkaException as raised:
            self._feed.note(poll_trouble(error_of(raised), f"{self._group}: unassign"))
        self._revoked += [TopicPartition(place.topic, place.partition) for place in places]
        self._assigned = []
        self._owned, self._has_share = frozenset(), False
        self._starts = {}
        self._held.clear()

    def _require_open(self) -> None:
        if self._is_closed:
            raise RuntimeError(f"{self._group}: this consumer was closed")
