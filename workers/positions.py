"""What has been claimed of a tier, from run-events: for partitions in which the tier's group has no position.

Offsets of a group die with it (a week without members, or a reset by hand), and a new pool has none yet. A replay from
the start would hand work to user code again that was done long ago: a STARTED that the arbiter ignores does not stop a
handler. So the position is one past the highest offset that any STARTED names. What must hold:

* every STARTED counts, also one that the arbiter ignores: it left in one round with the position behind its work, and
  that round had taken all the work before. What the arbiter made of it only the whole log can say;
* read is from when the oldest work that is kept was written (its claim stands behind that; offsets are asked for by
  time, with a margin for clocks) to the high watermark as of the question;
* the round thread is never held up: each look reads a bounded slice, so that whoever waits beats, and stays in its
  groups, however long it takes;
* where run-events is kept for less than work, what is older than the oldest event is passed over: nobody can say
  whether it was claimed, and the reconciler ends the runs of what was not. Whatever made work left an event beside it;
* nothing is read twice: what was claimed stays claimed, whatever becomes of memberships and incarnations. What others
  have claimed since stands behind the end of what was read, and only that is read by who asks again.

How it fails: BackendDown and LostResource, and it goes on where it stood at the next look; somebody's open transaction
makes it wait, until it times out. Limit: about 100,000 events a second; a restart of the process reads anew.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

import structlog

from waterclock.log.port import Isolation, Log, Reader, Record, TopicPartition
from waterclock.log.reading import read_range
from waterclock.model.errors import RequestError
from waterclock.model.events import EventKind, Started
from waterclock.model.ids import US_PER_S, Instant
from waterclock.wire.codec import decode_event

_MARGIN_US = 10 * US_PER_S
_CLOCKS_APART_US = 3_600 * US_PER_S
"""Of who made work and who made events: brokers take no stamp further ahead, and who is further behind waits."""
_DATED_PER_LOOK = 8
"""Each takes a client of its own, so some hundredths of a second."""
_IDLE_POLLS_MAX = 20
_POLLS_PER_LOOK = 5
_BATCH = 1_000
_WAIT_S = 0.005
_TELL_EVERY = 1_000_000

logger = structlog.get_logger()


@dataclass(slots=True, eq=False)
class _Stretch:
    """A part of a run-events partition that is still to be read."""

    place: TopicPartition
    next_offset: int
    end: int


class ClaimedPositions:
    """What the STARTED events say about the tier topics, as far as somebody has asked."""

    def __init__(self, log: Log, run_events: str) -> None:
        self._log = log
        self._run_events = run_events
        self._next: dict[TopicPartition, int] = {}
        self._undated: dict[TopicPartition, None] = {}
        self._oldest_at: Instant | None = None
        self._dated: list[TopicPartition] = []
        self._unseen_to: dict[TopicPartition, int] = {}
        """By tier partition, where work begins of which run-events can say whether it was claimed."""
        # By run-events partition what was asked for, read or still to be read: one stretch each.
        self._asked: dict[TopicPartition, tuple[int, int]] = {}
        self._unread: deque[_Stretch] = deque()
        self._reader: Reader | None = None
        self._assigned: _Stretch | None = None
        self._read_count = 0

    def ask(self, places: Iterable[TopicPartition]) -> None:
        """From now on ``look`` reads what these need, to the end as of then."""
        self._undated.update(dict.fromkeys(places))

    @property
    def is_read(self) -> bool:
        """Whether all that was asked for is known."""
        return not self._undated and self._oldest_at is None and not self._unread

    def next_offset(self, place: TopicPartition) -> int:
        """One past the newest claim; where there is none, the first work that may be one's own; 0: all of it."""
        assert self.is_read, "an older claim may be all that was read so far"
        return max(self._next.get(place, 0), self._unseen_to.get(place, 0))

    def look(self) -> None:
        """Read on, a bounded slice. Raises BackendDown, LostResource."""
        if self.is_read:
            return
        self._date()
        if self._oldest_at is not None and not self._undated:
            self._want(self._oldest_at - _MARGIN_US)
            self._oldest_at = None
        try:
            self._read_on()
        except BaseException:
            self._assigned = None  # wherever the reader stands now, the next look begins where this one has come to
            raise

    def close(self) -> None:
        """Give the reader up."""
        if self._reader is not None:
            self._reader.close()

    def _date(self) -> None:
        """Find out since when work is kept."""
        for place in list(self._undated)[:_DATED_PER_LOOK]:
            written_at = self._first_written_at(place)
            del self._undated[place]
            self._dated.append(place)
            if written_at is not None and (self._oldest_at is None or written_at < self._oldest_at):
                self._oldest_at = written_at

    def _want(self, since: Instant) -> None:
        """What stands from ``since`` to the end as of now is to be read, as far as it was not asked for before."""
        self._pass_over_unseen(since)
        for number in range(self._log.partitions(self._run_events)):
            place = TopicPartition(self._run_events, number)
            start, end = self._log.offset_at(place, since), self._log.high_watermark(place)
            first, last = self._asked.get(place, (start, start))
            if start > last:
                first = last = start
            for stretch in (_Stretch(place, start, first), _Stretch(place, last, end)):
                if stretch.next_offset < stretch.end:
                    self._unread.append(stretch)
            self._asked[place] = (min(start, first), max(last, end))
        left = sum(stretch.end - stretch.next_offset for stretch in self._unread)
        logger.info("claims_to_be_read", topic=self._run_events, offsets=left)

    def _pass_over_unseen(self, since: Instant) -> None:
        """See to it that nothing is replayed whose claim may be gone: what is older than all events that are kept."""
        events = [TopicPartition(self._run_events, number) for number in range(self._log.partitions(self._run_events))]
        first = {place: self._log.low_watermark(place) for place in events}
        if any(first.values()) and all(self._log.offset_at(place, since) <= low for place, low in first.items()):
            written = [at for place in events if (at := self._first_written_at(place)) is not None]
            for place in self._dated:
                end, low = self._log.high_watermark(place), self._log.low_watermark(place)
                to = self._log.offset_at(place, min(written) - _CLOCKS_APART_US) if written else end
                if to > low:
                    logger.error("work_is_older_than_all_events_that_are_kept", topic=place.topic,
                                 partition=place.partition, from_offset=low, to_offset=to)  # fmt: skip
                self._unseen_to[place] = to
        self._dated.clear()

    def _first_written_at(self, place: TopicPartition) -> Instant | None:
        low, high = self._log.low_watermark(place), self._log.high_watermark(place)
        # Uncommitted, or an open transaction at the head would be waited for; an aborted record is no younger.
        kept = read_range(self._log, Isolation.UNCOMMITTED, place, low, high, idle_polls=_IDLE_POLLS_MAX)
        return next((record.timestamp_us for record in kept), None)

    def _read_on(self) -> None:
        for _ in range(_POLLS_PER_LOOK):
            if not self._unread:
                return
            stretch = self._unread[0]
            reader = self._reader_of(stretch)
            records = reader.poll(_BATCH, _WAIT_S)
            for record in records:
                if record.offset < stretch.end:
                    self._note(record)
            stretch.next_offset = reader.position(stretch.place)
            self._count(len(records))
            if stretch.next_offset >= stretch.end:
                self._unread.popleft()
                if not self._unread:
                    logger.info("claims_read", topic=self._run_events, events=self._read_count)
            elif not records:
                return

    def _reader_of(self, stretch: _Stretch) -> Reader:
        if self._reader is None:
            self._reader = self._log.reader(Isolation.COMMITTED)
        if self._assigned is not stretch:
            # It may have waited for hours, and retention goes on.
            low = self._log.low_watermark(stretch.place)
            self._reader.assign({stretch.place: max(stretch.next_offset, low)})
            self._assigned = stretch
        return self._reader

    def _note(self, record: Record) -> None:
        if record.value is None:
            return
        try:
            event = decode_event(record.value)
        except RequestError:
            return  # not an event of ours, so it claims nothing; the readers of run-events are the ones that report it
        if event.kind is EventKind.STARTED and isinstance(event.detail, Started):
            claimed = TopicPartition(event.detail.topic, event.detail.partition)
            self._next[claimed] = max(self._next.get(claimed, 0), event.detail.offset + 1)

    def _count(self, events: int) -> None:
        before, self._read_count = self._read_count, self._read_count + events
        if before // _TELL_EVERY != self._read_count // _TELL_EVERY:
            left = sum(stretch.end - stretch.next_offset for stretch in self._unread)
            logger.info("claims_are_being_read", topic=self._run_events, events=self._read_count, offsets_left=left)
