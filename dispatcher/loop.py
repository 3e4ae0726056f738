"""The dispatcher's story on one page: own, apply commands, decide what is due, catch up, commit, look ahead.

One thread, one producer, one consumer of ``commands``; a shard for each partition owned. A round carries the runs *and*
the cursor (or a gap's position) that has passed them; whatever goes wrong, the shards are taken over again.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import structlog

from waterclock.abandoned import Abandoned
from waterclock.clock import Clock
from waterclock.log.port import Committed, Log, Polled, TopicPartition
from waterclock.model.errors import LostResource, NotFound, RoundAborted, RoundInDoubt
from waterclock.model.ids import US_PER_S, Instant
from waterclock.round_pace import RoundPace
from waterclock.store.shelves import JobIndex
from waterclock.transact import Round, Rounds
from waterclock.wire.names import Names
from waterclock.wire.pools import Pools

from . import applying, deciding, releasing, run_delay
from .assigned import Assigned
from .backfill_lanes import BackfillLanes
from .closing import ask_to_close
from .command_pace import CommandPace
from .command_waits import CommandWaits
from .cursor_copy import CursorCopies
from .emit import Emitter, Templates
from .errands import AtOnce, Beside, Errands
from .event_tail import EventTail
from .gap_lanes import GapLanes, holds_commands, in_turn
from .gaps import encode_progress
from .herds import Herds
from .inbox import room_of
from .look_ahead import LookAhead
from .pace import Pace, is_behind
from .patience import until_next_s
from .pool_check import has_to_ask, leave_out_gone
from .position import Position
from .rebuild import Held, Rebuilds, has_slept
from .resuming import ask_for_resumes, let_go
from .shard import Shard
from .store_rest import StoreRest
from .sweep import Sweep
from .takeover import take_over
from .told import ToldPositions
from .tzdata import ZoneData

ROLE = "dispatcher"

_IDLE_S = 0.05
_IDLE_BEHIND_US = 1 * US_PER_S
log_ = structlog.get_logger("dispatcher")


class Dispatcher:
    """The role's core behind ports. ``generation`` is that of the partition count (design §6)."""

    def __init__(
        self,
        clock: Clock,
        log: Log,
        index: JobIndex,
        names: Names,
        *,
        instance: str,
        generation: int = 1,
        pace: Pace | None = None,
        beside: Beside | None = None,
    ) -> None:
        """``beside`` makes the calls of errands; without one each is made at once."""
        self._clock = clock
        self._log = log
        self._index = index
        self._names = names
        self._templates = Templates(names)
        self._pools = Pools(log, names, clock)
        self._generation = generation
        self._pace = pace or Pace()
        self._grace_us = round(self._pace.grace_s * US_PER_S)
        self._zone_data = ZoneData(index, clock)  # before it joins: one that is too old must own nothing
        self._partitions = log.partitions(names.commands)
        abandoned = Abandoned(log, names, ROLE, instance)
        self._rounds = Rounds(log, names.transactional_id(ROLE, instance), abandoned=abandoned)
        self._inputs = log.consumer(names.group(ROLE), [names.commands], instance=instance)
        self._rebuilds = Rebuilds(index)
        self._errands = Errands(beside or AtOnce())
        self._sweep = Sweep(index, clock, self._zone_data, self._pace, self._errands)
        self._shards: dict[int, Shard] = {}
        self._told = ToldPositions(clock, self._inputs)
        self._assigned = Assigned(clock, self._rounds, self._inputs, self._told, self._take_over)
        self._round_pace = RoundPace(clock, self._pace.round_interval_s)
        self._command_pace = CommandPace(clock)
        self._herds = Herds(clock, self._rounds, self._templates, self._pools, self._pace)
        self._idle_at_s = clock.monotonic_s()
        self._store_rest = StoreRest(clock, self._pace)
        self._command_waits = CommandWaits(clock)
        self._lanes = GapLanes(clock, log, index, names, self._pace)
        self._backfills = BackfillLanes(clock, log, index, names, self._lanes.share)
        self._look_ahead = LookAhead(
            clock, index, names, self._pace, self._errands, self._store_rest, self._zone_data, self._rebuilds,
            self._lanes, self._backfills,
        )  # fmt: skip
        self._tail = EventTail(log, names.run_events, clock)
        self._copies = CursorCopies(log, names, self._tail)

    def step(self) -> bool:
        """One cycle: own, apply, decide, commit, look ahead. True when there is more to do at once."""
        self._follow(
            self._command_pace.poll(self._rounds, self._inputs, room_of(self._shards.values()), self._patience_s())
        )
        if self._assigned.take(self._shards):
            self._store_rest.end()
        if self._herds.is_held(self._shards.values()):
            return False
        has_news = not self._rounds.is_early and self._read_events()
        now = self._clock.now()
        out = Emitter(self._templates)
        try:
            busy = self._decide(out, now) or has_news
            draft = self._draft(out, now)
            with self._round_pace.committing():
                self._rounds.commit(draft)
        except (RoundAborted, RoundInDoubt, NotFound) as trouble:  # NotFound: of a topic that the client knows is gone
            log_.warning("round failed", cause=str(trouble), in_doubt=isinstance(trouble, RoundInDoubt))
            self._drop_all()
            return True
        except BaseException:
            self._drop_all()  # part of the shards has moved on: what is committed decides
            raise
        self._note_landed(draft)
        busy = self._look_ahead.go_on(list(self._shards.values()), now) or busy
        if has_slept(now, self._clock.now()):
            self._drop_all()
            return True
        busy = busy or self._herds.look(self._shards.values(), self._clock.now())
        return self._look_for_missing(busy=busy)

    def drain(self) -> bool:
        """Nothing but a herd is held between rounds, and that is given up: one last commit of positions is all."""
        self._idle_at_s = 0.0
        out = Emitter(self._templates)
        with suppress(LostResource):  # a successor starts from the round before
            self._rounds.commit(self._draft(out, self._clock.now()))
        return False

    def close(self) -> None:
        self._errands.close()
        self._inputs.close()
        self._tail.close()
        self._rounds.close()

    @property
    def ready(self) -> bool:
        """A member of the group, and every shard that is ours has applied the commands that stood at take-over."""
        joined = self._inputs.metadata().generation >= 0
        return joined and not self._assigned.waiting and all(shard.may_decide for shard in self._shards.values())

    # ---- own

    def _follow(self, polled: Polled) -> None:
        for partition in polled.revoked:
            self._backfills.let_go(self._shards.pop(partition.partition, None))
        self._assigned.note(polled)
        for record in polled.records:
            self._told.heard(TopicPartition(record.topic, record.partition))
            shard = self._shards.get(record.partition)
            if shard is not None and record.offset >= shard.next_offset:
                shard.inbox.append(record)
        for shard in self._shards.values():
            if not shard.inbox:
                # Past transaction markers too, so that lag reads 0; only while nothing delivered waits (kafka.md 9).
                position = self._told.of(TopicPartition(self._names.commands, shard.partition))
                shard.next_offset = max(shard.next_offset, position or 0)

    def _take_over(self, partition: TopicPartition, committed: Committed | None) -> Shard:
        log, names, now = self._log, self._names, self._clock.now()
        shard = take_over(log, names, partition.partition, self._partitions, self._generation, committed, now)
        if committed is None:
            shard.committed_offset = -1  # a group that never committed looks different to every lag tool
        cursor = encode_progress(shard.progress)
        log_.info("shard taken over", partition=shard.partition, offset=shard.next_offset, cursor=cursor)
        return shard

    def _drop_all(self) -> None:
        self._herds.drop()
        self._pools.forget()
        for shard in self._shards.values():
            self._backfills.let_go(shard)
        self._shards.clear()
        self._assigned.begin_again()

    def _read_events(self) -> bool:
        """What became of runs that others wait for. True where there is more to read at once."""
        try:
            return self._tail.look(self._shards.values())
        except LostResource as lost:
            log_.error("run events were deleted before they were read: raise the topic's retention", cause=str(lost))
            self._drop_all()
            return True

    # ---- decide

    def _decide(self, out: Emitter, now: Instant) -> bool:
        shards = list(self._shards.values())
        if not shards:
            return False
        limit = max(1, self._pace.round_records // len(shards))
        busy = False
        for shard in shards:
            releasing.forget_ended(shard, out, now)
            let_go(shard, now)
        self._settle(shards, out, now)
        self._apply(shards, out, now)
        busy |= self._settle(shards, out, now)
        if not self._store_rest.is_down:
            self._lanes.prepare_jumps([each for each in shards if self._rebuilds.held(each, now) < Held.ALL], now)
        taken: dict[int, int] = {}
        on_time_waits = False
        for shard in shards:
            busy |= ask_for_resumes(shard, out, now)
            if shard.may_decide and self._rebuilds.held(shard, now) < Held.ALL:
                on_time_waits |= self._fire(shard, out, now, limit, taken)
        for shard in in_turn(shards):
            if shard.partition not in taken or self._rebuilds.held(shard, now):
                continue
            used = limit, taken[shard.partition]
            if shard.gaps:
                has_more, closed = self._lanes.work_off(shard, out, now, used, on_time_waits=on_time_waits)
                busy |= has_more
                if closed:
                    self._copies.write(shard, out, now)
            elif shard.backfills:
                busy |= self._backfills.work_off(shard, out, now, used, on_time_waits=on_time_waits)
        for shard in shards:
            busy |= shard.partition in taken and ask_to_close(shard, out, now)
            releasing.keep_counts(shard, out)
        return busy or on_time_waits

    def _is_on_its_feet(self, shard: Shard, out: Emitter, now: Instant) -> bool:
        """Whether fires may be decided: not while the edge is about to jump. It jumps here, once all is read."""
        if shard.jump is None:
            return True
        if not shard.jump.is_ready:
            return False
        if self._lanes.jumped(shard):
            # From now on a position may be one of two kinds: whoever builds a lost cursor anew has to know.
            self._copies.write(shard, out, now)
        return True

    def _settle(self, shards: Sequence[Shard], out: Emitter, now: Instant) -> bool:
        """Runs that waited for others go out before anything new is decided. True where there are more of them."""
        busy = False
        for shard in shards:
            if not shard.may_decide or not shard.flow.changed:
                continue
            with self._store_rest.noting(self._shards.values()):
                busy |= releasing.settle(shard, None if self._store_rest.is_down else self._index, out, now)
        return busy and not self._store_rest.is_down

    def _apply(self, shards: Sequence[Shard], out: Emitter, now: Instant) -> None:
        """Commands go between two due times, never inside one; without Cassandra they wait, and fires go on."""
        if self._store_rest.is_down:
            return
        ready = [shard for shard in shards if shard.flow.ready]
        ready = [shard for shard in ready if shard.inbox and not holds_commands(shard)]
        for shard in ready:
            if shard.jump is not None:
                shard.jump.may_be_owed = True
            elif shard.caught_up:
                # So every job's edge is this due time. Its place inside it would change with a command that changes
                # the tier, and a fire decided there would look undecided.
                shard.cursor = shard.cursor.after_due_time()
        terms = applying.Terms(now, self._grace_us)
        with self._store_rest.noting(self._shards.values()):
            self._command_waits.apply(
                ready, lambda these: applying.apply_commands(these, self._index, self._pools, out, now, terms)
            )
        for shard in ready:
            self._copies.prove(shard, out, now)

    def _fire(self, shard: Shard, out: Emitter, now: Instant, limit: int, taken: dict[int, int]) -> bool:
        """What is on time: ``taken`` is told how much. True where more of it waits."""
        if not self._is_on_its_feet(shard, out, now):
            self._fire_delays(shard, out, now, limit)
            return False
        on_time = self._lanes.on_time(shard, limit) + self._herds.room
        until_at = self._until(shard, now)
        fired = deciding.decide_fires(shard, self._index, out, now, until_at, on_time, self._grace_us)
        taken[shard.partition] = fired + self._fire_delays(shard, out, now, max(on_time - fired, on_time // 4, 1))
        return taken[shard.partition] >= on_time

    def _fire_delays(self, shard: Shard, out: Emitter, now: Instant, limit: int) -> int:
        """Also before the edge jumps, which may have to wait for the store: they are none of the timeline's."""
        return run_delay.fire_delays(shard, out, now, self._until(shard, now), limit)

    def _until(self, shard: Shard, now: Instant) -> Instant:
        """No fire is decided while a polled command with an earlier stamp waits."""
        if not shard.inbox or self._store_rest.is_down:
            return now
        return min(now, max(shard.inbox[0].timestamp_us, shard.cursor.due_at))

    # ---- commit

    def _draft(self, out: Emitter, now: Instant) -> Round:
        """The round: what was decided, and for every shard that moved its position with its cursor."""
        idle = self._clock.monotonic_s() - self._idle_at_s >= self._pace.idle_commit_s
        if idle and not self._rounds.is_early:  # it asks the log
            self._idle_at_s = self._clock.monotonic_s()
            for shard in self._shards.values():
                self._idle(shard, out, now)
        if self._rounds.is_early and has_to_ask(self._pools, self._names, out.messages):
            self._herds.give_up("a pool has to be asked for")
        draft = self._rounds.draft()
        draft.go_ahead(out.ahead)
        draft.extend(leave_out_gone(self._pools, self._names, out.messages))
        for shard in self._shards.values():
            if shard.progress != shard.committed or shard.next_offset != shard.committed_offset:
                self._advance(draft, shard)
        if out.messages and not draft.offsets:
            # Only a round with offsets is fenced by the group: without one an owner that has lost its shards could
            # still erase what its successor keeps in the state topic.
            for shard in self._shards.values():
                self._advance(draft, shard)
        if out.messages:
            self._round_pace.began()
        return draft

    def _advance(self, draft: Round, shard: Shard) -> None:
        partition = TopicPartition(self._names.commands, shard.partition)
        draft.advance(self._inputs, partition, shard.next_offset, encode_progress(shard.progress))

    def _idle(self, shard: Shard, out: Emitter, now: Instant) -> None:
        """Let the cursor follow the clock where nothing is due, and copy it to the state topic."""
        behind = now - _IDLE_BEHIND_US
        next_due = shard.timeline.next_due_at()
        quiet = shard.may_decide and shard.jump is None and not shard.inbox and behind < shard.horizon_at
        if quiet and behind > shard.cursor.due_at and (next_due is None or next_due > behind):
            shard.cursor = Position(behind)
        if shard.progress != shard.copied:
            self._copies.write(shard, out, now)
        releasing.keep_up(shard, out, self._clock.monotonic_s())

    def _note_landed(self, draft: Round) -> None:
        for partition, committed in draft.offsets.get(self._inputs, {}).items():
            shard = self._shards[partition.partition]
            shard.committed_offset, shard.committed = committed.offset, shard.progress

    # ---- look ahead

    def _look_for_missing(self, *, busy: bool) -> bool:
        """A little of the sweep for rows that should stand."""
        if not self._store_rest.is_down and not self._rounds.is_early and (not busy or self._sweep.is_overdue):
            with self._store_rest.noting(self._shards.values()):
                self._sweep.look(list(self._shards.values()))
        return busy

    # ---- pace

    def _patience_s(self) -> float:
        """How long a poll may wait: until the next fire, but rounds keep their distance when there is little to do."""
        if self._assigned.waiting and not self._shards:
            return 0.0
        now = self._clock.now()
        if self._rounds.is_early:
            return self._herds.wait_s(now, _IDLE_S)
        shards = self._shards.values()
        if is_behind(shards, self._pace, now):
            return 0.0
        can_store = not self._store_rest.is_down  # else a waiting command would make the loop spin
        nearest_s = 0.0 if self._herds.encodes_more else self._herds.wait_s(now, _IDLE_S)
        own_s = until_next_s(shards, self._lanes, self._errands, self._pace, now, nearest_s, can_store=can_store)
        return max(self._round_pace.rest_s, own_s)
