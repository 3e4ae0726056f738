"""Calendars over any cells: see ``calendar_port.py``."""

from __future__ import annotations

from collections.abc import Sequence

from waterclock.model.ids import Instant, tenant_of_job

from .calendar_port import CalendarName, CalendarRow, NotedJob
from .cells import Cells, Mutation, Put, Remove, Select
from .port import Writing
from .rows import pshard_of
from .tables import CALENDAR_JOBS, CALENDAR_NAMES, CALENDARS, PSHARDS

WAIT_S = 30.0

_VERSION = Select(CALENDARS, equal=1)
_NEWEST = Select(CALENDARS, limited=True)
_BELOW = Select(CALENDARS, below=1, limited=True)
_NAMES_FIRST = Select(CALENDAR_NAMES, limited=True, relaxed=True)
_NAMES_NEXT = Select(CALENDAR_NAMES, above=1, limited=True, relaxed=True)
_JOBS_FIRST = Select(CALENDAR_JOBS, limited=True)
_JOBS_NEXT = Select(CALENDAR_JOBS, above=1, limited=True)


class TabularCalendars:
    """The same over any cells."""

    _cells: Cells

    def _write(self, operation: str, mutations: Sequence[Mutation]) -> Writing:
        raise NotImplementedError

    def put_calendar(self, row: CalendarRow, description: str = "") -> None:
        self._write("put_calendar", [Put(CALENDARS, tuple(row), row.version)]).wait(WAIT_S)
        name = (row.tenant, row.name, row.version, description, int(row.is_deleted))
        self._write("put_calendar", [Put(CALENDAR_NAMES, name, row.version)]).wait(WAIT_S)

    def calendars(self, tenant: str, names: Sequence[str]) -> list[CalendarRow | None]:
        found = self._cells.select("calendars", _NEWEST, [(tenant, name, 1) for name in names])
        return [CalendarRow(tenant, name, *part[0]) if part else None for name, part in zip(names, found, strict=True)]

    def calendar(self, tenant: str, name: str, version: Instant) -> CalendarRow | None:
        (found,) = self._cells.select("calendar", _VERSION, [(tenant, name, version)])
        return CalendarRow(tenant, name, *found[0]) if found else None

    def calendar_versions(self, tenant: str, name: str, limit: int, below: Instant | None = None) -> list[CalendarRow]:
        key = (tenant, name, limit) if below is None else (tenant, name, below, limit)
        (found,) = self._cells.select("calendar_versions", _NEWEST if below is None else _BELOW, [key])
        return [CalendarRow(tenant, name, *values) for values in found]

    def calendar_names(self, tenant: str, limit: int, after: str = "") -> list[CalendarName]:
        key = (tenant, after, limit) if after else (tenant, limit)
        (found,) = self._cells.select("calendar_names", _NAMES_NEXT if after else _NAMES_FIRST, [key])
        return [CalendarName(name, version, said or "", bool(gone)) for name, version, said, gone in found]

    def note_calendars(self, job_id: str, names: Sequence[str], at: Instant) -> None:
        tenant, pshard = tenant_of_job(job_id), pshard_of(job_id)
        notes = [Put(CALENDAR_JOBS, (tenant, name, pshard, job_id, at), at) for name in names]
        self._write("note_calendars", notes).wait(WAIT_S)

    def noted_jobs(self, tenant: str, name: str, limit: int, after: tuple[int, str] | None = None) -> list[NotedJob]:
        first, behind = after or (0, "")
        found: list[NotedJob] = []
        for pshard in range(first, PSHARDS):
            key = (tenant, name, pshard, *([behind] if behind else []), limit - len(found))
            (part,) = self._cells.select("noted_jobs", _JOBS_NEXT if behind else _JOBS_FIRST, [key])
            found += [NotedJob(pshard, job_id, at) for job_id, at in part]
            behind = ""
            if len(found) >= limit:
                break
        return found

    def forget_noted(self, tenant: str, name: str, jobs: Sequence[NotedJob]) -> None:
        gone = [Remove(CALENDAR_JOBS, (tenant, name, job.pshard, job.job_id), job.at) for job in jobs]
        if gone:
            self._write("forget_noted", gone).wait(WAIT_S)
