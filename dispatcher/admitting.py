"""Fires, triggers and redrives of jobs whose runs are followed or counted: handed out, HELD or dropped.

Jobs without an overlap policy, a limit or a count never come here. A fire is judged by the version that it
belongs to, a trigger by the one that stands, a redrive by its job's newest limits, whatever its work was made of. What
must hold: misfires come in the order in which their catch-up hands them out: each finds what the one before has left.
"""

from __future__ import annotations

from waterclock.log.port import Outgoing
from waterclock.model.cause import NO_CAUSE, Cause
from waterclock.model.concurrency import Concurrency
from waterclock.model.events import Origin, WorkRecord
from waterclock.model.flow_state import RunFlow
from waterclock.model.ids import Instant, make_run_id, tenant_of_job
from waterclock.model.job import JobVersion
from waterclock.model.shared_room import finds_room
from waterclock.wire import codec

from .admission import OVERLAP, Admission, Fate, admit
from .emit import Emitter, pending_of_version
from .flow import HELD_BYTES_MAX, RUNS_MAX, Flow, FlowJob
from .holding import ask_to_end, drop, drop_held, hand_out, hold, know_job
from .run_count import MAX_RUNS
from .run_orders import pending_of_redrive
from .shard import Shard

_FEW = 20
"""A tenant that has not this part of all room has few runs there."""


def admit_fire(
    shard: Shard,
    out: Emitter,
    version: JobVersion,
    *,
    fire_at: Instant,
    due_at: Instant,
    now: Instant,
    in_order: bool = True,
    gap_to_at: Instant = 0,
) -> None:
    """Decide one fire of a schedule. Not ``in_order``: what it comes to names no due position.

    ``gap_to_at``: the end of the gap whose catch-up decides it, else 0.
    """
    run_id = make_run_id(version.job_id, fire_at)
    run = _entrant(run_id, version, fire_at, Origin.SCHEDULE, None)
    job = _find_job(shard, out, version)
    if not job.count.has_room(version):
        drop(out, run, MAX_RUNS, now, due_at=due_at if in_order else 0, gap_to_at=gap_to_at)
        return
    admission = admitted(shard, out, version.job_id, version.spec.concurrency, run, now)
    # Only now: a run that waited, and was dropped in favour of this one, is taken back.
    is_last = job.count.is_last(version)
    if admission.fate is Fate.DROP:
        drop(out, run, admission.reason, now, cap=admission.cap, due_at=due_at if in_order else 0, gap_to_at=gap_to_at)
        return
    if job.count.note_made(version.revision):
        shard.flow.note_count(job)
    if admission.fate is Fate.HOLD:
        place = due_at if in_order else None
        pending = pending_of_version(version, Origin.SCHEDULE)
        pending = pending._replace(fire_at=fire_at, due_at=place, gap_to_at=gap_to_at, is_last=is_last)
        hold(shard, out, run._replace(is_last=is_last), admission.reason, pending, version, now)
        return
    out.run(version, fire_at=fire_at, due_at=due_at, now=now, in_order=in_order, gap_to_at=gap_to_at, is_last=is_last)
    if _is_followed(shard, job, version):
        hand_out(shard, out, run)


def admit_trigger(
    shard: Shard,
    out: Emitter,
    version: JobVersion,
    *,
    fire_at: Instant,
    series: int,
    payload: bytes | None,
    now: Instant,
    cause: Cause = NO_CAUSE,
) -> Admission:
    """Decide the run of a trigger; the answer says what it came to."""
    run_id = make_run_id(version.job_id, fire_at, series)
    run = _entrant(run_id, version, fire_at, Origin.TRIGGER, payload)._replace(
        triggered_by=cause.source, hops=cause.hops
    )
    job = _find_job(shard, out, version)
    admission = admitted(shard, out, version.job_id, version.spec.concurrency, run, now)
    if admission.fate is Fate.RUN:
        out.trigger(version, fire_at, series, payload, now, cause)
        if _is_followed(shard, job, version):
            hand_out(shard, out, run)
    elif admission.fate is Fate.HOLD:
        pending = pending_of_version(version, Origin.TRIGGER, payload, cause)._replace(fire_at=fire_at)
        hold(shard, out, run, admission.reason, pending, version, now)
    else:
        drop(out, run, admission.reason, now, cap=admission.cap)
    return admission


