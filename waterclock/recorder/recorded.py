"""The recorder's word of how far history is written, kept beside it: for whoever needs to know of every run.

What must hold: a position is told only once it is committed, so every row below it was acknowledged before. Then the
word stays true for ever, whoever said it, and whenever it is read. It may lag: whoever needs more reads the log from
there on.
"""

from __future__ import annotations

from waterclock.model.ids import Instant
from waterclock.store.backfill_port import Recorded

TELL_EVERY_S = 5.0


class RecordedPositions:
    """Of one recorder. ``generation``: of the topics."""

    def __init__(self, generation: int) -> None:
        self._generation = generation
        self._reached: dict[int, int] = {}
        self._told: dict[int, int] = {}
        self._told_s = -TELL_EVERY_S

    def reached(self, shard: int, offset: int) -> None:
        """The position of a shard was committed."""
        self._reached[shard] = offset

    def word(self, now: Instant, now_s: float) -> tuple[Recorded, ...]:
        """What is to be told now: every few seconds, of the shards that have moved."""
        moved = [(shard, offset) for shard, offset in self._reached.items() if self._told.get(shard) != offset]
        if not moved or now_s - self._told_s < TELL_EVERY_S:
            return ()
        self._told_s = now_s
        self._told.update(moved)
        return tuple(Recorded(shard, self._generation, offset, now) for shard, offset in moved)
