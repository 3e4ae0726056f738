"""A fire that is due on a time that a calendar of its job blocks: a recorded skip in the place of a run (time.md §9).

Up to ``NEIGHBOURS_MAX`` such fires of one minute have an event each, at their own due time. More of them make one
event, at the first one's: the rest of the minute is then decided ahead, as after a catch-up, so that a change of the
job counts from there on at the latest.
"""

from __future__ import annotations

from waterclock.model.ids import Instant
from waterclock.model.timetable import blocked_parts, count_of, due_of, fire_edge, last_of

from .emit import Emitter
from .misfire import CALENDAR, SkipRange
from .shard import Decided, Shard
from .timeline import Chain

NEIGHBOURS_MAX = 16


def skip_blocked(
    shard: Shard, out: Emitter, chain: Chain, fire_at: Instant, due_at: Instant, now: Instant, *, in_order: bool = True
) -> None:
    """Record the blocked fire of a chain, and where there are many its neighbours in the same minute.

    Not ``in_order``: the record names no due position.
    """
    version, named_at = chain.version, due_at if in_order else 0
    minute_end = min(fire_edge(version, chain.minute_end - 1), chain.until_at)
    _, until_at = next(blocked_parts(version.spec, fire_at - 1, max(minute_end, fire_at)))
    count = count_of(version, fire_at - 1, until_at)
    # What is decided ahead is decided in gaps too: while there is one, each goes by itself.
    if count <= NEIGHBOURS_MAX or shard.gaps:
        out.skip(SkipRange(version, fire_at, fire_at, 1), CALENDAR, now=now, due_at=named_at)
        return
    newest_at = last_of(version, fire_at - 1, until_at)
    assert newest_at is not None  # there are more than a few
    out.skip(SkipRange(version, fire_at, newest_at, count), CALENDAR, now=now, due_at=named_at)
    kept = shard.decide_ahead(version.job_id, Decided(due_of(version, newest_at), paused=False))
    out.job_decided(shard.partition, version.job_id, kept)
