"""Where to begin in a tier when its group has lost its position: after the newest claim, never at the start.

Offsets of a group die with it (a week without members, or a reset by hand). A replay from the start would hand work
to user code again that was done long ago: a STARTED that the arbiter ignores does not stop a handler. So the position
is one past the highest offset of that partition that any accepted STARTED names; where none does, nothing of it was
ever claimed and the beginning of the partition is right: the first start.

Limit: it reads run-events whole, so it takes about as long as the events kept divided by 100,000 a second. The worker
keeps beating meanwhile (``breathe``).
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from waterclock.log.port import Isolation, Log, TopicPartition
from waterclock.log.reading import read_range
from waterclock.model.errors import RequestError
from waterclock.model.events import EventKind, Started
from waterclock.model.fold import Fold
from waterclock.wire.codec import decode_event

_BREATHE_EVERY = 1_000
_OPEN_MAX = 20_000_000
"""Beyond what other roles are set to: a backlog that they hold must not keep away the workers that shrink it."""


class ClaimedPositions:
    """What the accepted STARTED events say about the tier topics; reads on from where it stopped the last time."""

    def __init__(self, log: Log, run_events: str, generation: int, breathe: Callable[[], None]) -> None:
        self._log = log
        self._breathe = breathe
        self._partitions = [TopicPartition(run_events, number) for number in range(log.partitions(run_events))]
        self._folds: dict[TopicPartition, Fold[None]] = {
            partition: Fold(generation=generation, open_max=_OPEN_MAX) for partition in self._partitions
        }
        self._read_to = {partition: log.low_watermark(partition) for partition in self._partitions}
        self._next: dict[TopicPartition, int] = {}

    def rebuild(self, missing: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """A position for each of ``missing``. Raises BackendDown; call it again then, it goes on where it stopped."""
        for partition in self._partitions:
            self._read(partition, self._log.high_watermark(partition))
        return {
            partition: max(self._next.get(partition, 0), self._log.low_watermark(partition)) for partition in missing
        }

    def _read(self, partition: TopicPartition, end: int) -> None:
        fold = self._folds[partition]
        since_breath = 0
        for record in read_range(self._log, Isolation.COMMITTED, partition, self._read_to[partition], end):
            self._apply(fold, record.value, record.offset)
            self._read_to[partition] = record.offset + 1
            since_breath += 1
            if since_breath >= _BREATHE_EVERY:
                since_breath = 0
                self._breathe()
        self._read_to[partition] = end

    def _apply(self, fold: Fold[None], value: bytes | None, offset: int) -> None:
        if value is None:
            return
        try:
            event = decode_event(value)
            accepted = fold.apply(event, offset).accepted
        except RequestError:
            # Not an event of ours, so it claims nothing; the readers of run-events are the ones that report it.
            return
        if accepted and event.kind is EventKind.STARTED and isinstance(event.detail, Started):
            claimed = TopicPartition(event.detail.topic, event.detail.partition)
            self._next[claimed] = max(self._next.get(claimed, 0), event.detail.offset + 1)
