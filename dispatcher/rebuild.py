"""After a long absence the time index is made anew from what the jobs are, before anything fires (time.md §10).

A row of ``due`` lives for three days after its time. Beyond that the rows that carry each job's chain are gone, and
whoever read on from the cursor would find nothing, and owe nothing. So when a shard's window begins more than
``REBUILD_AFTER_US`` ago, its owner goes through its jobs, page by page, and writes for each active one the row of its
first fire beyond the cursor. Then everything goes its usual way, and the misfire policies decide as if no row had
expired. The same where a gap is still open after so long: each job has the row of its place in it again. Only the gap
waits for that; what is on time goes on.

The order matters. First the commands that stood at the take-over are applied, so that nothing is written of a version
that is over; then the rows, and of what waits nothing is loaded or decided until all are written. Rows that stood
there are written again, with the same content. What is made anew ages too, its first page first: so a rebuild counts
from when it began, and one that began too long ago (the machine slept in the middle of it) is made again; so is a jump
of the edge that was being prepared. And where it slept between that look and what was read after it, nobody can tell
rows that never were from rows that have expired: then all is taken over again.

How it fails: BackendDown or WriteUnknown, and the page is taken again; a take-over by another begins anew, one by the
same process at the same cursor goes on. Its limit: what a process has done of it dies with it.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from enum import IntEnum

import structlog

from waterclock.model.errors import RequestError
from waterclock.model.ids import US_PER_S, Instant
from waterclock.model.job import JobStatus, JobVersion
from waterclock.model.untellable import schedule_error
from waterclock.store.port import DueRow
from waterclock.store.shelves import JobIndex, JobPages

from .errands import do_at_once
from .expected import ahead_of, expected, versions_of
from .gap_owed import first_fire
from .lately import read_for_rows
from .position import encode_cursor
from .rows import Ahead, advance_wts, due_row
from .shard import Shard
from .timeline import Chain

REBUILD_AFTER_US = 2 * 86_400 * US_PER_S
"""A day less than rows live: for catching up, during which the rows of later minutes go on ageing, and for clocks."""

SLEPT_US = 3_600 * US_PER_S
"""Longer than any step takes, and little beside the day that ``REBUILD_AFTER_US`` leaves."""

PAGE = 200
"""Jobs at a time: about 100 ms of a node that answers at once."""

log_ = structlog.get_logger("dispatcher")


class Held(IntEnum):
    """What of a shard may have lost rows that nobody has made anew: of that nothing is loaded and nothing decided."""

    NOTHING = 0
    GAPS = 1
    ALL = 2


@dataclass(slots=True)
class _Work:
    """What is done of one shard. ``scope``: of what rows are made. ``begins_at``: where what is undecided began when
    this began, at ``began_at``."""

    scope: Held
    begins_at: Instant
    began_at: Instant
    pages: JobPages
    is_done: bool = False
    jobs_count: int = 0
    rows_count: int = 0


def has_slept(looked_at: Instant, now: Instant) -> bool:
    """Whether rows that were read between these two may have expired since it was asked whether any have."""
    if now - looked_at <= SLEPT_US:
        return False
    log_.warning(
        "the clock went on while due rows were read: shards are taken over anew", by_s=(now - looked_at) // US_PER_S
    )
    return True


class Rebuilds:
    """Of all shards of one dispatcher."""

    def __init__(self, index: JobIndex) -> None:
        self._index = index
        self._works: dict[int, _Work] = {}

    def held(self, shard: Shard, now: Instant) -> Held:
        """What has to wait, because rows may be gone that are not made anew yet."""
        old = now - REBUILD_AFTER_US
        need = _need_of(shard, old)
        work = self._works.get(shard.partition)
        is_made = work is not None and work.is_done and work.began_at >= old and work.scope >= need
        return Held.NOTHING if is_made else need

    def go_on(self, shard: Shard, now: Instant) -> None:
        """One page, once the commands that stood at take-over are applied. Raises BackendDown, WriteUnknown."""
        if not shard.caught_up:
            return
        work = self._work_of(shard, now)
        pages = copy(work.pages)
        listings = pages.onward(self._index, PAGE)
        if listings is None:
            work.is_done = True
            log_.warning("due rows made anew after a long absence", partition=shard.partition, jobs=work.jobs_count,
                         rows=work.rows_count, cursor=encode_cursor(shard.cursor))  # fmt: skip
            return
        job_ids = [line.job_id for line in listings if line.status is not JobStatus.DELETED]
        known = do_at_once(versions_of(shard, self._index, job_ids)) if job_ids else []
        made = [_of_job(shard, versions, now, work.scope) for versions in known]
        rows = [row for each in made for row in each.rows]
        read_for_rows(shard, self._index, rows)
        shard.changes += 1
        if rows:
            self._index.write_due(rows, kept_from=now)
        for chain in [chain for each in made for chain in each.chains]:
            shard.timeline.add(chain)
        work.pages = pages
        work.jobs_count += len(known)
        work.rows_count += len(rows)

    def _work_of(self, shard: Shard, now: Instant) -> _Work:
        """The one that goes on, or a new one."""
        need = _need_of(shard, now - REBUILD_AFTER_US)
        work = self._works.get(shard.partition)
        if work is None or work.is_done or work.begins_at != shard.progress.begins_at or work.scope < need:
            work = _Work(need, shard.progress.begins_at, now, JobPages(shard.slots))
            self._works[shard.partition] = work
            if need is Held.ALL:
                shard.jump = None  # the rows that it has written beyond the edge may have expired as well
            log_.warning("due rows may have expired: they are made anew", partition=shard.partition, of=need.name,
                         cursor=encode_cursor(shard.cursor))  # fmt: skip
        return work


def _need_of(shard: Shard, old: Instant) -> Held:
    if shard.horizon_at < old:
        return Held.ALL
    return Held.GAPS if any(gap.position.due_at < old for gap in shard.gaps) else Held.NOTHING


def _of_job(shard: Shard, versions: list[JobVersion], now: Instant, scope: Held) -> Ahead:
    """What may be gone: rows that are due by now. Later ones live for three days yet."""
    rows: list[DueRow] = []
    chains: list[Chain] = []
    try:
        if error := schedule_error(versions[0].spec.schedule):
            log_.error("a job's rows cannot be made anew", job_id=versions[0].job_id, cause=error)
        for owed in expected(shard, versions) if scope is Held.ALL else ():
            ahead = ahead_of(shard, owed, now)
            rows += [row for row in ahead.rows if row.due_at <= now]
            chains += ahead.chains
        for left in shard.owed_in_gaps(versions[0].job_id, versions):
            version, fire_at = first_fire(left)
            rows.append(due_row(version, fire_at, advance_wts(fire_at, version)))
    except RequestError as error:
        # One bad job must not hold up its shard; this line names it.
        log_.error("a job's rows cannot be made anew", job_id=versions[0].job_id, cause=str(error))
    return Ahead(rows, chains)
