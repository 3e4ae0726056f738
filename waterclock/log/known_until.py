"""Until when all of a partition is known, to a role that keeps up and is never quite at its end.

Whoever ends what is over its time must have read what was written before: it may have ended. No poll says so: a client
hands out what it has fetched by then, and after this process or its connection stood still that may be little of what
there is. Only a question does: the clock first, then where the partition ends; once it was read to there, all is known
until that instant. What must hold: nothing that was written before ``at`` is unread. How it fails: somebody's open
transaction hides the end for as long as it is open, and the instant does not move.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from waterclock.clock import Clock
from waterclock.model.ids import Instant

from .port import Log, TopicPartition

ASK_EVERY_S = 1.0
KEEPS_UP_S = 30.0


class KnownUntil:
    """Of one partition while it is ours: what a predecessor knew says nothing."""

    __slots__ = ("_asked_at", "_asked_s", "_at", "_end", "_known_s")

    def __init__(self) -> None:
        self._at: Instant = 0
        self._known_s = float("-inf")
        self._asked_at: Instant = 0
        self._asked_s = float("-inf")
        self._end: int | None = None
        """Where it ended when that was asked last; None once it was read to there."""

    def at(self, now: Instant) -> Instant:
        """The instant; never behind ``now``, for a clock may have been put back."""
        return min(self._at, now)

    def keeps_up(self, clock: Clock) -> bool:
        """Whether that instant is not long ago."""
        return clock.monotonic_s() - self._known_s <= KEEPS_UP_S

    def due_s(self) -> float:
        """When it is to be asked again, by the monotonic clock."""
        return float("inf") if self._end is not None else self._asked_s + ASK_EVERY_S

    def ask(self, log: Log, clock: Clock, partition: TopicPartition) -> None:
        """Where does it end now? Raises BackendDown."""
        self._asked_at, self._asked_s = clock.now(), clock.monotonic_s()
        self._end = log.high_watermark(partition)

    def read_to(self, offset: int) -> None:
        """Everything below this offset was read and dealt with."""
        if self._end is not None and offset >= self._end:
            self._at, self._known_s, self._end = self._asked_at, self._asked_s, None


class _Reads(Protocol):
    known_until: KnownUntil
    next_offset: int
    partition: TopicPartition


def look(log: Log, clock: Clock, shards: Iterable[_Reads]) -> None:
    """Note how far these were read, and ask where one of them ends: that is a call of the log, so only of the one that
    was asked longest ago, and of each once a second at most. Raises BackendDown."""
    due: list[_Reads] = []
    now_s = clock.monotonic_s()
    for shard in shards:
        shard.known_until.read_to(shard.next_offset)
        if shard.known_until.due_s() <= now_s:
            due.append(shard)
    if due:
        longest = min(due, key=lambda shard: shard.known_until.due_s())
        longest.known_until.ask(log, clock, longest.partition)
        longest.known_until.read_to(longest.next_offset)
