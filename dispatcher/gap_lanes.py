"""What a dispatcher does about gaps in its rounds: jumps are wanted and made, lanes are read and worked off."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

from waterclock.clock import Clock
from waterclock.log.port import Log, TopicPartition
from waterclock.model.ids import US_PER_S, Instant
from waterclock.store.port import TimeIndex
from waterclock.wire.names import Names

from . import catch_up, jump
from .applying import BATCH
from .emit import Emitter
from .gap_log import GapLog
from .lane_share import LaneShare
from .pace import Pace
from .shard import Shard

_TURNS = 4


class GapLanes:
    """Of one dispatcher. Where it answers that a gap was opened or closed, the shard's copy is written at once."""

    def __init__(self, clock: Clock, log: Log, index: TimeIndex, names: Names, pace: Pace) -> None:
        self._clock = clock
        self._log = log
        self._index = index
        self._names = names
        self._grace_us = round(pace.grace_s * US_PER_S)
        self._share = LaneShare(pace.catch_up_share, pace.catch_up_per_s, clock.monotonic_s())
        self._gap_log = GapLog()

    @property
    def share(self) -> LaneShare:
        """Its share and rate: backfills go by the same ones."""
        return self._share

    def prepare_jumps(self, shards: Sequence[Shard], now: Instant) -> None:
        """Where the backlog is long the edge is to jump; what was asked of the shard by now is applied before that."""
        for shard in shards:
            if jump.wants_jump(shard, now):
                asked_at = self._clock.now()
                commands = TopicPartition(self._names.commands, shard.partition)
                jump.prepare(shard, asked_at, self._log.high_watermark(commands))

    def jumped(self, shard: Shard) -> bool:
        """Let the edge jump, which is ready to. True: that opened a gap."""
        gap = jump.open_gap(shard)
        if gap is not None:
            self._gap_log.opened(shard, gap, self._clock.monotonic_s())
        return gap is not None

    def on_time(self, shard: Shard, limit: int) -> int:
        """How much of a round is for what is on time."""
        return limit - self._share.kept_back(limit) if shard.gaps else limit

    def work_off(
        self, shard: Shard, out: Emitter, now: Instant, used: tuple[int, int], *, on_time_waits: bool
    ) -> tuple[bool, bool]:
        """Work off the oldest gap, behind what is on time. ``used``: (all of the round, taken).

        Returns whether there is more, and whether a gap was closed.
        """
        lane, now_s = shard.lane, self._clock.monotonic_s()
        if lane is None or (shard.inbox and shard.inbox[0].timestamp_us < lane.gap_to_at):
            return False, False
        limit, taken = used
        allowed = self._share.allowed(lane, limit, taken, on_time_waits=on_time_waits, now_s=now_s)
        worked = catch_up.work_off(shard, out, now, allowed, self._grace_us)
        self._share.spend(lane, worked, on_time_waits=on_time_waits)
        shard.served = self._share.spent_count if worked else shard.served
        closed = catch_up.close_gap(shard)
        if closed is not None:
            self._gap_log.closed(shard, closed)
        else:
            self._gap_log.going_on(shard, now_s)
        return worked > 0 and lane.has_ready, closed is not None

    def read_before_jump(self, shard: Shard) -> bool:
        """One slice of what is read before the edge jumps. True: there is more to do for it at once. BackendDown."""
        assert shard.jump is not None
        if shard.caught_up and not shard.jump.is_ready:
            jump.sweep(shard, self._index, self._names)
        return shard.caught_up

    def read(self, shard: Shard, *, hungry: bool) -> bool:
        """One slice of the oldest gap, behind the window, but not for ever: where that is never satisfied (``hungry``)
        it has one in four of the shard's turns. True while its lane has less than it could take. Raises BackendDown."""
        if not shard.gaps or not shard.caught_up:
            return False
        shard.gap_turns += 1
        if hungry and shard.gap_turns % _TURNS:
            return False
        catch_up.read_on(shard, self._index, self._names)
        lane = shard.lane
        return lane is not None and (lane.is_over or (not lane.has_ready and lane.wants_more))

    def wait_s(self, shard: Shard, *, can_store: bool) -> float | None:
        """How long the lane's next step may be waited for; None: it has none."""
        lane = shard.lane
        if lane is None or not (lane.has_ready or (can_store and lane.wants_more)):
            return None
        return self._share.wait_s()


def in_turn(shards: Iterable[Shard]) -> list[Shard]:
    """In the order in which they may take of the one rate: what is owed goes before backfills, and of those who are
    alike whoever took something goes behind the others."""
    return sorted(shards, key=lambda shard: (not shard.gaps, shard.served))


def holds_commands(shard: Shard) -> bool:
    """Whether commands have to wait: inside a due time, and before a jump if they speak of the time before it."""
    if not shard.caught_up:
        return False
    if shard.jump is None:
        return shard.inside_due_time
    return any(record.timestamp_us < shard.jump.to_at for record in islice(shard.inbox, BATCH))
