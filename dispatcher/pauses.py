"""Pauses: who paused a job and why, and when one that ends by itself is over (design §6). Pure.

A pause with a ``resume_at`` is ended by a RESUME, like any other. Its command is appended by the shard's owner, in a
round of its own work, a little before the time; whoever applies it gives it the stamp ``resume_at - 1``. So the clock
only decides when to ask; what the pause covers follows from commands alone: every fire before ``resume_at`` counts as
paused, that at ``resume_at`` is the first that is owed. A replay and a zombie decide alike (``resuming.py``). Where the
edge has passed that stamp by the time the command is applied, the pause covers what is due by the edge, too.

Its limits: where nobody owns the shard from ``LEAD_US`` before ``resume_at`` on, the pause lasts until somebody does.
An owner whose clock is further than that behind the brokers' asks too late: the command counts from its append time, so
fires from ``resume_at`` on are SKIPPED(paused), by as much as the clock is behind beyond ``LEAD_US``. Likewise where so
many pauses of a shard end together that ``LEAD_US_MAX`` is too short to apply them.
"""

from __future__ import annotations

from waterclock.model.errors import RequestError
from waterclock.model.ids import US_PER_S, Instant
from waterclock.model.job import Command, CommandKind, JobVersion, Once, Pause
from waterclock.model.time_text import format_rfc3339
from waterclock.model.timetable import fire_edge

LEAD_US = 10 * US_PER_S
"""So long before its time the end of a pause is asked for: a take-over after a crash fits in."""

LEAD_US_MAX = 50 * US_PER_S
"""The same where a crowd waits for such an end: whoever shuts for the night says one instant for all. What is left of
``AHEAD_US_MAX`` is for a clock that is behind."""

_FEW, _EACH_US = 200, 4_000
"""A crowd begins beyond the former, and each one of it is asked for so much earlier. That is three times what a resume
takes an owner beside both servers on two cores: it had applied 24,000 ten seconds before their instant."""

AHEAD_US_MAX = 60 * US_PER_S
"""How far a stamp may lie ahead of its record: a stamp in the far future would win over every change to come."""

_MOMENT_US = 1_000
"""The broker's append times have no finer parts."""

WITHIN_US = 3_660 * 86_400 * US_PER_S
"""Ten years: the longest pause that ends by itself."""


def stamp_of(command: Command, appended_at: Instant, before: JobVersion | None) -> Instant:
    """When the command counts: its append time, pushed past the job's previous stamp, and to the end of a pause that it
    carries out. Raises RequestError where that end lies too far ahead."""
    stamp_at = max(appended_at, before.stamp_at + 1) if before else appended_at
    if command.kind is not CommandKind.RESUME or not command.resume_at:
        return stamp_at
    if command.resume_at - appended_at > AHEAD_US_MAX:
        raise RequestError(
            f"a resume counts at most {AHEAD_US_MAX // US_PER_S} s ahead of its time",
            pointer="/resume_at",
            hint="Pause the job with this resume_at instead",
        )
    return max(stamp_at, command.resume_at - 1)


def lead_us(waiting: int) -> int:
    """How long before its time the end of a pause is asked for, where so many of its shard wait for theirs already.

    So a crowd that waits for one instant is asked for bit by bit, who came last first.
    """
    return min(LEAD_US + max(0, waiting - _FEW) * _EACH_US, LEAD_US_MAX)


def goes_on_at(command: Command, stamp_at: Instant, appended_at: Instant) -> Instant:
    """When what waits goes on by a resume that counts from later on, whoever asked for it: behind the end of a pause,
    and not only behind others that the broker took in the same moment. 0: at once."""
    return stamp_at + 1 if command.kind is CommandKind.RESUME and stamp_at > appended_at + _MOMENT_US else 0


def pause_of(command: Command, stamp_at: Instant, note_max: int) -> Pause:
    """The pause that a PAUSE begins. Raises RequestError where it would end at once, or hardly ever."""
    if command.resume_at and not stamp_at < command.resume_at <= stamp_at + WITHIN_US:
        raise RequestError(
            f"{_shown(command.resume_at)} is no time to resume at",
            pointer="/resume_at",
            hint="A pause ends in the future, within ten years, or by a resume",
        )
    return Pause(command.actor, command.note[:note_max], stamp_at, command.resume_at)


def pause_until(paused: JobVersion, stamp_at: Instant, edge_at: Instant) -> Instant:
    """Up to which fire time a job's fires count as paused, where the next command has this stamp and edge.

    That may be applied late: what fired in between is decided by nobody else. But a one-off behind the stamp is left to
    the command that finds it behind, or to the pause that goes on.
    """
    return stamp_at if isinstance(paused.spec.schedule, Once) else max(stamp_at, fire_edge(paused, edge_at))


def is_same_pause(asked: Pause | None, standing: Pause | None) -> bool:
    """Whether what is asked for stands already: the same end, and no other words."""
    if asked is None:
        return True
    stands = standing or Pause("", "", 0)  # paused by an earlier release
    return asked.resume_at == stands.resume_at and asked.note in ("", stands.note)


def _shown(at: Instant) -> str:
    try:
        return format_rfc3339(at)
    except (ValueError, OverflowError):
        return str(at)[:40]
