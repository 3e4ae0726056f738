"""The end of run-events, read as it grows: for those who wait for an answer, and for those who watch.

Without a group, from the end, committed records alone. What must hold: every batch is handed to the event loop in
order, with a bound on how many may be on their way (a slow loop slows the reader, never fills the memory); of a record
nothing but its kind is looked at until somebody wants it, because most pass by unseen; it rests while it is told to
(``resting.py``). How it fails: a position that the log lost: it goes on at the end and says so; who waited for an
answer in between gets an operation instead.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence

import structlog

from waterclock.log.port import Isolation, Log, Reader, Record, TopicPartition
from waterclock.model.errors import LostResource, UndecodableRecord
from waterclock.model.events import EventKind, RunEvent
from waterclock.model.ids import Instant
from waterclock.wire.codec import decode_event
from waterclock.wire.glance import kind_at_a_glance

_POLL_RECORDS = 2_000
_POLL_S = 0.05
_BATCHES_UNDER_WAY = 16
_ROOM_WAIT_S = 5.0

_log = structlog.get_logger()


class Seen:
    """A run event and where it stands. ``at``: the record's time; ``job_id``: its key."""

    __slots__ = ("_event", "_value", "at", "job_id", "kind", "offset", "partition")

    def __init__(
        self,
        partition: int,
        offset: int,
        at: Instant,
        event: RunEvent | None = None,
        key: bytes = b"",
        value: bytes = b"",
    ) -> None:
        self.partition = partition
        self.offset = offset
        self.at = at
        self.job_id = key.decode(errors="replace") if event is None else event.job_id
        self._value = value
        self._event = event
        known = kind_at_a_glance(value) if event is None else event.kind
        self.kind = self.event.kind if known is None else known

    @property
    def event(self) -> RunEvent:
        """The event; one that nobody can read is UNKNOWN (whoever acts on run-events rejects it)."""
        if self._event is None:
            try:
                self._event = decode_event(self._value)
            except UndecodableRecord as error:
                _log.warning("record passed over", partition=self.partition, offset=self.offset, cause=str(error))
                self._event = RunEvent(EventKind.UNKNOWN, self.job_id, "", self.at)
        return self._event


FOR_ORDERS = frozenset({EventKind.ANSWERED, EventKind.REVISED})
"""What is waited for by whoever has sent a command."""
_LIKELY: frozenset[EventKind | None] = FOR_ORDERS | {None}


class SeenBatch:
    """One poll's events. Its thread picks out what is awaited; all of them are made when somebody looks at them."""

    __slots__ = ("_all", "_records", "ends", "orders")

    def __init__(self, records: Sequence[Record]) -> None:
        self._records = records
        self._all: list[Seen] | None = None
        self.ends = {record.partition: record.offset + 1 for record in records}
        """The next offset of each partition."""
        likely = [_seen(record) for record in records if kind_at_a_glance(record.value or b"") in _LIKELY]
        self.orders = [seen for seen in likely if seen.kind in FOR_ORDERS]
        """Those that ``FOR_ORDERS`` names."""

    def __iter__(self) -> Iterator[Seen]:
        if self._all is None:
            self._all = [_seen(record) for record in self._records]
        return iter(self._all)


def _seen(record: Record) -> Seen:
    return Seen(record.partition, record.offset, record.timestamp_us, None, record.key or b"", record.value or b"")


class Tail:
    """``step`` belongs to one thread; ``deliver`` is called on ``loop`` with each batch, in order.

    ``began`` is called there, too, when it has begun anew because it was told so: with the number of that turn, and
    from where it reads, by partition. ``missed``, with the latter, when it had to: events have passed unseen.
    """

    def __init__(
        self,
        log: Log,
        topic: str,
        loop: asyncio.AbstractEventLoop,
        deliver: Callable[[SeenBatch], None],
        began: Callable[[int, Mapping[int, int]], None],
        missed: Callable[[Mapping[int, int]], None],
    ) -> None:
        self._log = log
        self._topic = topic
        self._loop = loop
        self._deliver = deliver
        self._began = began
        self._missed = missed
        self._turn = self._wanted = 1
        """Which turn of reading this is, and which is wanted; 0: none, it rests."""
        self._stirred = threading.Event()
        self._room = threading.BoundedSemaphore(_BATCHES_UNDER_WAY)
        self._reader: Reader | None = None

    def begin(self) -> dict[int, int]:
        """Read from the end as of now on; returns it, by partition. Raises BackendDown."""
        ends: dict[TopicPartition, int] = {}
        for partition in range(self._log.partitions(self._topic)):
            place = TopicPartition(self._topic, partition)
            ends[place] = self._log.high_watermark(place)
        if self._reader is None:
            self._reader = self._log.reader(Isolation.COMMITTED)
        self._reader.assign(ends)
        return {place.partition: end for place, end in ends.items()}

    def step(self, wait_s: float = _POLL_S) -> bool:
        """Take what is new. False: nothing is. Raises BackendDown."""
        assert self._reader is not None, "begin() comes first"
        wanted = self._wanted  # once: the event loop may change it meanwhile
        if wanted != self._turn:
            self._change(wanted)
        if not wanted:
            self._stirred.wait(wait_s)
            self._stirred.clear()
        try:
            # At rest it brings no record: but the driver's own news has to be fetched.
            records = self._reader.poll(_POLL_RECORDS, wait_s if wanted else 0.0)
        except LostResource as lost:
            if wanted:
                _log.warning("the tail goes on at the end", cause=str(lost))
                self._loop.call_soon_threadsafe(self._missed, self.begin())
            return False
        if records:
            self._hand_over(SeenBatch(records))
        return bool(records)

    def turn_to(self, turn: int) -> None:
        """Read from the end on, anew for another number; 0: rest. For the event loop."""
        self._wanted = turn
        self._stirred.set()

    @property
    def is_called(self) -> bool:
        """Whether it is to do otherwise than it does."""
        return self._wanted != self._turn

    def close(self) -> None:
        """Give the reader up."""
        if self._reader is not None:
            self._reader.close()

    def _change(self, wanted: int) -> None:
        assert self._reader is not None
        if wanted:
            self._loop.call_soon_threadsafe(self._began, wanted, self.begin())
        else:
            self._reader.assign({})
        self._turn = wanted

    def _hand_over(self, seen: SeenBatch) -> None:
        while not self._room.acquire(timeout=_ROOM_WAIT_S):
            if self._loop.is_closed():
                return
            _log.warning("the event loop is slow: the tail waits for it")
        self._loop.call_soon_threadsafe(self._take, seen)

    def _take(self, seen: SeenBatch) -> None:
        self._room.release()
        self._deliver(seen)
