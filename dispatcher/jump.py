"""The jump of the on-time edge over a backlog, which becomes a gap (design §6).

A gap keeps fires, not chains: the chain of a recurring job runs from row to row, and in the gap nobody follows it for
hours. So before the edge jumps every row of the gap is read, and of each recurring job the row of its first fire beyond
the new edge is written. The order: the commands up to the high watermark are applied, at the old edge; then the *sweep*
reads and writes, slice by slice, and no fire is decided; then one round commits edge and gap together. A crash before
that repeats all of it. A command that comes meanwhile is applied at the old edge, too: stamped beyond the new one it
makes no row in the gap, and its fires lie beyond. One that is stamped before the new edge waits for the jump.

The new edge lies ``MARGIN_US`` before the instant at which the watermark was asked for: so a command that comes after
it is stamped beyond the edge, unless the brokers' clock is behind ours by more than that (``applying.py`` heeds that).
"""

from __future__ import annotations

from waterclock.model.ids import US_PER_S, Instant, minute_of
from waterclock.store.port import DueRow, TimeIndex
from waterclock.wire.names import Names

from .bucket_walk import BucketWalk
from .catch_up import deferred_in, readable
from .gap_owed import owed_in
from .gaps import Gap
from .position import Position
from .rows import first_rows_beyond
from .shard import Shard
from .trusted import trusted_rows

BACKLOG_US = 60 * US_PER_S
"""A backlog of less is caught up in order, without a gap."""

MARGIN_US = 5 * US_PER_S


class Jump:
    """One that is prepared. ``may_be_owed``: whether the gap may hold anything; a command may have put a deferred
    attempt into it, behind the sweep."""

    def __init__(self, shard: Shard, to_at: Instant) -> None:
        self.to_at = to_at
        self.walk = BucketWalk(shard.slots, shard.cursor.due_at, to_at)
        self.gap = Gap(shard.cursor, to_at, shard.cursor)
        self.may_be_owed = False

    @property
    def is_ready(self) -> bool:
        """Whether every row of the gap has been read, and what follows it is written."""
        return self.walk.is_over


def wants_jump(shard: Shard, now: Instant) -> bool:
    """Whether there is more than a minute of backlog, and room for one more gap.

    The cursor may stand behind where nothing is due; backlog is what is due, or is not even known.
    """
    if shard.jump is not None or not shard.caught_up:
        return False
    known_at = min(shard.timeline.next_due_at() or shard.horizon_at, shard.horizon_at)
    late_us = now - max(shard.cursor.due_at, known_at)
    return late_us > BACKLOG_US and shard.progress.has_room(shard.cursor)


def is_far_behind(shard: Shard, now: Instant) -> bool:
    """Whether the edge will jump as soon as the commands that stood at take-over are applied."""
    return not shard.caught_up and now - shard.cursor.due_at > BACKLOG_US and shard.progress.has_room(shard.cursor)


def prepare(shard: Shard, asked_at: Instant, commands_end: int) -> None:
    """Begin: no fire is decided until the commands below ``commands_end`` are applied and the sweep is done.

    ``asked_at``: before that watermark was asked for. A clock that has stepped back since the backlog was seen asks for
    no jump: the edge never goes back.
    """
    if asked_at - MARGIN_US <= shard.cursor.due_at:
        return
    shard.caught_up_at = max(shard.caught_up_at, commands_end)
    shard.jump = Jump(shard, asked_at - MARGIN_US)


def sweep(shard: Shard, index: TimeIndex, names: Names) -> None:
    """Read the next buckets of the gap, and write what follows it. Raises BackendDown: then it is done again."""
    jump = shard.jump
    assert jump is not None
    found = jump.walk.read(index)
    ahead: list[DueRow] = []
    rows = 0
    counted: set[str] = set()
    for row, version in readable(trusted_rows(shard, index, found), index):
        versions = shard.lately.get(row.job_id) or [version]
        decided = shard.decided.get(row.job_id)
        fires_after = decided.fires_to_at if decided else 0
        ahead += first_rows_beyond(versions, jump.to_at - 1, fires_after)
        edges = shard.edges_of(row.job_id)
        owed = owed_in(jump.gap, row.job_id, versions, decided.at if decided else 0, fires_after, edges)
        jump.may_be_owed |= owed is not None
        if owed is not None and row.job_id not in counted and minute_of(owed.place.due_at) == row.minute:
            counted.add(row.job_id)
            rows += 1
    rows += len(deferred_in(shard, names, jump.gap, found))
    shard.changes += 1
    index.write_due(_each_once(ahead))
    jump.gap = jump.gap._replace(row_count=jump.gap.row_count + rows)
    jump.walk.go_on(len(found))


def open_gap(shard: Shard) -> Gap | None:
    """Let the edge jump. Returns the gap; None where nothing is owed in it: then none is opened."""
    jump = shard.jump
    assert jump is not None
    shard.jump = None
    shard.cursor = Position(jump.to_at)
    shard.begin_window()
    if not (jump.may_be_owed or jump.gap.row_count):
        return None
    shard.gaps = (*shard.gaps, jump.gap)
    return jump.gap


def _each_once(rows: list[DueRow]) -> list[DueRow]:
    """A job with rows in several minutes has the same row beyond the edge for each of them."""
    return list({(row.minute, row.due_at, row.job_id, row.revision): row for row in rows}.values())
