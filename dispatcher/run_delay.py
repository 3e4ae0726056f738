"""Fires of fixed delays, decided in the rounds of their shard: a run, or a recorded skip, and the chain goes on.

They are none of the timeline's: no row, no cursor, no gap. Never a misfire: one fire is due at a time, and it runs
however late. What must hold: a chain changes in the round that says so. A fire that is due when a command is applied
belongs to the version before it, and is decided just before that command's REVISED.

How it fails: after a take-over a chain's version is read from the store; while that is away its fire waits.
"""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from waterclock.model.delay_rules import count_of, last_by
from waterclock.model.ids import US_PER_S, Instant, make_run_id
from waterclock.model.job import JobStatus, JobVersion
from waterclock.model.timetable import free_from
from waterclock.store.port import TimeIndex

from .admitting import admit_fire, may_follow
from .emit import Emitter
from .envelope import weight_of
from .flow import FlowJob
from .legible import newest_below
from .misfire import CALENDAR, PAUSED, REASONS, SkipRange
from .shard import Shard

log_ = structlog.get_logger("dispatcher")

VERSIONS_MAX = 200
"""Versions that one look asks the store for."""

_BLOCKS_MAX = 100
"""Stretches that a calendar blocks, and that one command finds undecided."""

_WAITS_US = US_PER_S // 20
"""How soon a fire is looked at again that cannot be decided yet."""


def fire_delays(shard: Shard, out: Emitter, now: Instant, until_at: Instant, limit: int) -> int:
    """Decide the fires of chains up to ``until_at`` (at most ``now``), at most ``limit``. Returns how many those were,
    as ``decide_fires`` counts.

    While no more runs may be followed, they wait: a chain whose run nobody follows would never go on.
    """
    due, until_at, taken = shard.flow.due, min(until_at, now), 0
    for _ in range(limit):
        next_at = due.next_at()
        if next_at is None or next_at > until_at:
            break
        job_id = due.pop()
        job = shard.flow.jobs.get(job_id)
        fire_at = None if job is None else _next_of(shard, job)
        if job is None or fire_at is None:
            continue  # an end, a resume, an edit looks anew
        version = job.delay.version
        if fire_at > until_at or version is None or not may_follow(shard.flow, job_id):
            due.put(job_id, max(fire_at, now + _WAITS_US))
            continue
        _decide(shard, out, job, version, fire_at, now, until_at)
        taken += weight_of(version.spec)
        if taken >= limit:
            break
    return taken


def close_delay(
    shard: Shard, out: Emitter, after: JobVersion, known: Sequence[JobVersion], appended_at: Instant, now: Instant
) -> None:
    """Before ``after`` counts: decide what the chain owes by its stamp. ``known``: the versions before it, newest
    first; ``appended_at``: of its command.

    A paused chain has gone on all the while, each fire a delay after the skipped one before it. Otherwise the stamp may
    lie ahead (behind a pause that ends by itself): what is due then is not made so early.
    """
    job = shard.flow.jobs.get(after.job_id)
    if job is None or job.ended or job.count.is_full or not known:
        return
    before = known[0]
    if before.status is JobStatus.PAUSED:
        if (next_at := job.delay.next_at) is not None and next_at <= after.stamp_at:
            _skip(shard, out, job, before, next_at, after.stamp_at, PAUSED, now)
        return
    until_at = min(after.stamp_at, appended_at)
    for _ in range(_BLOCKS_MAX):  # until a run is made
        next_at = job.delay.next_at
        if next_at is None or next_at > until_at or not may_follow(shard.flow, job.job_id):
            return
        if after.status is not JobStatus.ACTIVE:
            _skip(shard, out, job, before, next_at, next_at, REASONS[after.status], now)
            return
        _decide(shard, out, job, before, next_at, now, until_at)


def begin_delay(shard: Shard, version: JobVersion, edge_at: Instant) -> None:
    """``version`` counts from now on: for its job's chain, too.

    Its next fire is looked for again, also where that has not moved: while the job was paused it may have been looked
    at, and passed over.
    """
    job = shard.flow.jobs.get(version.job_id)
    if job is None:
        return
    before = job.delay.kept
    job.delay.follow(version, edge_at)
    if job.delay.kept != before:
        shard.flow.note_count(job)
    shard.flow.look_at_delay(job)


def learn_versions(shard: Shard, index: TimeIndex) -> bool:
    """Read what chains are made of that a predecessor has begun. True while there is more of it. Raises BackendDown."""
    unread = shard.flow.unread
    asked = [job_id for job_id, _ in zip(unread, range(VERSIONS_MAX), strict=False)]
    jobs = [shard.flow.jobs[job_id] for job_id in asked if job_id in shard.flow.jobs]
    wanted = [job for job in jobs if job.delay.delay_us and job.delay.version is None]
    found, illegible = newest_below(index, [(job.job_id, job.revision + 1) for job in wanted])
    for job, version in zip(wanted, found, strict=True):
        if job.job_id in illegible:
            continue  # it stands still, until somebody takes over who can read it
        if version is None or version.revision != job.revision:
            log_.error("a fixed delay cannot go on: its revision is gone", job_id=job.job_id, revision=job.revision)
            continue
        job.delay.version = version
        shard.flow.look_at_delay(job)
    for job_id in asked:
        del unread[job_id]
    return bool(unread)


def _next_of(shard: Shard, job: FlowJob) -> Instant | None:
    """The chain's next fire, unless the job is paused or at its end."""
    if job.ended or job.count.is_full or shard.is_paused(job.job_id):
        return None
    return job.delay.next_at


def _decide(
    shard: Shard, out: Emitter, job: FlowJob, version: JobVersion, fire_at: Instant, now: Instant, until_at: Instant
) -> None:
    """A run; or skips up to ``until_at``, as far as a calendar blocks them."""
    free_at = free_from(version.spec, fire_at)
    if free_at != fire_at:
        until_at = until_at if free_at is None else min(until_at, free_at - 1)
        _skip(shard, out, job, version, fire_at, until_at, CALENDAR, now)
        return
    # In no order: its PENDING must not move a cursor that is made anew from events.
    admit_fire(shard, out, version, fire_at=fire_at, due_at=fire_at, now=now, in_order=False)
    job.delay.fired(make_run_id(job.job_id, fire_at))
    shard.flow.note_delay(job)


def _skip(
    shard: Shard,
    out: Emitter,
    job: FlowJob,
    version: JobVersion,
    fire_at: Instant,
    until_at: Instant,
    reason: str,
    now: Instant,
) -> None:
    """The fire, and those that follow from it up to ``until_at``, make no run."""
    delay = job.delay
    if delay.until_at:
        until_at = min(until_at, delay.until_at - 1)
    to_at = last_by(fire_at, delay.delay_us, until_at)
    out.skip(SkipRange(version, fire_at, to_at, count_of(fire_at, to_at, delay.delay_us)), reason, now=now)
    delay.skipped(to_at)
    shard.flow.note_delay(job)
