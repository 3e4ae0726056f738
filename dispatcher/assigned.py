"""Partitions that are ours and not taken over yet (design §5.5).

Must hold: the committed positions first, for asking for them waits for pending rounds; and reading begins once a shard
stands. How it fails: a partition that cannot be read, one of ``commands`` or of the state topic without a leader, holds
up none of the others. While some shards stand it is asked for now and then; BackendDown where none does.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog

from waterclock.clock import Clock
from waterclock.log.port import Committed, Consumer, Polled, TopicPartition
from waterclock.model.errors import BackendDown
from waterclock.transact import Rounds

from .shard import Shard
from .told import ToldPositions

_AGAIN_S = 5.0

log_ = structlog.get_logger("dispatcher")


class Assigned:
    """Of one dispatcher. ``take_over`` makes the shard of a partition from what its last owner left."""

    def __init__(
        self,
        clock: Clock,
        rounds: Rounds,
        inputs: Consumer,
        told: ToldPositions,
        take_over: Callable[[TopicPartition, Committed | None], Shard],
    ) -> None:
        self._clock = clock
        self._rounds = rounds
        self._inputs = inputs
        self._told = told
        self._take_over = take_over
        self._again_at_s = 0.0
        self.waiting: set[TopicPartition] = set()

    def note(self, polled: Polled) -> None:
        """Partitions may have come or gone."""
        self.waiting = self.waiting.difference(polled.revoked).union(polled.assigned)
        if polled.assigned:
            self._again_at_s = 0.0

    def begin_again(self) -> None:
        """All that is ours is to be taken over anew."""
        self.waiting = set(self._inputs.owned())

    def take(self, shards: dict[int, Shard]) -> bool:
        """Put the shards of those that wait among the others. True where there were no others, and are some now.

        Raises BackendDown, LostResource: nothing was taken.
        """
        if not self.waiting or (shards and self._clock.monotonic_s() < self._again_at_s):
            return False
        waiting, are_first = sorted(self.waiting), not shards
        committed = self._rounds.positions(self._inputs, waiting)
        taken: dict[TopicPartition, Shard] = {}
        for place in waiting:
            try:
                taken[place] = self._take_over(place, committed.get(place))
            except BackendDown as down:
                if are_first and not taken and place == waiting[-1]:
                    raise
                log_.warning("shard not taken over: others go on", partition=place.partition, cause=str(down))
        shards.update({place.partition: shard for place, shard in taken.items()})
        self._inputs.start({place: shard.next_offset for place, shard in taken.items()})
        self._told.started(taken)
        self.waiting.difference_update(taken)
        self._again_at_s = self._clock.monotonic_s() + _AGAIN_S
        return are_first
