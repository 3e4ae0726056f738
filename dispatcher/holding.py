"""What is said of runs that wait for one another, each in the round that decides it: to the log and to the state topic.

No rule is here. What must hold: memory, events and records of the state topic change together, so that a successor
knows what this owner knew at the committed position.
"""

from __future__ import annotations

from waterclock.model.concurrency import Overlap
from waterclock.model.events import Control, ControlKind, EventKind, Origin, Pending, RunEvent, Skipped
from waterclock.model.flow_state import RunFlow
from waterclock.model.ids import Instant, job_of_run
from waterclock.model.job import JobVersion
from waterclock.wire.messages import FLOW_PREFIX, control_message, event_message

from .emit import Emitter
from .flow import FlowJob
from .flow_runs import NEW, Held, Open
from .misfire import SkipRange, parts_between
from .shard import Shard


def note_job(shard: Shard, out: Emitter, job: FlowJob) -> None:
    """Keep what is known of a job: its limits and its counts."""
    shard.flow.unreadable.discard(job.job_id)
    out.job_flow(shard.partition, job.kept)


def know_job(shard: Shard, out: Emitter, version: JobVersion) -> FlowJob:
    """Begin to follow a job, as its newest version says."""
    job = shard.flow.job(version.job_id, version.spec.concurrency)
    shard.flow.follow(job, version)
    note_job(shard, out, job)
    return job


def hand_out(shard: Shard, out: Emitter, run: RunFlow) -> None:
    """A run goes out in this round, new or HELD so far: from here on it is open."""
    flow = shard.flow
    kept = run._replace(held="", payload=None, work=None, linked_run="", rerun_from=(), triggered_by="", hops=0)
    kept = kept._replace(folded_to=flow.position)
    opened = Open(kept, NEW if run.held else None)
    flow.opened(flow.jobs[job_of_run(run.run_id)], opened)
    out.run_flow(shard.partition, flow.kept_now(opened))


def hold(
    shard: Shard, out: Emitter, run: RunFlow, reason: str, pending: Pending, version: JobVersion | None, now: Instant
) -> None:
    """A run waits, behind all others of its job.

    Where its own version has no room for it, the newest one may have: that counts for those that wait (``settle``).
    """
    job_id = job_of_run(run.run_id)
    job, held = shard.flow.jobs[job_id], Held(run._replace(held=reason), version)
    held.regroup(job.limits)  # of an older revision it may have another key: whoever waits goes by the newest
    shard.flow.hold(job, held)
    if job.next_released(paused=shard.keeps_waiting(job_id, now)) is not None:
        shard.flow.changed[job_id] = None
    event = RunEvent(EventKind.HELD, job_id, run.run_id, now, reason=reason, detail=pending)
    out.hand_out(event_message(out.names, event))
    out.run_flow(shard.partition, held.kept)


def drop(
    out: Emitter,
    run: RunFlow,
    reason: str,
    now: Instant,
    *,
    cap: str = "",
    due_at: Instant = 0,
    gap_to_at: Instant = 0,
) -> None:
    """A run is not made."""
    detail = Skipped(run.revision, run.fire_at, run.fire_at, 1, run.tier, due_at, cap=cap, gap_to_at=gap_to_at)
    event = RunEvent(EventKind.SKIPPED, job_of_run(run.run_id), run.run_id, now, reason=reason, detail=detail)
    out.hand_out(event_message(out.names, event))


def drop_held(
    shard: Shard, out: Emitter, job: FlowJob, run_id: str, reason: str, now: Instant, *, cap: str = ""
) -> None:
    """A run that waited is not made after all."""
    held = shard.flow.unhold(job, run_id)
    if held.kept.origin is Origin.SCHEDULE and job.count.take_back(held.kept.revision):
        shard.flow.note_count(job)
    drop(out, held.kept, reason, now, cap=cap)
    out.state_forgotten(shard.partition, FLOW_PREFIX + run_id)


def beside_held(shard: Shard, skipped: SkipRange) -> list[SkipRange]:
    """The skips of a range, in parts between which what waits of the job's schedule lies.

    By its instants alone a range would end what is HELD there, whatever revision that is of: behind an edit that came
    late, and changed schedule and jitter, an older one's may lie between two fires of the newer one.
    """
    job = shard.flow.jobs.get(skipped.version.job_id)
    if job is None or not job.held or skipped.from_at == skipped.to_at:
        return [skipped]
    waiting = (held.kept.fire_at for held in job.held.values() if held.kept.origin is Origin.SCHEDULE)
    return parts_between(skipped, sorted(at for at in waiting if skipped.from_at <= at <= skipped.to_at))


def ask_to_end(out: Emitter, run: Open, overlap: Overlap, now: Instant) -> None:
    """Ask an open run to end, in favour of one that waits for it: control first (design §7)."""
    run.asked_by_us = True
    run_id = run.kept.run_id
    job_id = job_of_run(run_id)
    hard = overlap is Overlap.TERMINATE_OTHER
    out.ahead.append(control_message(out.names, Control(ControlKind.CANCEL_REQUESTED, job_id, run_id, now, hard)))
    event = RunEvent(EventKind.CANCEL_REQUESTED, job_id, run_id, now, reason=overlap.value)
    out.hand_out(event_message(out.names, event))


def forget_unreadable(shard: Shard, out: Emitter, job_id: str) -> None:
    """What a later release kept of a job ends with the version that it spoke of: that release would go on by it, also
    where the job was deleted meanwhile, or is of another kind."""
    shard.flow.unreadable.discard(job_id)
    out.state_forgotten(shard.partition, FLOW_PREFIX + job_id)


def forget_drained(shard: Shard, out: Emitter, job: FlowJob) -> None:
    """Forget a job whose new runs nobody follows, once none of the older ones waits or is open. Not its record, where
    nobody here could read what that says: with it a count would begin anew, and a fixed delay would never go on."""
    if job.is_free and not job.held and not job.open:
        shard.flow.forget_job(job.job_id)
        if job.job_id not in shard.flow.unreadable:
            out.state_forgotten(shard.partition, FLOW_PREFIX + job.job_id)
