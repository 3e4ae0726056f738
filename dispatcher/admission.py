"""What becomes of a run that is due where its job has an overlap policy or a limit. Pure.

What must hold: a run goes out only where there is room, for its job and for its concurrency group, and nobody overtakes
who waits in the same queue. Each policy as Temporal's schedules have it, with one widening: where more than one run may
be open, "another run is open" reads "there is no room". With a concurrency key the policy looks at the runs of the same
group.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from waterclock.model.concurrency import STOPS, Concurrency, Overlap
from waterclock.model.events import Origin
from waterclock.model.ids import Instant

from .flow import FlowJob
from .flow_runs import Open

OVERLAP = "overlap"
"""Why a fire is dropped, or waits because of a policy."""

CONCURRENCY = "concurrency"
"""Why a fire waits because of a limit alone."""

MAX_HELD = "max_held"
SHARD_FULL = "held_per_shard"


class Fate(Enum):
    """What becomes of the run."""

    RUN = "run"
    HOLD = "hold"
    DROP = "drop"


class Admission(NamedTuple):
    """``reason``: why it waits or is dropped; ``cap``: the bound that was full. ``replaced``: runs that waited and are
    dropped in its favour; ``stopped``: open runs that are asked to end."""

    fate: Fate
    reason: str = ""
    cap: str = ""
    replaced: tuple[str, ...] = ()
    stopped: tuple[str, ...] = ()


_RUN = Admission(Fate.RUN)
_DROP = Admission(Fate.DROP, OVERLAP)


def admit(
    job: FlowJob,
    limits: Concurrency,
    group: str,
    fire_at: Instant | None,
    *,
    paused: bool,
    full: bool,
    may_wait: bool = True,
) -> Admission:
    """Decide one run. ``limits``: of the version that it is made of; ``full``: the shard can keep no more runs.

    ``fire_at``: of a schedule's run, None of one that people asked for. Not ``may_wait``: the shard has no room for
    what it would bring along while it waits; one that goes out brings nothing.
    """
    if full:
        return _DROP._replace(cap=SHARD_FULL)
    if job.has_room(limits, group) and not job.waits_before(limits, group, paused=paused):
        return _RUN
    most = {Overlap.SKIP: 0, Overlap.BUFFER_ONE: 1}.get(limits.overlap)
    if most is not None and len(job.waiting(limits, group)) >= most:
        return _DROP
    if limits.overlap in STOPS and may_wait:
        return _in_place_of_others(job, limits, group, fire_at)
    if not may_wait or len(job.held) >= limits.held_limit:
        return _DROP._replace(cap=MAX_HELD if may_wait else SHARD_FULL)
    return Admission(Fate.HOLD, CONCURRENCY if limits.overlap is Overlap.ALLOW else OVERLAP)


def _in_place_of_others(job: FlowJob, limits: Concurrency, group: str, fire_at: Instant | None) -> Admission:
    if fire_at is not None and _has_newer(job, limits, group, fire_at):
        return _DROP
    replaced = tuple(held.kept.run_id for held in job.waiting(limits, group))
    stopped = _stopped(job, limits, group, len(job.held) - len(replaced) + 1)
    return Admission(Fate.HOLD, OVERLAP, replaced=replaced, stopped=stopped)


def _has_newer(job: FlowJob, limits: Concurrency, group: str, fire_at: Instant) -> bool:
    """Whether a later fire of the schedule is open or waits there: what is caught up does not stop what is newer."""
    others = [held.kept for held in job.held.values()] + [run.kept for run in job.open.values()]
    return any(
        each.fire_at > fire_at and each.origin is Origin.SCHEDULE and (not limits.key or each.group == group)
        for each in others
    )


def _stopped(job: FlowJob, limits: Concurrency, group: str, held_count: int) -> tuple[str, ...]:
    """The oldest open runs that must end so that this one, and those that wait with it, find room.

    Those that are asked already are on their way; so one fire stops one run, and a burst of them no more.
    """
    if group and limits.key_limit and job.by_group[group] >= limits.key_limit:
        scope, most, wanting = [run for run in job.open.values() if run.kept.group == group], limits.key_limit, 1
    elif limits.job_limit and len(job.open) >= limits.job_limit:
        scope, most, wanting = list(job.open.values()), limits.job_limit, held_count
    else:
        return ()
    need = wanting + len(scope) - most - sum(run.asked for run in scope)
    return tuple(run.kept.run_id for run in sorted(scope, key=_age) if not run.asked)[: max(0, need)]


def _age(run: Open) -> tuple[int, str]:
    return run.kept.fire_at, run.kept.run_id
