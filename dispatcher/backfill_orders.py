"""What a command about a backfill decides. Pure: by the command, its job's versions below it, and what stands.

What must hold: a replayed command makes the same backfill, under the same id. How it fails: RequestError (refused),
Busy at a bound; nothing has changed then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from waterclock.model.backfill import (
    CONCURRENCY,
    CONCURRENCY_MAX,
    ENDED,
    HISTORY_PROVES_US,
    Backfilled,
    BackfillStatus,
    check_may_be_backfilled,
    fire_count_of,
    make_backfill_id,
    parse_backfill_id,
)
from waterclock.model.errors import Busy, Conflict, NotFound, RequestError
from waterclock.model.ids import US_PER_S, Instant, tenant_of_job
from waterclock.model.job import Command, CommandKind, JobStatus, JobVersion, Tier
from waterclock.model.shared_room import finds_room
from waterclock.model.time_text import format_rfc3339
from waterclock.model.timetable import count_of
from waterclock.model.timing import JITTER_US_MAX

from .commands import NOTE_MAX, Place, expect_revision

OF_JOB_MAX = 10
"""Backfills of one job that have not ended."""

OF_SHARD_MAX = 500

ACTOR_MAX = 200

_AHEAD_US = 60 * US_PER_S
"""So far the end may lie ahead of the broker's clock: whoever says "now" has one of their own."""

_FOREVER = 1 << 62

_TURNS = {
    CommandKind.PAUSE_BACKFILL: BackfillStatus.PAUSED,
    CommandKind.RESUME_BACKFILL: BackfillStatus.WAITING,
    CommandKind.CANCEL_BACKFILL: BackfillStatus.CANCELLED,
}
_UNCHANGED = {
    CommandKind.PAUSE_BACKFILL: {BackfillStatus.PAUSED},
    CommandKind.RESUME_BACKFILL: {BackfillStatus.WAITING, BackfillStatus.RUNNING},
    CommandKind.CANCEL_BACKFILL: {BackfillStatus.CANCELLED},
}


class Turned(NamedTuple):
    """What a command makes of a backfill: ``told`` as it stands then. ``is_new``: the command has asked for it."""

    told: Backfilled
    is_new: bool
    is_changed: bool


def speaks_of_a_backfill(command: Command) -> bool:
    """Whether the command is one of these."""
    return command.kind is CommandKind.BACKFILL or command.kind in _TURNS


def decide(
    command: Command,
    place: Place,
    versions: Sequence[JobVersion],
    target: JobVersion | None,
    standing: Mapping[tuple[str, int], Backfilled],
) -> Turned:
    """What the command makes. ``versions``: the job's, newest first, as far back as the cursor; ``target``: the one
    that it names. ``standing``: the shard's backfills. Raises RequestError, Busy."""
    if command.kind in _TURNS:
        return _turned(command, standing)
    return Turned(_asked_for(command, place, versions, target, standing), is_new=True, is_changed=True)


def _turned(command: Command, standing: Mapping[tuple[str, int], Backfilled]) -> Turned:
    job_id, number = parse_backfill_id(command.backfill_id)
    if job_id != command.job_id:
        raise RequestError(
            f"{command.backfill_id} is no backfill of {command.job_id}",
            pointer="/backfill_id",
            hint="Key the command by the backfill's job",
        )
    told = standing.get((job_id, number))
    if told is None:
        raise NotFound(
            f"{make_backfill_id(job_id, number)} has ended, or there is no such backfill",
            pointer="/backfill_id",
            hint="`waterclock backfill list` shows those there are",
        )
    if told.status in _UNCHANGED[command.kind]:
        return Turned(told, is_new=False, is_changed=False)
    if told.status in ENDED:
        raise Conflict(
            f"{make_backfill_id(job_id, number)} has ended ({told.status})",
            pointer="/backfill_id",
            hint="Ask for a new one: what has run is left out",
        )
    reason = command.note[:NOTE_MAX] if command.kind is CommandKind.CANCEL_BACKFILL else ""
    return Turned(told._replace(status=_TURNS[command.kind], reason=reason), is_new=False, is_changed=True)


