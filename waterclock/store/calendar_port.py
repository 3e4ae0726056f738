"""Calendars as they are kept: immutable versions, a list of names, and which jobs were saved with which calendar.

What must hold: a version is written whole before its name leads to it; a job that is saved with a calendar is noted
*before* the calendar is read and the command is sent. So whoever puts a version, and then goes through the noted jobs,
misses none: either the job was noted before he looked, or it was saved with the version that he had put.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from waterclock.model.ids import Instant
from waterclock.model.timing import CalendarUse


class CalendarRow(NamedTuple):
    """One version of a calendar. ``version``: when it was put; ``document`` "": it deletes the calendar."""

    tenant: str
    name: str
    version: Instant
    actor: str
    document: str
    compiled: str

    @property
    def is_deleted(self) -> bool:
        return not self.document

    @property
    def use(self) -> CalendarUse:
        """As a job's version carries it."""
        return CalendarUse(self.name, self.version, self.compiled)


class CalendarName(NamedTuple):
    """A line of a tenant's list."""

    name: str
    version: Instant
    description: str
    is_deleted: bool


class NotedJob(NamedTuple):
    """A job that was saved with a calendar at ``at``. (``pshard``, ``job_id``) is the page token."""

    pshard: int
    job_id: str
    at: Instant


class CalendarKeeping(Protocol):
    """What keeps calendars. Raises BackendDown, WriteUnknown."""

    def put_calendar(self, row: CalendarRow, description: str = "") -> None:
        """Write a version, which is newer than all there are, and its name."""
        ...

    def calendars(self, tenant: str, names: Sequence[str]) -> list[CalendarRow | None]:
        """The newest version of each, also one that deletes it. Many at once."""
        ...

    def calendar(self, tenant: str, name: str, version: Instant) -> CalendarRow | None: ...

    def calendar_versions(self, tenant: str, name: str, limit: int, below: Instant | None = None) -> list[CalendarRow]:
        """Newest first; ``below``: only those with a smaller version."""
        ...

    def calendar_names(self, tenant: str, limit: int, after: str = "") -> list[CalendarName]:
        """In the order of their names, deleted ones among them; ``after``: only those behind this name."""
        ...

    def note_calendars(self, job_id: str, names: Sequence[str], at: Instant) -> None:
        """Note that a job is about to be saved with these calendars."""
        ...

    def noted_jobs(self, tenant: str, name: str, limit: int, after: tuple[int, str] | None = None) -> list[NotedJob]:
        """Jobs that were saved with the calendar, by pshard and id; ``after``: those behind this place.

        Fewer than ``limit``: there are no more.
        """
        ...

    def forget_noted(self, tenant: str, name: str, jobs: Sequence[NotedJob]) -> None:
        """Drop these notes, but for jobs that were noted again since."""
        ...
