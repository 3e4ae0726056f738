"""The dispatcher's story on one page: own, apply commands, decide what is due, commit, look ahead.

One thread, one producer, one consumer of ``commands``; a shard for each partition owned. What holds: a round carries
the runs *and* the cursor that has passed them, so a fire is made once; whatever goes wrong, the shards are dropped and
taken over again from what is committed.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import structlog

from waterclock.clock import Clock
from waterclock.log.port import Committed, Log, Polled, TopicPartition
from waterclock.model.errors import BackendDown, LostResource, RoundAborted, RoundInDoubt
from waterclock.model.ids import US_PER_S, Instant
from waterclock.model.role_state import ShardState
from waterclock.store.port import TimeIndex
from waterclock.transact import Round, Rounds
from waterclock.wire.names import Names
from waterclock.wire.pools import Pools

from . import applying, deciding, releasing, window
from .emit import Emitter, Templates
from .event_tail import EventTail
from .position import Position, encode_cursor
from .ready import make_ready
from .resuming import ask_for_resumes
from .shard import Shard
from .takeover import take_over

_POLL_MAX = 500
_INBOX_MAX = 2_000
_IDLE_S = 0.05
_FOLLOW_S = 0.01
_IDLE_BEHIND_US = 1 * US_PER_S
_OLD_NEWS_S = 5.0
"""So long after a start a position is believed even where it equals the one from before."""

log_ = structlog.get_logger("dispatcher")


@dataclass(frozen=True, slots=True)
class Pace:
    """How a dispatcher paces itself. Seconds, records."""

    look_ahead_s: float = 90.0
    grace_s: float = 60.0
    round_records: int = 2_000
    round_interval_s: float = 0.020
    idle_commit_s: float = 5.0
    store_retry_s: float = 1.0
    store_retry_max_s: float = 30.0


class Dispatcher:
    """The role's core behind ports. ``generation`` is that of the partition count (design §6)."""

    def __init__(
        self,
        clock: Clock,
        log: Log,
        index: TimeIndex,
        names: Names,
        *,
        instance: str,
        generation: int = 1,
        pace: Pace | None = None,
    ) -> None:
        self._clock = clock
        self._log = log
        self._index = index
        self._names = names
        self._templates = Templates(names)
        self._pools = Pools(log, names, clock)
        self._generation = generation
        self._pace = pace or Pace()
        self._grace_us = round(self._pace.grace_s * US_PER_S)
        self._partitions = log.partitions(names.commands)
        self._rounds = Rounds(log, names.transactional_id("dispatcher", instance))
        self._inputs = log.consumer(names.group("dispatcher"), [names.commands], instance=instance)
        self._shards: dict[int, Shard] = {}
        self._waiting: set[TopicPartition] = set()
        # What the client told right after a start: for a moment that is still where it stood before (librdkafka).
        self._told_before: dict[TopicPartition, int] = {}
        self._believed_at_s = 0.0
        self._round_at_s = -1.0
        self._encodes_more = False
        self._idle_at_s = clock.monotonic_s()
        self._store_down_until_s = 0.0
        self._tail = EventTail(log, names.run_events, clock)
        self._rounds.open()

    def step(self) -> bool:
        """One cycle: own, apply, decide, commit, look ahead. True when there is more to do at once."""
        self._follow(self._rounds.poll(self._inputs, self._room(), self._patience_s()))
        self._take_over_waiting()
        has_news = self._read_events()
        now = self._clock.now()
        out = Emitter(self._templates)
        try:
            busy = self._decide(out, now) or has_news
            draft = self._draft(out, now)
            self._rounds.commit(draft)
        except (RoundAborted, RoundInDoubt) as trouble:
            log_.warning("round failed", cause=str(trouble), in_doubt=isinstance(trouble, RoundInDoubt))
            self._drop_all()
            return True
        except BaseException:
            self._drop_all()  # part of the shards has moved on: what is committed decides
            raise
        self._note_landed(draft)
        return self._look_ahead(now) or busy or self._make_ready()

    def drain(self) -> bool:
        """Nothing is held between rounds: one last commit of positions is all."""
        self._idle_at_s = 0.0
        out = Emitter(self._templates)
        with suppress(LostResource):  # a successor starts from the round before
            self._rounds.commit(self._draft(out, self._clock.now()))
        return False

    def close(self) -> None:
        self._inputs.close()
        self._tail.close()
        self._rounds.close()

    @property
    def ready(self) -> bool:
        """A member of the group, and every shard that is ours has applied the commands that stood at take-over."""
        joined = self._inputs.metadata().generation >= 0
        return joined and not self._waiting and all(shard.may_decide for shard in self._shards.values())

    # ---- own

    def _follow(self, polled: Polled) -> None:
        for partition in polled.revoked:
            self._shards.pop(partition.partition, None)
            self._waiting.discard(partition)
        self._waiting.update(polled.assigned)
        for record in polled.records:
            self._told_before.pop(TopicPartition(record.topic, record.partition), None)
            shard = self._shards.get(record.partition)
            if shard is not None and record.offset >= shard.next_offset:
                shard.inbox.append(record)
        for shard in self._shards.values():
            if not shard.inbox:
                # Past transaction markers too, so that lag reads 0; only while nothing delivered waits (kafka.md 9).
                position = self._position(TopicPartition(self._names.commands, shard.partition))
                shard.next_offset = max(shard.next_offset, position or 0)

    def _position(self, partition: TopicPartition) -> int | None:
        """Where the client stands; None while it may still tell where it stood before its start.

        To believe that would pass over the commands of a round that was aborted.
        """
        position = self._inputs.position(partition)
        before = self._told_before.get(partition)
        if before is None:
            return position
        if position == before and self._clock.monotonic_s() < self._believed_at_s:
            return None
        del self._told_before[partition]
        return position

    def _take_over_waiting(self) -> None:
        if not self._waiting:
            return
        waiting = sorted(self._waiting)
        committed = self._rounds.positions(self._inputs, waiting)
        for partition in waiting:
            self._take_over(partition, committed.get(partition))
        self._inputs.start({part: self._shards[part.partition].next_offset for part in waiting})
        told = {part: self._inputs.position(part) for part in waiting}
        self._told_before = {part: position for part, position in told.items() if position is not None}
        self._believed_at_s = self._clock.monotonic_s() + _OLD_NEWS_S
        self._waiting.clear()

    def _take_over(self, partition: TopicPartition, committed: Committed | None) -> None:
        shard = take_over(
            self._log,
            self._index,
            self._names,
            partition.partition,
            self._partitions,
            self._generation,
            committed,
            self._clock.now(),
        )
        if committed is None:
            shard.committed_offset = -1  # a group that never committed looks different to every lag tool
        self._shards[partition.partition] = shard
        log_.info(
            "shard taken over", partition=shard.partition, offset=shard.next_offset, cursor=encode_cursor(shard.cursor)
        )

    def _drop_all(self) -> None:
        self._shards.clear()
        self._waiting = set(self._inputs.owned())

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
        self._settle(shards, out, now)
        self._apply(shards, out, now)
        busy |= self._settle(shards, out, now)
        for shard in shards:
            if shard.may_decide:
                busy |= ask_for_resumes(shard, out, now)
                busy |= self._fire(shard, out, now, limit) >= limit
        return busy

    def _settle(self, shards: Sequence[Shard], out: Emitter, now: Instant) -> bool:
        """Runs that waited for others go out before anything new is decided. True where there are more of them."""
        busy = False
        for shard in shards:
            if not shard.may_decide or not (shard.flow.ended or shard.flow.changed):
                continue
            asked_at_s = self._clock.monotonic_s()
            try:
                busy |= releasing.settle(shard, None if self._store_is_down() else self._index, out, now)
            except BackendDown as down:
                self._note_store_down(down, asked_at_s)
        return busy and not self._store_is_down()

    def _apply(self, shards: Sequence[Shard], out: Emitter, now: Instant) -> None:
        """Commands go between two due times, never inside one; without Cassandra they wait, and fires go on."""
        if self._store_is_down():
            return
        ready = [shard for shard in shards if shard.flow.ready]
        ready = [shard for shard in ready if shard.inbox and not (shard.caught_up and shard.inside_due_time)]
        for shard in ready:
            if shard.caught_up:
                # So every job's edge is this due time. Its place inside it would change with a command that changes
                # the tier, and a fire decided there would look undecided.
                shard.cursor = shard.cursor.after_due_time()
        window_end = now + round((self._pace.look_ahead_s + 60) * US_PER_S)
        terms = applying.Terms(window_end, self._grace_us)
        asked_at_s = self._clock.monotonic_s()
        try:
            applying.apply_commands(ready, self._index, self._pools, out, now, terms)
        except BackendDown as down:
            self._note_store_down(down, asked_at_s)

    def _fire(self, shard: Shard, out: Emitter, now: Instant, limit: int) -> int:
        until_at = now
        if shard.inbox and not self._store_is_down():
            # No fire is decided while a polled command with an earlier stamp waits.
            until_at = min(now, max(shard.inbox[0].timestamp_us, shard.cursor.due_at))
        return deciding.decide_fires(shard, self._index, out, now, until_at, limit, self._grace_us)

    # ---- commit

    def _draft(self, out: Emitter, now: Instant) -> Round:
        """The round: what was decided, and for every shard that moved its position with its cursor."""
        idle = self._clock.monotonic_s() - self._idle_at_s >= self._pace.idle_commit_s
        if idle:
            self._idle_at_s = self._clock.monotonic_s()
            for shard in self._shards.values():
                self._idle(shard, out, now)
        draft = self._rounds.draft()
        draft.go_ahead(out.ahead)
        draft.extend(out.messages)
        for shard in self._shards.values():
            if shard.cursor != shard.committed_cursor or shard.next_offset != shard.committed_offset:
                self._advance(draft, shard)
        if out.messages and not draft.offsets:
            # Only a round with offsets is fenced by the group: without one an owner that has lost its shards could
            # still erase what its successor keeps in the state topic.
            for shard in self._shards.values():
                self._advance(draft, shard)
        if out.messages:
            self._round_at_s = self._clock.monotonic_s()
        return draft

    def _advance(self, draft: Round, shard: Shard) -> None:
        partition = TopicPartition(self._names.commands, shard.partition)
        draft.advance(self._inputs, partition, shard.next_offset, encode_cursor(shard.cursor))

    def _idle(self, shard: Shard, out: Emitter, now: Instant) -> None:
        """Let the cursor follow the clock where nothing is due, and copy it to the state topic."""
        behind = now - _IDLE_BEHIND_US
        next_due = shard.timeline.next_due_at()
        quiet = shard.may_decide and not shard.inbox and behind < shard.horizon_at
        if quiet and behind > shard.cursor.due_at and (next_due is None or next_due > behind):
            shard.cursor = Position(behind)
        if shard.cursor != shard.copied_cursor:
            events = TopicPartition(self._names.run_events, shard.partition)
            events_end = self._log.high_watermark(events)
            state = ShardState(encode_cursor(shard.cursor), shard.next_offset, events_end, now)
            out.cursor_copy(shard.partition, state)
            shard.copied_cursor = shard.cursor
            if not self._tail.follows(shard):
                shard.flow.position = max(shard.flow.position, events_end)
        releasing.keep_up(shard, out)

    def _note_landed(self, draft: Round) -> None:
        for partition, committed in draft.offsets.get(self._inputs, {}).items():
            shard = self._shards[partition.partition]
            shard.committed_offset, shard.committed_cursor = committed.offset, shard.cursor

    # ---- look ahead

    def _make_ready(self) -> bool:
        """Encode what is due soon, one shard's slice at a time. True while there is more of it."""
        now = self._clock.now()
        self._encodes_more = any(make_ready(shard, self._templates, now) for shard in self._shards.values())
        return self._encodes_more

    def _look_ahead(self, now: Instant) -> bool:
        """One slice for each shard that needs it. True while a window ends too soon."""
        if self._store_is_down():
            return False
        hungry = False
        look_ahead_us = round(self._pace.look_ahead_s * US_PER_S)
        asked_at_s = self._clock.monotonic_s()
        try:
            for shard in self._shards.values():
                if window.wants_more(shard, now, look_ahead_us):
                    window.load_slice(shard, self._index, self._names)
                    hungry |= window.wants_more(shard, now, look_ahead_us)
                else:
                    window.dispose_slice(shard, self._index, now)
        except BackendDown as down:
            self._note_store_down(down, asked_at_s)
        return hungry

    def _store_is_down(self) -> bool:
        return self._clock.monotonic_s() < self._store_down_until_s

    def _note_store_down(self, down: BackendDown, asked_at_s: float) -> None:
        """Leave the store alone for four times as long as it held the round up.

        A store that refuses does so at once; one that is silent costs its whole time-out, and fires wait meanwhile.
        """
        now_s, pace = self._clock.monotonic_s(), self._pace
        rest_s = max(pace.store_retry_s, min(4 * (now_s - asked_at_s), pace.store_retry_max_s))
        self._store_down_until_s = now_s + rest_s
        ends = min((shard.horizon_at for shard in self._shards.values()), default=0)
        log_.warning("store away: the loaded window keeps firing", cause=str(down), window_ends_at=ends)

    # ---- pace

    def _room(self) -> int:
        waiting = max((len(shard.inbox) for shard in self._shards.values()), default=0)
        return 0 if waiting >= _INBOX_MAX else _POLL_MAX

    def _patience_s(self) -> float:
        """How long a poll may wait: until the next fire, but rounds keep their distance when there is little to do."""
        if self._waiting:
            return 0.0
        pace = self._pace
        since_round_s = self._clock.monotonic_s() - self._round_at_s
        rest_s = max(0.0, pace.round_interval_s - since_round_s)
        now = self._clock.now()
        look_ahead_us = round(pace.look_ahead_s * US_PER_S)
        can_store = not self._store_is_down()  # or a waiting command would make the loop spin until it is back
        nearest_s = 0.0 if self._encodes_more else _IDLE_S
        for shard in self._shards.values():
            due_at = shard.timeline.next_due_at()
            if not shard.flow.ready:
                nearest_s = min(nearest_s, _FOLLOW_S)  # neither commands nor fires go on before
                continue
            if can_store and (shard.inbox or window.wants_more(shard, now, look_ahead_us)):
                nearest_s = 0.0
            elif due_at is not None and due_at < shard.horizon_at:
                nearest_s = min(nearest_s, max(0.0, (due_at - now) / US_PER_S))
        return max(rest_s, nearest_s) if not self._behind(now) else 0.0

    def _behind(self, now: Instant) -> bool:
        late_us = round(self._pace.round_interval_s * US_PER_S) * 5
        for shard in self._shards.values():
            due_at = shard.timeline.next_due_at() if shard.flow.ready else None
            if due_at is not None and due_at < min(now - late_us, shard.horizon_at):
                return True
        return False
