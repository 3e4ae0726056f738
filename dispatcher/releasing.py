"""Runs that were HELD go out as others end, as their job changes, or not at all.

What must hold: a run that waits ends as PENDING, SKIPPED or CANCELLED. The oldest that finds room goes first. A pause
keeps what the schedule made (what people asked for goes on), a delete drops all (SKIPPED, ``withdrawn``), an edit
counts at once for those that wait, each still made of the revision that its fire belongs to.

How it fails: a run that a predecessor has held needs its version from ``job_versions``; while the store is away it
waits, and its job's others behind it.
"""

from __future__ import annotations

import structlog

from waterclock.model.ids import Instant, job_of_run
from waterclock.model.job import JobStatus, JobVersion
from waterclock.store.port import TimeIndex
from waterclock.wire import codec
from waterclock.wire.messages import FLOW_PREFIX

from .backfills import count_ends
from .emit import Emitter
from .envelope import FIRE_BYTES, weight_of
from .flow import FlowJob
from .flow_runs import UNREAD, Held
from .holding import drop, drop_held, forget_drained, forget_unreadable, hand_out, know_job, note_job
from .legible import newest_below
from .reruns import pending_of_rerun
from .shard import Shard

log_ = structlog.get_logger("dispatcher")

WITHDRAWN = "withdrawn"
"""Why a run that waited is dropped with its job."""

REVISION_GONE = "revision-gone"

RELEASES_MAX = 500
"""Runs of a shard that go out in one round; a large one counts for several."""

VERSIONS_MAX = 200
"""Versions that one round asks the store for."""

KEPT_BEHIND = 5_000
"""Offsets of run-events that a successor reads again because of one run, before its record is written anew."""

_KEPT_PER_ROUND = 200


def follow_version(shard: Shard, out: Emitter, version: JobVersion, now: Instant) -> None:
    """A command has made this version: what it says of its runs counts from now on."""
    flow = shard.flow
    job = flow.jobs.get(version.job_id)
    is_gone = version.status is JobStatus.DELETED
    if is_gone:
        for run_id in [each for each in flow.unreadable_held if job_of_run(each) == version.job_id]:
            drop(out, flow.unreadable_held.pop(run_id), WITHDRAWN, now)
            out.state_forgotten(shard.partition, FLOW_PREFIX + run_id)
    if version.job_id in flow.unreadable:
        forget_unreadable(shard, out, version.job_id)
    if job is None:
        if not is_gone and version.spec.is_admitted:
            know_job(shard, out, version)
        return
    if is_gone:
        for run_id in list(job.held):
            drop_held(shard, out, job, run_id, WITHDRAWN, now)
    key = job.limits.key
    if flow.follow(job, version):
        note_job(shard, out, job)
    for held in job.held.values() if job.limits.key != key else ():
        held.regroup(job.limits)
    flow.changed[job.job_id] = None


def withdraw(shard: Shard, out: Emitter, run_id: str) -> None:
    """A cancel of this run goes out: where it waits, that ends it.

    Forgotten in this very round: what comes next, ``settle``, may have to wait for the rest of a backlog, and a
    successor that found the record would hand the run out after its cancel.
    """
    job = shard.flow.jobs.get(job_of_run(run_id))
    if shard.flow.unreadable_held.pop(run_id, None) is not None:
        out.state_forgotten(shard.partition, FLOW_PREFIX + run_id)
    if job is not None and run_id in job.held:
        shard.flow.unhold(job, run_id)
        out.state_forgotten(shard.partition, FLOW_PREFIX + run_id)
        shard.flow.changed[job.job_id] = None


def settle(shard: Shard, index: TimeIndex | None, out: Emitter, now: Instant) -> bool:
    """Hand out what finds room by what has ended. True where more goes out in the next round.

    ``index`` None: the store is away. Raises BackendDown: versions could not be read. Nothing is lost by that, and
    other jobs' runs are in the round.
    """
    flow = shard.flow
    if not flow.changed:
        return False
    left, wanting = RELEASES_MAX, list[FlowJob]()
    for job_id in list(flow.changed):
        job = flow.jobs[job_id]
        left, waits = _release(shard, out, job, left, now)
        if waits is None:
            del flow.changed[job_id]
            forget_drained(shard, out, job)
        elif left > 0:
            wanting.append(job)
        else:
            break
    if wanting and index is not None:
        _learn_versions(shard, index, out, wanting, now)
    return bool(flow.changed)


