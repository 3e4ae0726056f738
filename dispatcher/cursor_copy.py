"""The copy, in the state topic, of what rides in a shard's offset metadata: should that be lost (``takeover.py``).

A copy is made every few seconds. What must hold: wherever no event tells what a round did, the copy does, in that very
round. So it is where a gap is opened or closed, and where a command was applied that leaves no proof of it: one that
was refused, is about a run or a backfill, or is an end that is a part of a window. A successor that begins before such
a command applies it again: a cancel is passed on twice, and the reason to refuse it may be gone.
"""

from __future__ import annotations

from waterclock.log.port import Log, TopicPartition
from waterclock.model.ids import Instant
from waterclock.model.role_state import ShardState
from waterclock.wire.names import Names

from .emit import Emitter
from .event_tail import EventTail
from .gaps import encode_progress
from .shard import Shard


class CursorCopies:
    """Of one dispatcher."""

    def __init__(self, log: Log, names: Names, tail: EventTail) -> None:
        self._log = log
        self._names = names
        self._tail = tail

    def write(self, shard: Shard, out: Emitter, now: Instant) -> None:
        """A copy of where it stands. Raises BackendDown: the end of run-events is asked for."""
        events_end = self._log.high_watermark(TopicPartition(self._names.run_events, shard.partition))
        self._put(shard, out, events_end, now)
        if not (self._tail.follows(shard) or shard.flow.followed):
            # Not where a run was opened just now, and nobody has looked yet what became of it.
            shard.flow.position = max(shard.flow.position, events_end)

    def prove(self, shard: Shard, out: Emitter, now: Instant) -> None:
        """A copy where it has applied a command that nothing else proves. It asks nobody: run-events are read from
        where they ended before, should this copy be needed, and that tells nothing that it does not say already."""
        if shard.unproven:
            self._put(shard, out, shard.events_end, now)

    @staticmethod
    def _put(shard: Shard, out: Emitter, events_end: int, now: Instant) -> None:
        out.cursor_copy(
            shard.partition, ShardState(encode_progress(shard.progress), shard.next_offset, events_end, now)
        )
        shard.copied, shard.events_end, shard.unproven = shard.progress, events_end, False
