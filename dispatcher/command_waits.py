"""Shards whose commands have to wait, so that only these do.

Stamps may lie too far ahead of this process's clock: the store takes no such stamp (``ClockBehind``), for it would be
the newest for as long. To count that as a store that is away would stop every shard once its window ends, for as long
as the clock is behind. And what one batch asks for may be the one thing that the store cannot read: where it did not
answer all shards together each is tried alone, one a round, and who fails then is left alone for a while.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import structlog

from waterclock.clock import Clock
from waterclock.model.errors import BackendDown, ClockBehind

from .shard import Shard

_REST_S = 5.0
"""So long a shard's commands are left alone: each try reads and decides a batch."""

log_ = structlog.get_logger("dispatcher")


class CommandWaits:
    """Of one dispatcher."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until_s: dict[int, float] = {}
        self._suspects: set[int] = set()
        """Partitions to be tried alone: what they asked for together was not answered."""

    def apply(self, shards: Sequence[Shard], apply: Callable[[Sequence[Shard]], object]) -> None:
        """``apply`` the commands of these shards together, or where one's must wait, of each alone. Raises
        BackendDown."""
        now_s = self._clock.monotonic_s()
        going = [shard for shard in shards if self._until_s.get(shard.partition, now_s) <= now_s]
        self._suspects.intersection_update(shard.partition for shard in going)
        if self._suspects:
            suspect = next(shard for shard in going if shard.partition in self._suspects)
            self._suspects.discard(suspect.partition)
            self._try_alone(suspect, apply, now_s)
            return
        try:
            apply(going)
        except ClockBehind:
            for shard in going:
                self._apply_alone(shard, apply, now_s)
        except BackendDown:
            if len(going) > 1:
                self._suspects.update(shard.partition for shard in going)
            raise

    def _try_alone(self, shard: Shard, apply: Callable[[Sequence[Shard]], object], now_s: float) -> None:
        try:
            self._apply_alone(shard, apply, now_s)
        except BackendDown:
            self._until_s[shard.partition] = now_s + _REST_S
            raise

    def _apply_alone(self, shard: Shard, apply: Callable[[Sequence[Shard]], object], now_s: float) -> None:
        try:
            apply([shard])
        except ClockBehind as behind:
            self._until_s[shard.partition] = now_s + _REST_S
            log_.error("commands wait for this process's clock", partition=shard.partition, cause=str(behind))
