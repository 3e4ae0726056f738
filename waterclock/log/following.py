"""Taking a run-events partition over: where to begin reading, and from where on to act.

The retry router and the recorder fold run-events. Both commit, with their position, the offset from which the fold
must be re-read (design §5.5). A successor starts its consumer *there*, and folds without acting until it has reached
the committed position: so it knows what its predecessor knew, stays in its group meanwhile, and does nothing twice.

What must hold: nothing is committed for a partition before it is live, or the position would go back. How it fails:
where the metadata was erased, everything kept is folded again, which is slow and never wrong; what retention has
already removed cannot be known.
"""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

from waterclock.model.fold import Fold, fold_from_text, parse_fold_from

from .known_until import KnownUntil
from .port import Committed, Consumer, Log, TopicPartition

Note = TypeVar("Note")

HELD_BY_ROLE = (
    "this role may hold: the workers are far behind. Set WATERCLOCK_OPEN_RUNS_MAX of every role to twice that, about "
    "1 KB of memory each, and start it again: until then each start comes to this event, whatever workers do meanwhile"
)
"""For the message of ``FoldFull`` where that setting is the bound."""


class Beginning(NamedTuple):
    """Read from ``start_at``, act from ``act_from`` on. ``is_first``: nobody has ever committed a position."""

    start_at: int
    act_from: int
    is_first: bool


def beginning(log: Log, partition: TopicPartition, committed: Committed | None) -> Beginning:
    """Where a partition with this committed position begins. Raises BackendDown.

    Without a position it says "fold to the end as of now" (the high watermark, taken here, after the position was
    asked for); a role that acts on everything anyway may put ``act_from`` back to ``start_at``.
    """
    low = log.low_watermark(partition)
    if committed is None:
        return Beginning(low, log.high_watermark(partition), is_first=True)
    known_from = parse_fold_from(committed.metadata)
    start_at = low if known_from is None else max(low, min(known_from, committed.offset))
    return Beginning(start_at, committed.offset, is_first=False)


class Position:
    """One partition of a group while it is ours. ``next_offset``: everything below it was read and dealt with.

    ``has_begun`` is the role's to set, once a record of it, or a poll that brought nothing, came after the start: until
    then a client may still tell the position from before the start, and committing that would pass over records.
    """

    __slots__ = ("committed", "has_begun", "next_offset", "partition")

    def __init__(self, partition: TopicPartition, start_at: int) -> None:
        self.partition = partition
        self.next_offset = start_at
        self.has_begun = False
        self.committed: Committed | None = None
        """The last position committed by us, None before the first."""

    def move(self, consumer: Consumer) -> None:
        """Take over the consumer's position, past markers, once all that it delivered was dealt with."""
        position = consumer.position(self.partition) if self.has_begun else None
        if position is not None:
            self.next_offset = position

    def to_commit(self) -> Committed | None:
        """The position that is due to be committed; None where nothing moved."""
        if self.committed is not None and self.committed.offset == self.next_offset:
            return None
        return Committed(self.next_offset)


class Followed(Position, Generic[Note]):
    """A run-events partition: its fold, and whether it has reached the offset from which it acts (``live``)."""

    __slots__ = ("act_from", "fold", "known_until", "live")

    def __init__(self, partition: TopicPartition, start: Beginning, fold: Fold[Note]) -> None:
        super().__init__(partition, start.start_at)
        self.fold = fold
        self.act_from = start.act_from
        self.live = start.start_at >= start.act_from
        self.known_until = KnownUntil()

    def catch_up(self, consumer: Consumer) -> bool:
        """As ``move``. True when this made us live."""
        self.move(consumer)
        if self.live or self.next_offset < self.act_from:
            return False
        self.live = True
        return True

    def to_commit(self) -> Committed | None:
        """As the position's, with the fold's beginning; None also while not live."""
        return None if not self.live or super().to_commit() is None else self.stand()

    def stand(self) -> Committed:
        """Where this partition stands, moved or not. Only while it is live."""
        return Committed(self.next_offset, fold_from_text(self.fold.fold_from()))
