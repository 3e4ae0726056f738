"""Gaps in the turns of a dispatcher: when the edge jumps, when a gap is read, how much of a round its lane takes.

What is on time goes first: the window is loaded before a gap is read, but for one turn in four where the window is
never satisfied, and a lane has what is left of a round, or its share.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from math import inf

from waterclock.clock import Clock
from waterclock.log.port import Log, TopicPartition
from waterclock.model.ids import Instant
from waterclock.store.port import TimeIndex
from waterclock.wire.names import Names

from . import catch_up, jump
from .applying import BATCH
from .emit import Emitter
from .gap_log import GapLog
from .lane_share import LaneShare
from .shard import Shard

_TURNS = 4


class GapKeeping:
    """Of one dispatcher."""

    def __init__(self, clock: Clock, log: Log, index: TimeIndex, names: Names, share: LaneShare) -> None:
        self._clock = clock
        self._log = log
        self._index = index
        self._names = names
        self._share = share
        self._told = GapLog()
        self._turn = 0

    def prepare_jumps(self, shards: Sequence[Shard], now: Instant) -> None:
        """Where the backlog is long the edge is to jump; what was asked of the shard by now is applied before that."""
        for shard in shards:
            if jump.wants_jump(shard, now):
                asked_at = self._clock.now()
                commands = TopicPartition(self._names.commands, shard.partition)
                jump.prepare(shard, asked_at, self._log.high_watermark(commands))

    def is_jumping(self, shard: Shard) -> bool:
        """Whether fires must wait because the edge is about to jump. Once all is read it jumps here."""
        if shard.jump is None or not shard.jump.is_ready:
            return shard.jump is not None
        gap = jump.open_gap(shard)
        if gap is not None:
            self._told.opened(shard, gap, self._clock.monotonic_s())
        return False

    def for_on_time(self, shard: Shard, limit: int) -> int:
        """How much of a round that may take ``limit`` is for what is on time."""
        return limit - self._share.kept_back(limit) if shard.gaps else limit

    def catch_up(
        self, shard: Shard, out: Emitter, now: Instant, grace_us: int, used: tuple[int, int], *, on_time_waits: bool
    ) -> bool:
        """Work off the oldest gap, behind what is on time. ``used``: (all of the round, taken). True: there is more."""
        lane, now_s = shard.lane, self._clock.monotonic_s()
        if lane is None or (shard.inbox and shard.inbox[0].timestamp_us < lane.gap_to_at):
            return False
        allowed = self._share.allowed(lane, *used, on_time_waits=on_time_waits, now_s=now_s)
        worked = catch_up.work_off(shard, out, now, allowed, grace_us)
        self._share.spend(lane, worked, on_time_waits=on_time_waits)
        closed = catch_up.close_gap(shard)
        if closed is not None:
            self._told.closed(shard, closed)
        else:
            self._told.going_on(shard, now_s)
        return worked > 0 and lane.has_ready

    def sweep(self, shard: Shard) -> bool:
        """One slice of what is read before the edge jumps. True: there is more to do for it at once."""
        assert shard.jump is not None
        if shard.caught_up and not shard.jump.is_ready:
            jump.sweep(shard, self._index, self._names)
        return shard.caught_up

    def read(self, shard: Shard, *, window_is_hungry: bool) -> bool:
        """One slice of the oldest gap, if it is its turn. True while its lane has less than it could take."""
        self._turn += 1
        is_its_turn = not window_is_hungry or self._turn % _TURNS == 0
        if not shard.gaps or not shard.caught_up or shard.jump is not None or not is_its_turn:
            return False
        catch_up.read_on(shard, self._index, self._names)
        lane = shard.lane
        return lane is not None and (lane.is_over or (not lane.has_ready and lane.wants_more))

    def patience_s(self, shard: Shard, *, can_store: bool) -> float:
        """How long its lane may wait; for ever where it has nothing to do."""
        lane = shard.lane
        has_work = lane is not None and (lane.has_ready or (can_store and lane.wants_more))
        return self._share.wait_s() if has_work else inf


def holds_commands(shard: Shard) -> bool:
    """Whether commands have to wait: inside a due time, and before a jump if they speak of the time before it."""
    if not shard.caught_up:
        return False
    if shard.jump is None:
        return shard.inside_due_time
    return any(record.timestamp_us < shard.jump.to_at for record in islice(shard.inbox, BATCH))