def _asked_for(
    command: Command,
    place: Place,
    versions: Sequence[JobVersion],
    target: JobVersion | None,
    standing: Mapping[tuple[str, int], Backfilled],
) -> Backfilled:
    before = versions[0] if versions else None
    stands = before if before is not None and before.status is not JobStatus.DELETED else None
    expect_revision(command, before, stands)
    if stands is None:
        raise NotFound(f"there is no job {command.job_id}", pointer="/job_id", hint="`waterclock job list` shows them")
    version = _version(command, place, stands, target)
    check_may_be_backfilled(version)
    if not 0 <= command.concurrency <= CONCURRENCY_MAX:
        raise RequestError(
            f"{command.concurrency} runs at a time", pointer="/concurrency", hint=f"1 to {CONCURRENCY_MAX:,}"
        )
    from_at, to_at = _range(command, place)
    fire_count = _fire_count(command, version, from_at, to_at)
    _check_history(version, max(from_at, stands.created_at), min(to_at, place.appended_at - HISTORY_PROVES_US), to_at)
    _check_room(command, standing)
    has_jitter = any(each.spec.timing.jitter_us for each in (*versions, version))
    return Backfilled(
        number=place.revision,
        seq=0,
        status=BackfillStatus.WAITING,
        from_at=from_at,
        to_at=to_at,
        position_at=from_at - 1,
        revision=version.revision,
        tier=Tier.LOW if command.tier is None else command.tier,
        concurrency=command.concurrency or CONCURRENCY,
        fire_count=fire_count,
        made_count=0,
        left_count=0,
        blocked_count=0,
        succeeded_count=0,
        failed_count=0,
        cancelled_count=0,
        # By then every fire before `to` is decided, whichever version owed it.
        ready_at=to_at + (JITTER_US_MAX if has_jitter else 0),
        asked_at=place.appended_at,
        began_at=0,
        actor=command.actor[:ACTOR_MAX],
        note=command.note[:NOTE_MAX],
        reason="",
    )


def _version(command: Command, place: Place, stands: JobVersion, target: JobVersion | None) -> JobVersion:
    if not command.to_revision:
        return stands
    if target is None or target.revision >= place.revision or target.status is JobStatus.DELETED:
        raise RequestError(
            f"{command.job_id} has no version {command.to_revision} with fires",
            pointer="/to_revision",
            hint="`waterclock job history` lists those there are",
        )
    return target


def _range(command: Command, place: Place) -> tuple[Instant, Instant]:
    """The range, its end cut at the command: what comes after is the schedule's own.

    Who names no end means the command, by the broker's clock: so the same request made again asks for the same.
    """
    until_at = command.to_at or place.appended_at
    if not 0 < command.from_at < until_at < _FOREVER:
        raise RequestError(
            f"the range from {command.from_at} to {until_at} is none",
            pointer="/to",
            hint="from must lie before to",
        )
    if until_at > place.appended_at + _AHEAD_US:
        raise RequestError(
            "a backfill is of the past, and `to` lies in the future",
            pointer="/to",
            hint=f"At most {format_rfc3339(place.appended_at)}: what is still to come the schedule runs by itself",
        )
    to_at = min(until_at, place.appended_at)
    if to_at <= command.from_at:
        raise RequestError("the range lies in the future", pointer="/from", hint="A backfill is of the past")
    return command.from_at, to_at


def _fire_count(command: Command, version: JobVersion, from_at: Instant, to_at: Instant) -> int:
    fire_count = fire_count_of(version, from_at, to_at)
    if not fire_count:
        raise RequestError(
            f"revision {version.revision} of {command.job_id} has no fire from {format_rfc3339(from_at)} to "
            f"{format_rfc3339(to_at)}",
            pointer="/from",
            hint="`waterclock cron explain` shows an expression's fires; an interval has none before its anchor",
        )
    return fire_count


def _check_history(version: JobVersion, from_at: Instant, until_at: Instant, to_at: Instant) -> None:
    """Refuse fires of which nobody could tell whether they have run."""
    if from_at < until_at and count_of(version, from_at - 1, min(until_at, to_at) - 1):
        raise RequestError(
            f"whether fires before {format_rfc3339(until_at)} have run, history does not tell any more",
            pointer="/from",
            hint=f"Begin at {format_rfc3339(until_at)} or later, or end before the job was made",
        )


def _check_room(command: Command, standing: Mapping[tuple[str, int], Backfilled]) -> None:
    going_on = [job_id for (job_id, _), told in standing.items() if told.status not in ENDED]
    if going_on.count(command.job_id) >= OF_JOB_MAX:
        raise Busy(
            f"{OF_JOB_MAX} backfills of {command.job_id} have not ended, the most there may be",
            hint="Wait for one of them, or cancel it: waterclock backfill cancel",
        )
    tenant = tenant_of_job(command.job_id)
    mine = sum(tenant_of_job(job_id) == tenant for job_id in going_on)
    if not finds_room(mine, len(going_on), OF_SHARD_MAX):
        raise Busy(f"{mine} backfills of {tenant} have not ended, and its partition has no room for more",
                   hint="Wait for one of them, or cancel it: waterclock backfill cancel")  # fmt: skip
