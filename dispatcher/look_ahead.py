"""What is read from the store before it is due: of each shard one slice a step, of whatever it needs most.

Must hold: nothing of a window, a gap or a backfill is read before it is known whether its rows may have expired
(``rebuild.py``). And what one shard cannot read stops no other: a bucket may be unreadable for days. So whoever failed
is left alone, for longer each time, and those behind it come first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from waterclock.clock import Clock
from waterclock.model.errors import BackendDown
from waterclock.model.ids import US_PER_S, Instant
from waterclock.store.shelves import JobIndex
from waterclock.wire.names import Names

from . import jump, run_delay, window
from .backfill_lanes import BackfillLanes
from .errands import Errands
from .gap_lanes import GapLanes
from .pace import Pace
from .rebuild import Held, Rebuilds
from .shard import Shard
from .store_rest import StoreRest
from .tzdata import ZoneData

_ALONE_S = 1.0
_ALONE_S_MAX = 15.0
"""Each try may cost a time-out and then four times as much of the store's rest, for all shards; and once the store
answers again nobody is to wait for long."""


class _Alone(NamedTuple):
    """``answered_count``: how many slices had been answered by the failure that began it."""

    until_s: float
    length_s: float
    answered_count: int


class LookAhead:
    """Of one dispatcher."""

    def __init__(
        self,
        clock: Clock,
        index: JobIndex,
        names: Names,
        pace: Pace,
        errands: Errands,
        store_rest: StoreRest,
        zone_data: ZoneData,
        rebuilds: Rebuilds,
        lanes: GapLanes,
        backfills: BackfillLanes,
    ) -> None:
        self._clock = clock
        self._index = index
        self._names = names
        self._look_ahead_us = round(pace.look_ahead_s * US_PER_S)
        self._errands = errands
        self._store_rest = store_rest
        self._zone_data = zone_data
        self._rebuilds = rebuilds
        self._lanes = lanes
        self._backfills = backfills
        self._alone: dict[int, _Alone] = {}
        """By partition that failed last."""
        self._answered_count = 0

    def go_on(self, shards: Sequence[Shard], now: Instant) -> bool:
        """One slice for each shard that needs it. True while a window ends too soon. Raises OlderZoneData."""
        if self._store_rest.is_down:
            return False
        hungry = reads = False
        with self._store_rest.noting(shards):
            self._zone_data.check()
            for shard in sorted(shards, key=lambda each: each.partition in self._alone):
                if self._is_left_alone(shard):
                    continue
                try:
                    hungry |= self._window(shard, now)
                    if shard.jump is None and not self._rebuilds.held(shard, now):
                        hungry |= self._lanes.read(shard, hungry=hungry)
                        reads |= self._backfills.read(shard, hungry=hungry)
                except BackendDown:
                    self._leave_alone(shard)
                    raise
                self._answered_count += 1
                self._alone.pop(shard.partition, None)
        return hungry or reads

    def _is_left_alone(self, shard: Shard) -> bool:
        alone = self._alone.get(shard.partition)
        return alone is not None and self._clock.monotonic_s() < alone.until_s

    def _leave_alone(self, shard: Shard) -> None:
        """For longer than the last time where others were answered meanwhile: where nobody is it is the store."""
        before, length_s = self._alone.get(shard.partition), _ALONE_S
        if before is not None and before.answered_count != self._answered_count:
            length_s = min(2 * before.length_s, _ALONE_S_MAX)
        until_s = self._clock.monotonic_s() + length_s
        self._alone[shard.partition] = _Alone(until_s, length_s, self._answered_count)

    def _window(self, shard: Shard, now: Instant) -> bool:
        """What fires wait for. True while there is more of it."""
        hungry = run_delay.learn_versions(shard, self._index)
        held = self._rebuilds.held(shard, now)
        if held:
            self._rebuilds.go_on(shard, now)
            hungry = True
        if held is Held.ALL:
            return True
        if shard.jump is not None:
            return self._lanes.read_before_jump(shard) or hungry
        if jump.is_far_behind(shard, now):
            return True  # what would be loaded lies before the edge soon
        return window.go_on(shard, self._errands, self._index, self._names, now, self._look_ahead_us) or hungry
