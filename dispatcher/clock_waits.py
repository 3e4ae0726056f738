"""Commands whose stamps lie too far ahead of this process's clock: they wait, and with them only their own shard's.

The store takes no such stamp (``ClockBehind``): it would be the newest for as long. To count that as a store that is
away would stop every shard once its window ends, for as long as the clock is behind.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import structlog

from waterclock.clock import Clock
from waterclock.model.errors import ClockBehind

from .shard import Shard

_REST_S = 5.0
"""So long a shard's commands are left alone: each try reads and decides a batch."""

log_ = structlog.get_logger("dispatcher")


class ClockWaits:
    """Of one dispatcher."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until_s: dict[int, float] = {}

    def apply(self, shards: Sequence[Shard], apply: Callable[[Sequence[Shard]], object]) -> None:
        """``apply`` the commands of these shards together, or where one's must wait, of each alone."""
        now_s = self._clock.monotonic_s()
        going = [shard for shard in shards if self._until_s.get(shard.partition, now_s) <= now_s]
        try:
            apply(going)
        except ClockBehind:
            for shard in going:
                self._apply_alone(shard, apply, now_s)

    def _apply_alone(self, shard: Shard, apply: Callable[[Sequence[Shard]], object], now_s: float) -> None:
        try:
            apply([shard])
        except ClockBehind as behind:
            self._until_s[shard.partition] = now_s + _REST_S
            log_.error("commands wait for this process's clock", partition=shard.partition, cause=str(behind))
