"""One partition of a rung while it is ours: the records that stand there, and which of them have moved on.

On a rung nearly all records stand equally long, so they leave in the order in which they came. Not so on the smallest,
where those stand too that have less than its second left: they must not wait behind others. So whoever's hop ends first
leaves first, and what has moved on ahead of the oldest that still stands rides as a bitmap in the metadata of the
committed position, which is that oldest one's.

A partition that is full takes nothing more, and holds back no other one: what comes then is let go again, and read once
more when half of what stands has moved on. (Pausing a single partition is not in the port; pausing all would make those
late that have room.)

What must hold: nothing moves on twice or never, across restarts: position and bitmap are committed in the round that
moves. How it fails: a commit without metadata by somebody else erases the bitmap, and what it named moves on twice; the
reducer then accepts one of the two. The bitmap spans at most ``SPAN_MAX`` offsets: what is farther ahead waits.
"""

from __future__ import annotations

import base64
import heapq
from collections import deque
from typing import NamedTuple

from waterclock.log.following import Position
from waterclock.log.port import Committed, Consumer, Record, TopicPartition
from waterclock.model.ids import Instant

from .hops import Wait

BYTES_MAX = 8 * 1024 * 1024
"""Bytes of one partition's records that are held in memory; the rest waits on the topic."""

SPAN_MAX = 20_000
"""Offsets that a bitmap may span: 3,334 characters of the 4,095 that metadata may have."""

_REFILL_EMPTY_POLLS = 20
"""So many polls that bring nothing end the reading of what was let go."""

_MOVED = "moved="
_AGAIN = "again="


class Standing(NamedTuple):
    """A record that stands until ``ends_at``; ordered by that. ``wait`` None: it does not say, and goes at once.

    ``may_repeat``: it may have moved on before.
    """

    ends_at: Instant
    offset: int
    wait: Wait | None
    record: Record
    may_repeat: bool = False


class Stand(Position):
    """The records of one partition, at most ``most`` of them. ``committed``: what the group has; None: from ``low``.

    ``end``: of the topic as of now, wanted where the position does not say what has moved on, as one that was lost, or
    set by hand without its text: any record below may have. That rides on with the position until it has passed them.
    """

    __slots__ = ("_bytes", "_empty_polls_left", "_heap", "_may_repeat_to", "_most", "_moved", "_order", "_rest_from")

    def __init__(
        self, partition: TopicPartition, committed: Committed | None, low: int, most: int, end: int = 0
    ) -> None:
        start_at = low if committed is None else max(low, committed.offset)
        super().__init__(partition, start_at)
        self._most = most
        told = may_repeat_to(committed)
        self._may_repeat_to = end if told is None else told
        self._bytes = 0
        self._heap: list[Standing] = []
        self._order: deque[int] = deque()
        self._moved = set() if committed is None else moved_from_text(committed.offset, committed.metadata)
        self._rest_from: int | None = None
        self._empty_polls_left = 0

    def __len__(self) -> int:
        """How many records are held, those included that have moved on ahead of an older one."""
        return len(self._order)

    @property
    def next_end(self) -> Instant | None:
        """When the next record may move on; None: none stands here."""
        return self._heap[0].ends_at if self._heap else None

    @property
    def wants_more(self) -> bool:
        """There is more on the topic than was let in, and room for it: it is to be read at once."""
        return self._empty_polls_left > 0 if self._rest_from is None else self._has_room

    def came_empty(self) -> None:
        """A poll of the rung brought nothing. Straight after a start that may be too early to mean anything."""
        self._empty_polls_left = max(self._empty_polls_left - 1, 0)

    def take(self, record: Record, wait: Wait | None) -> None:
        """A record came. One that a predecessor moved on only lets the position pass; a full stand lets it go."""
        self.has_begun = True
        if self._rest_from is not None:
            return
        if len(self._order) >= self._most or self._bytes >= BYTES_MAX:
            self._rest_from, self._empty_polls_left = record.offset, 0
            return
        self._order.append(record.offset)
        if record.offset not in self._moved:
            ends_at = 0 if wait is None else wait.ends_at
            may_repeat = record.offset < self._may_repeat_to
            heapq.heappush(self._heap, Standing(ends_at, record.offset, wait, record, may_repeat))
            self._bytes += len(record.value or b"")
        self._pass()

    def move(self, consumer: Consumer) -> None:
        """As a position does; never past what was let go."""
        if self._rest_from is None:
            super().move(consumer)
        else:
            self.next_offset = self._rest_from

    def go_on(self) -> int | None:
        """From where the rest must be read now; None: nothing was let go, or there is no room for it yet."""
        rest_from = self._rest_from
        if rest_from is None or not self._has_room:
            return None
        self._rest_from, self.has_begun = None, False
        self._empty_polls_left = _REFILL_EMPTY_POLLS
        return rest_from

    def move_on(self, now: Instant) -> Standing | None:
        """The record whose hop ended first, if it has; it counts as moved from here on."""
        if not self._heap or self._heap[0].ends_at > now or self._heap[0].offset - self._oldest > SPAN_MAX:
            return None
        standing = heapq.heappop(self._heap)
        self._bytes -= len(standing.record.value or b"")
        self._moved.add(standing.offset)
        self._pass()
        return standing

    def to_commit(self) -> Committed | None:
        """The position of the oldest record that still stands, and which have moved on ahead of it."""
        oldest = self._oldest
        due = Committed(oldest, moved_to_text(oldest, self._moved, self._may_repeat_to))
        return None if due == self.committed else due

    @property
    def _has_room(self) -> bool:
        return len(self._order) <= self._most // 2 and self._bytes <= BYTES_MAX // 2

    @property
    def _oldest(self) -> int:
        if self._order:
            return self._order[0]
        oldest = self.next_offset
        while oldest in self._moved:  # by a predecessor, and not read by us yet: the bitmap begins behind the position
            oldest += 1
        return oldest

    def _pass(self) -> None:
        order, moved = self._order, self._moved
        while order and order[0] in moved:
            moved.discard(order.popleft())


def moved_to_text(oldest: int, moved: set[int], repeat_to: int = 0) -> str:
    """The offsets above ``oldest`` that have moved on, as text that rides with the position. ``repeat_to``: those below
    that offset may have moved on, too."""
    bits = 0
    for offset in moved:
        if offset > oldest:
            bits |= 1 << offset - oldest - 1
    size = (bits.bit_length() + 7) // 8
    text = _MOVED + base64.b64encode(bits.to_bytes(size, "little")).decode()
    return f"{_AGAIN}{repeat_to} {text}" if repeat_to > oldest else text


def may_repeat_to(committed: Committed | None) -> int | None:
    """The offset below which records may have moved on though the text does not say so; None: there is no text."""
    metadata = "" if committed is None else committed.metadata
    first, _, rest = metadata.partition(" ")
    offset = first.removeprefix(_AGAIN)
    if offset != first and offset.isdecimal() and rest.startswith(_MOVED):
        return int(offset)
    return 0 if metadata.startswith(_MOVED) else None


def moved_from_text(oldest: int, metadata: str) -> set[int]:
    """The inverse; nothing where a commit without it has erased it."""
    found = metadata.rpartition(" ")[2]
    text = found.removeprefix(_MOVED)
    if text == found:
        return set()
    bits = int.from_bytes(base64.b64decode(text), "little")
    return {oldest + 1 + place for place in range(bits.bit_length()) if bits >> place & 1}