def forget_ended(shard: Shard, out: Emitter, now: Instant) -> None:
    """Forget the runs that have ended: whatever else a round may do, or may not yet.

    The records of their jobs and of their backfills hold their ends from now on, and anything may write one in this
    round.
    """
    for run_id in shard.flow.ended:
        out.state_forgotten(shard.partition, FLOW_PREFIX + run_id)
    shard.flow.ended.clear()
    count_ends(shard, out, now)


def keep_counts(shard: Shard, out: Emitter) -> None:
    """Write down, last of all in a round, what it has counted: a run, or an end, and its count go together."""
    for job_id in shard.flow.counted:
        if job_id in shard.flow.jobs:
            note_job(shard, out, shard.flow.jobs[job_id])
    shard.flow.counted.clear()


def keep_up(shard: Shard, out: Emitter, now_s: float) -> None:
    """Write the records of long runs anew, so that no take-over reads run-events from their beginning, nor misses what
    retention has taken of a quiet partition."""
    flow = shard.flow
    flow.aged.note(flow.position, now_s)
    for run in flow.old_news(max(flow.position - KEPT_BEHIND, flow.aged.below), _KEPT_PER_ROUND):
        out.run_flow(shard.partition, flow.kept_now(run))


def _release(shard: Shard, out: Emitter, job: FlowJob, left: int, now: Instant) -> tuple[int, Held | None]:
    """Hand out the job's runs as far as there is room, while any is ``left``. Answers what is left of that, and the run
    that could go, or is of no group yet, and has to wait for the next round (None: there is none)."""
    paused = shard.keeps_waiting(job.job_id, now)
    while (held := job.next_released(paused=paused)) is not None:
        if left <= 0 or not _knows_what(held):
            return left, held
        left -= _weight(held)
        kept, version = shard.flow.unhold(job, held.kept.run_id).kept, held.version
        if kept.work is not None:
            out.release_redrive(codec.decode_work(kept.work), kept.linked_run, now)
        elif version is not None and kept.linked_run:
            out.rerun(kept, pending_of_rerun(version, kept), now)
        elif version is not None:
            out.release(version, kept, now)
        hand_out(shard, out, kept)
    # Also one that may not go: a new run has to find it in its queue.
    return left, next((held for held in job.held.values() if held.kept.group == UNREAD), None)


def _knows_what(held: Held) -> bool:
    return held.version is not None or held.kept.work is not None


def _weight(held: Held) -> int:
    """For how many runs it counts, by the bytes that go out with it."""
    if held.size or held.version is None:
        return 1 + held.size // FIRE_BYTES
    return weight_of(held.version.spec)


def _learn_versions(shard: Shard, index: TimeIndex, out: Emitter, jobs: list[FlowJob], now: Instant) -> None:
    """What runs are made of that a predecessor has held: read once, for the next round. Raises BackendDown."""
    waiting = [(job, held) for job in jobs for held in job.held.values() if not _knows_what(held)]
    asked = list(dict.fromkeys((job.job_id, held.kept.revision) for job, held in waiting))[:VERSIONS_MAX]
    found, illegible = newest_below(index, [(job_id, revision + 1) for job_id, revision in asked])
    for job_id in illegible:
        shard.flow.changed.pop(job_id, None)  # it waits for somebody who can read it; a new event looks again
    known = dict(zip(asked, found, strict=True))
    for job, held in waiting:
        place = job.job_id, held.kept.revision
        version = known.get(place)
        if version is not None and version.revision == held.kept.revision:
            held.version = version
            held.regroup(job.limits)
        elif place in known and job.job_id not in illegible:
            log_.error("a held run cannot be made: its revision is gone", run_id=held.kept.run_id)
            drop_held(shard, out, job, held.kept.run_id, WITHDRAWN, now, cap=REVISION_GONE)