def admit_redrive(
    shard: Shard, out: Emitter, work: WorkRecord, linked_run: str, messages: tuple[Outgoing, ...], now: Instant
) -> Admission | None:
    """Decide a redrive; ``messages`` hand it out. None: nothing limits its job, and nothing was done."""
    job = shard.flow.jobs.get(work.job_id)
    if job is None or job.limits.is_free:
        return None
    group, framed = job.limits.group(work.payload), codec.encode_work(work)
    what = (work.fire_at, work.revision, work.tier, Origin.REDRIVE, group)
    run = RunFlow(work.run_id, "", *what, work=framed, linked_run=linked_run)
    admission = admitted(shard, out, work.job_id, job.limits, run, now)
    if admission.fate is Fate.RUN:
        out.hand_out(*messages)
        hand_out(shard, out, run)
    elif admission.fate is Fate.HOLD:
        hold(shard, out, run, admission.reason, pending_of_redrive(work, linked_run), None, now)
    else:
        drop(out, run, admission.reason, now, cap=admission.cap)
    return admission


def is_full(flow: Flow, job_id: str) -> bool:
    """Whether the shard can keep no more runs of this job's tenant."""
    return not finds_room(flow.run_count_of[tenant_of_job(job_id)], flow.run_count, RUNS_MAX)


def may_follow(flow: Flow, job_id: str) -> bool:
    """Whether one more run may be followed for what becomes of it alone.

    Such a run must not take the room of a job that has to be held or skipped without: half of it is for those. But of a
    tenant that has few runs it may be beside one that has filled the half, until no more is left than those few.
    """
    has_few = flow.run_count_of[tenant_of_job(job_id)] < RUNS_MAX // _FEW
    return flow.run_count < RUNS_MAX // 2 or (has_few and flow.run_count < RUNS_MAX - RUNS_MAX // _FEW)


def _entrant(run_id: str, version: JobVersion, fire_at: Instant, origin: Origin, payload: bytes | None) -> RunFlow:
    spec = version.spec
    group = spec.concurrency.group(spec.payload if payload is None else payload)
    return RunFlow(run_id, "", fire_at, version.revision, spec.tier, origin, group, payload)


def _find_job(shard: Shard, out: Emitter, version: JobVersion) -> FlowJob:
    """Its own command has made it known; only where that record was lost, or cannot be read, it begins anew here."""
    job = shard.flow.jobs.get(version.job_id)
    if job is None:
        newest = shard.lately.get(version.job_id)
        job = know_job(shard, out, newest[0] if newest else version)
        shard.flow.changed[job.job_id] = None  # forgotten again where there is nothing to know
    return job


def _is_followed(shard: Shard, job: FlowJob, version: JobVersion) -> bool:
    """Whether what becomes of a run of this version matters to its job.

    Where nothing limits either, only failures are counted: where such a run may not be followed it runs all the same,
    and its end does not count.
    """
    if not job.limits.is_free or not version.spec.concurrency.is_free:
        return shard.flow.run_count < RUNS_MAX
    return (job.is_followed or version.spec.is_followed) and may_follow(shard.flow, version.job_id)


def admitted(shard: Shard, out: Emitter, job_id: str, limits: Concurrency, run: RunFlow, now: Instant) -> Admission:
    """The decision, with what it asks of others carried out already."""
    flow = shard.flow
    job = flow.jobs[job_id]
    if limits.is_free:
        return Admission(Fate.RUN)  # whatever waits of its job's other versions
    own_bytes = len(run.payload or b"") + len(run.work or b"")
    held_bytes = flow.held_bytes_of[tenant_of_job(job_id)], flow.held_bytes
    full, may_wait = is_full(flow, job_id), not own_bytes or finds_room(*held_bytes, HELD_BYTES_MAX, more=own_bytes)
    fire_at = run.fire_at if run.origin is Origin.SCHEDULE else None
    paused = shard.keeps_waiting(job_id, now)
    admission = admit(job, limits, run.group, fire_at, paused=paused, full=full, may_wait=may_wait)
    for run_id in admission.replaced:
        drop_held(shard, out, job, run_id, OVERLAP, now)
    for run_id in admission.stopped:
        ask_to_end(out, job.open[run_id], limits.overlap, now)
    return admission
