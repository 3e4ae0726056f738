"""What ends of other runs make of a job: a run at once, a part of a window, or a word about why there is none.

What must hold: whatever is told here changes memory, the log and the state topic in the one round of its command. A
window that an edit or a delete takes away is told, as one that lapses is: SKIPPED, under the id of the run that the end
which opened it would have made.
"""

from __future__ import annotations

from waterclock.model.cause import Cause
from waterclock.model.events import Origin
from waterclock.model.flow_state import RunFlow
from waterclock.model.gathering import Gathering
from waterclock.model.ids import US_PER_S, Instant, make_run_id
from waterclock.model.job import Command, CommandKind, JobStatus, JobVersion
from waterclock.model.triggers import Triggers, name_of
from waterclock.wire.messages import GATHER_PREFIX

from . import gathering
from .admission import Admission, Fate
from .commands import Applied
from .emit import Emitter
from .holding import drop
from .misfire import PAUSED
from .putting_out import run_at_once
from .resuming import AGAIN_US
from .shard import Shard

WAITS_US = 1 * US_PER_S
"""How soon it is looked again where commands wait, among which what is to be asked for may be."""

WINDOW = "window"
"""Why there is no run: not all that had to come within the window has come. The event's ``cap`` names what was missing,
or says why else the window ended."""

_ASKED_MAX = 200
"""Looks at windows of one shard in one round."""

_NAMES_MAX = 200
"""Characters of the names of what was missing."""


def follow(shard: Shard, out: Emitter, version: JobVersion, before: JobVersion | None, now: Instant) -> None:
    """Say what starts the job from now on, where that has changed; what was gathered for something else is dropped."""
    if _on(version) == (_on(before) if before is not None else None):
        return
    out.listens(version)
    gone = shard.gatherings.drop(version.job_id)
    if gone is not None:
        out.state_forgotten(shard.partition, GATHER_PREFIX + version.job_id)
        _tell(out, gone, version, now, "its conditions changed")


def start(
    shard: Shard, out: Emitter, fired: JobVersion, applied: Applied, command: Command, now: Instant
) -> Admission | None:
    """What a command makes at once: its run, or what its end does to a window. Answers as ``run_at_once`` does."""
    if command.kind is CommandKind.LAPSE:
        return _close(shard, out, fired, applied, command, now)
    if applied.arrival is not None:
        return _arrive(shard, out, fired, applied, now)
    if applied.cause.source and applied.is_paused:
        return _leave_out(out, fired, applied, now)
    return run_at_once(shard, out, fired, applied, command.payload, now)


def ask_for_lapses(shard: Shard, out: Emitter, now: Instant) -> bool:
    """Append the LAPSE of every window that is over, ``_ASKED_MAX`` at most. True where more wait.

    By the log, and not here by the clock: ends that were appended before it have their part in the window. Only once
    the commands that stood at take-over are applied: among them may be the predecessor's own.
    """
    for over in shard.gatherings.over(now, _ASKED_MAX):
        if shard.inbox and over.job_id in shard.gatherings.asked:
            # It may wait there already, for as long as the store is away.
            shard.gatherings.look_at(over.job_id, now + WAITS_US)
            continue
        out.order(_lapse(over, now))
        shard.gatherings.asked.add(over.job_id)
        shard.gatherings.look_at(over.job_id, now + AGAIN_US)
    next_at = shard.gatherings.next_at()
    return next_at is not None and next_at <= now


def _lapse(over: Gathering, now: Instant) -> Command:
    number = over.opened_by
    return Command(
        CommandKind.LAPSE,
        over.job_id,
        f"lapse/{number}/{now}",  # one that came too early was served, and is not to make this one its repeat
        "dispatcher",
        now,
        due_at=over.closes_at,
        to_revision=number,
    )


def _arrive(shard: Shard, out: Emitter, fired: JobVersion, applied: Applied, now: Instant) -> Admission | None:
    on, arrival = fired.spec.on, applied.arrival
    assert on is not None
    assert arrival is not None
    before = shard.gatherings.get(fired.job_id)
    if before is None and not shard.gatherings.has_room(fired.job_id):
        drop(out, _run(fired, arrival.at, arrival.number), WINDOW, now, cap="windows of the shard")
        return None
    return _carry_out(shard, out, fired, applied, gathering.arrive(on, before, fired.job_id, arrival), now)


def _close(
    shard: Shard, out: Emitter, fired: JobVersion, applied: Applied, command: Command, now: Instant
) -> Admission | None:
    on, before = fired.spec.on, shard.gatherings.get(fired.job_id)
    if on is None or before is None or before.opened_by != command.to_revision:
        return None  # it has ended otherwise
    assert applied.run_at is not None
    if applied.run_at < before.closes_at:  # our clock is ahead of the brokers', by which ends count
        shard.gatherings.asked.discard(fired.job_id)
        shard.gatherings.look_at(fired.job_id, now + before.closes_at - applied.run_at)
        return None
    return _carry_out(shard, out, fired, applied, gathering.close(on, before, applied.run_at), now)


def _carry_out(
    shard: Shard, out: Emitter, fired: JobVersion, applied: Applied, step: gathering.Step, now: Instant
) -> Admission | None:
    if step.lapsed is not None:
        on = fired.spec.on
        assert on is not None
        _tell(out, step.lapsed, fired, now, _named(on, step.missing))
    if step.after is not None:
        shard.gatherings.put(step.after)
        out.gathered(shard.partition, step.after)
    elif shard.gatherings.drop(fired.job_id) is not None:
        out.state_forgotten(shard.partition, GATHER_PREFIX + fired.job_id)
    if step.cause is None:
        return None
    applied = applied._replace(cause=step.cause)
    if applied.is_paused:
        return _leave_out(out, fired, applied, now)
    return run_at_once(shard, out, fired, applied, None, now)


def _leave_out(out: Emitter, fired: JobVersion, applied: Applied, now: Instant) -> Admission:
    """A paused job is not started by others: people alone may."""
    assert applied.run_at is not None
    drop(out, _run(fired, applied.run_at, applied.series, applied.cause), PAUSED, now)
    return Admission(Fate.DROP, PAUSED)


def _tell(out: Emitter, gone: Gathering, version: JobVersion, now: Instant, why: str) -> None:
    drop(out, _run(version, gone.opened_at, gone.opened_by), WINDOW, now, cap=why)


def _run(version: JobVersion, at: Instant, series: int, cause: Cause | None = None) -> RunFlow:
    run_id, spec = make_run_id(version.job_id, at, series), version.spec
    run = RunFlow(run_id, "", at, version.revision, spec.tier, Origin.TRIGGER)
    return run if cause is None else run._replace(triggered_by=cause.source, hops=cause.hops)


def _named(on: Triggers, places: tuple[int, ...]) -> str:
    return ", ".join(name_of(on.conditions[place]) for place in places)[:_NAMES_MAX]


def _on(version: JobVersion) -> Triggers | None:
    return None if version.status is JobStatus.DELETED else version.spec.on
