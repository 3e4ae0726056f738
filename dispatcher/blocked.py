"""A fire that is due on a time that a calendar of its job blocks: a recorded skip in the place of a run (time.md §9).

Up to ``NEIGHBOURS_MAX`` such fires of one minute have an event each, at their own due time. More of them make one
event, at the first one's: the rest of the minute is then decided ahead, as after a catch-up, so that a change of the
job counts from there on at the latest. Not where another version of the job owes a fire meanwhile: each has its own.
"""

from __future__ import annotations

from waterclock.model.ids import Instant
from waterclock.model.job import JobVersion
from waterclock.model.timetable import blocked_parts, count_of, due_of, fire_edge, last_of

from .emit import Emitter
from .holding import beside_held
from .misfire import CALENDAR, SkipRange
from .owed import stretches
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
    newest_at = last_of(version, fire_at - 1, until_at)
    assert newest_at is not None  # this one at least
    decided_at = due_of(version, newest_at)
    # What is decided ahead is so for all versions, and in gaps too: while others owe something, each goes by itself.
    if count <= NEIGHBOURS_MAX or shard.gaps or _owes_beside(shard, version, due_at, decided_at):
        out.skip(SkipRange(version, fire_at, fire_at, 1), CALENDAR, now=now, due_at=named_at)
        return
    for skipped in beside_held(shard, SkipRange(version, fire_at, newest_at, count)):
        is_first = skipped.from_at == fire_at
        out.skip(skipped, CALENDAR, now=now, due_at=named_at if is_first else 0)
    kept = shard.decide_ahead(version.job_id, Decided(decided_at, paused=False))
    out.job_decided(shard.partition, version.job_id, kept)


def _owes_beside(shard: Shard, version: JobVersion, from_at: Instant, until_at: Instant) -> bool:
    """Whether another version of the job has a fire that is due between these two: with a jitter an older one may."""
    job_id = version.job_id
    known = shard.lately.get(job_id, ())
    if len(known) <= 1:
        return False
    fires_after, edges = shard.fires_decided_to(job_id), shard.edges_of(job_id)
    owed = stretches(known, from_at - 1, until_at, fires_after=fires_after, edges=edges)
    return any(last_of(*each) is not None for each in owed if each.version.revision != version.revision)
