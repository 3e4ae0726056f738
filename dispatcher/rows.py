"""Rows of the time index: which ones a version needs ahead, and which ones a command makes void. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from waterclock.model.ids import US_PER_MINUTE, US_PER_S, Instant, minute_of, slot_of, tenant_of_job
from waterclock.model.job import JobStatus, JobVersion, Once
from waterclock.model.timetable import due_of, fire_edge, next_due, next_of
from waterclock.model.timing import JITTER_US_MAX
from waterclock.store.port import DueDelete, DueRow

from .envelope import seal
from .timeline import Chain

_HOUR_US = 3_600 * US_PER_S
_VOID_ROWS_MAX = 1_500
"""Bound of the walk over the rows a command voids: a day of minutes. Rows beyond it fall to the check of ghosts."""


class Ahead(NamedTuple):
    """Rows to write, and the chains of those that lie in the loaded window."""

    rows: list[DueRow]
    chains: list[Chain]


def due_row(version: JobVersion, fire_at: Instant, wts: int) -> DueRow:
    """The row that stands for the version's fires that are due in the minute of this one, from it on."""
    due_at = due_of(version, fire_at)
    return DueRow(
        slot=slot_of(version.job_id),
        minute=minute_of(due_at),
        due_at=due_at,
        job_id=version.job_id,
        revision=version.revision,
        entry="",
        fire_at=fire_at,
        attempt=1,
        tier=version.spec.tier,
        tenant=tenant_of_job(version.job_id),
        env=seal(version, fire_at),
        wts=wts,
    )


def advance_wts(fire_at: Instant, version: JobVersion) -> int:
    """The stamp of a row that a fire's owner writes ahead: the same for every replay (cassandra.md 4)."""
    return max(fire_at, version.stamp_at + 1)


def following(version: JobVersion, minute: int) -> Instant | None:
    """The version's first fire that is due after ``minute``."""
    return next_due(version, (minute + 1) * US_PER_MINUTE - 1)


def rows_ahead(version: JobVersion, first_at: Instant, wts: int, loaded: Callable[[int], bool]) -> Ahead:
    """From the first fire on: one row per minute up to the first minute that is not loaded yet.

    ``loaded(minute)`` tells whether the window has taken this job's slot for that minute already; such rows also become
    chains, because nobody will read them again. Ends: the window is bounded.
    """
    ahead = Ahead([], [])
    fire_at: Instant | None = first_at
    while fire_at is not None:
        row = due_row(version, fire_at, wts)
        ahead.rows.append(row)
        if not loaded(row.minute):
            break
        ahead.chains.append(Chain(version, row, fire_at))
        fire_at = following(version, row.minute)
    return ahead


def first_rows_beyond(versions: Sequence[JobVersion], edge_at: Instant, fires_after: Instant) -> list[DueRow]:
    """The row of the first fire due after ``edge_at``: of the newest version, and of older ones that still owe some.

    ``versions``: newest first; ``fires_after``: up to this fire time all is decided. From each of these rows on the
    window writes the next ones.
    """
    found: list[DueRow] = []
    ends_at: Instant | None = None
    for version in versions:
        after = max(fire_edge(version, edge_at), version.stamp_at, fires_after)
        first_at = next_of(version, after) if _goes_on(version) else None
        if first_at is not None and (ends_at is None or first_at <= ends_at):
            found.append(due_row(version, first_at, advance_wts(after, version)))
        ends_at = version.stamp_at
        if ends_at <= edge_at - JITTER_US_MAX:
            break
    return found


def _goes_on(version: JobVersion) -> bool:
    """Whether it has more rows than the first one."""
    return version.status is JobStatus.ACTIVE and not isinstance(version.spec.schedule, Once)


def void_rows(before: JobVersion, stamp_at: Instant, rows_end: Instant) -> list[DueDelete]:
    """The rows of the superseded version that may exist for fires after ``stamp_at``.

    One per minute in which one is due, up to the first one due beyond ``rows_end`` (``Shard.rows_end``): further ones
    are never written ahead. Their stamp is an hour above the command's: rows written ahead, and those of zombies, must
    lose. Of a version whose fires cannot be told nobody knows them: the check of ghosts is left, for 26 hours at most.
    """
    found: list[DueDelete] = []
    fire_at = next_of(before, stamp_at)
    while fire_at is not None and len(found) < _VOID_ROWS_MAX:
        due_at = due_of(before, fire_at)
        found.append(void_row(before.job_id, before.revision, due_at, stamp_at))
        if due_at > rows_end:
            break
        fire_at = following(before, minute_of(due_at))
    return found


def void_row(job_id: str, revision: int, due_at: Instant, stamp_at: Instant) -> DueDelete:
    """The deletion of one row by the command with this stamp."""
    return DueDelete(slot_of(job_id), minute_of(due_at), due_at, job_id, revision, "", stamp_at + _HOUR_US)
