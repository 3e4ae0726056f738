"""A DagRun once more, as a new series: whole, or from some of its nodes on (the engine keeps what does not come after).

It is made of the version that the command names, which is that of the DagRun that it runs again: else the nodes that
are kept might be others. What must hold: all follows from the command, its place and that version, so a replay repeats
it. Nobody's state is asked: what of the older DagRun can be kept, the engine reads from the log.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import NamedTuple

from waterclock.model.concurrency import FREE
from waterclock.model.dag_events import DagStart
from waterclock.model.document import PAYLOAD_MAX
from waterclock.model.errors import RequestError
from waterclock.model.events import Origin, Pending
from waterclock.model.flow_state import RunFlow
from waterclock.model.ids import Instant, RunId, parse_run_id
from waterclock.model.job import Command, JobVersion

from .admission import Admission, Fate
from .admitting import admitted
from .commands import Place
from .emit import Emitter, pending_of_version
from .holding import drop, hand_out, hold
from .shard import Shard


class Rerun(NamedTuple):
    """The DagRun that is made, and of which version."""

    version: JobVersion
    run: RunFlow


def rerun_of(command: Command, place: Place, version: JobVersion | None) -> Rerun:
    """What a RERUN makes; ``version``: the one that it names. Raises RequestError (refused)."""
    earlier = parse_run_id(command.run_id)
    if earlier.job_id != command.job_id:
        raise RequestError(f"{command.run_id} is no run of {command.job_id}", pointer="/run_id",
                           hint="Key it by the run's job")  # fmt: skip
    if earlier.node:
        raise RequestError("a node's run cannot be run again by itself", pointer="/run_id",
                           hint="Run its DagRun again, from this node on")  # fmt: skip
    if version is None or version.spec.dag is None:
        raise RequestError(f"revision {command.to_revision} of {command.job_id} is no Dag", pointer="/to_revision",
                           hint="Name the revision that the DagRun is made of")  # fmt: skip
    names = [node.name for node in version.spec.dag.nodes]
    for name in command.rerun_from:
        if name not in names:
            near = get_close_matches(name, names, 1)
            raise RequestError(f"{name[:80]!r} is no node of the Dag", pointer="/rerun_from",
                               hint=f"Do you mean {near[0]!r}?" if near else "Give names of nodes")  # fmt: skip
    if command.payload is not None and len(command.payload) > PAYLOAD_MAX:
        raise RequestError("the payload is too large", pointer="/payload", hint=f"At most {PAYLOAD_MAX} bytes")
    run_id = str(RunId(command.job_id, earlier.fire_at, place.revision))
    what = (earlier.fire_at, version.revision, version.spec.tier, Origin.REDRIVE, "", command.payload)
    rerun_from = tuple(dict.fromkeys(command.rerun_from))  # each once: what repeats one could outgrow the run's record
    return Rerun(version, RunFlow(run_id, "", *what, linked_run=str(earlier), rerun_from=rerun_from))


def pending_of_rerun(version: JobVersion, run: RunFlow) -> Pending:
    """What PENDING and HELD say of a rerun."""
    start = DagStart(run.payload, run.rerun_from)
    return pending_of_version(version, run.origin)._replace(fire_at=run.fire_at, linked_run=run.linked_run, dag=start)


def admit_rerun(shard: Shard, out: Emitter, rerun: Rerun, now: Instant) -> Admission | None:
    """Make it, or have it wait or be dropped where its job's newest limits say so. None: nothing limits its job."""
    version, run = rerun
    job = shard.flow.jobs.get(version.job_id)
    if job is None or job.limits == FREE:
        out.rerun(run, pending_of_rerun(version, run), now)
        return None
    spec = version.spec
    run = run._replace(group=job.limits.group(spec.payload if run.payload is None else run.payload))
    admission = admitted(shard, out, version.job_id, job.limits, run, now)
    if admission.fate is Fate.RUN:
        out.rerun(run, pending_of_rerun(version, run), now)
        hand_out(shard, out, run)
    elif admission.fate is Fate.HOLD:
        hold(shard, out, run, admission.reason, pending_of_rerun(version, run), version, now)
    else:
        drop(out, run, admission.reason, now, cap=admission.cap)
    return admission
