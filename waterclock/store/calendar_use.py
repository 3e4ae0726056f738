"""Calendars from where jobs are saved: looked up when one is, and found again when a calendar has changed.

Functions over the store, for every door that saves jobs: the API, the command line. How they fail: RequestError for
what cannot be, BackendDown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple, Protocol

import orjson

from waterclock.model.calendar_document import compile_calendar, names_in
from waterclock.model.errors import Conflict, NotFound
from waterclock.model.ids import US_PER_S, Instant, tenant_of_job
from waterclock.model.job import Command, CommandKind, JobSpec, JobStatus
from waterclock.model.timing import CalendarUse

from .calendar_port import CalendarKeeping, CalendarRow, NotedJob
from .port import JobRow

PAGE = 200
"""Noted jobs looked at together."""

NAMED_MAX = 10
"""Using jobs that a refusal names."""

LOOKED_THROUGH_MAX = 20_000
"""Noted jobs that are looked at to find those few."""

_NOTE_KEPT_US = 86_400 * US_PER_S
"""So old a note of a job that does not use the calendar is dropped: its command was applied long ago."""

Place = tuple[int, str]
"""Behind which noted job the next page begins."""


class CalendarInUse(Conflict):
    """A calendar that jobs use is not deleted."""


class Calendars(CalendarKeeping, Protocol):
    """What these functions ask of the store."""

    def job_rows(self, job_ids: Sequence[str]) -> list[JobRow | None]: ...


def calendars_for(
    store: CalendarKeeping, job_id: str, document: Mapping[str, object], at: Instant
) -> dict[str, CalendarUse]:
    """The calendars that a job document names, as they stand, by name. Notes the job first: see ``calendar_port.py``.

    One that does not stand is left out, and refused with the document. Raises RequestError, BackendDown, WriteUnknown.
    """
    names = names_in(document)
    if not names:
        return {}
    store.note_calendars(job_id, names, at)
    return standing(store, tenant_of_job(job_id), names)


def note_uses(store: CalendarKeeping, job_id: str, spec: JobSpec, at: Instant) -> None:
    """Note a job that is about to get a spec which carries its calendars already: of an older version of its own."""
    names = [use.name for use in spec.timing.calendars]
    if names:
        store.note_calendars(job_id, names, at)


def standing(store: CalendarKeeping, tenant: str, names: Sequence[str]) -> dict[str, CalendarUse]:
    """Those of the named calendars that stand."""
    found = store.calendars(tenant, names) if names else []
    return {row.name: row.use for row in found if row is not None and not row.is_deleted}


def newer_than(store: CalendarKeeping, job_id: str, spec: JobSpec) -> tuple[CalendarUse, ...]:
    """Calendars of a job that was just saved which changed meanwhile: a CALENDAR command has to bring them."""
    uses = spec.timing.calendars
    stands = standing(store, tenant_of_job(job_id), [use.name for use in uses])
    return tuple(stands[use.name] for use in uses if use.name in stands and stands[use.name].version > use.version)


def put_calendar(
    store: CalendarKeeping,
    tenant: str,
    name: str,
    document: Mapping[str, Any],
    *,
    actor: str,
    now: Instant,
    expected: Instant | None = None,
) -> tuple[CalendarRow, bool]:
    """Put a version, and whether it is new: the same content again changes nothing. Raises RequestError, Conflict.

    ``expected``: only over this version; 0: only where there is no such calendar. Limit: of two that put at the same
    time both succeed, and the later version stands.
    """
    compiled = compile_calendar(document).as_text()
    text = orjson.dumps(document, option=orjson.OPT_SORT_KEYS).decode()
    (before,) = store.calendars(tenant, [name])
    stands = before if before is not None and not before.is_deleted else None
    _expect(name, stands, expected)
    if stands is not None and stands.document == text:
        return stands, False
    row = CalendarRow(tenant, name, _following(before, now, text), actor, text, compiled)
    store.put_calendar(row, str(document.get("description", "")))
    return row, True


def delete_calendar(
    store: Calendars, tenant: str, name: str, *, actor: str, now: Instant, expected: Instant | None = None
) -> None:
    """Delete a calendar that no job uses. Raises NotFound, Conflict: with the using jobs, up to ``NAMED_MAX``.

    Limit: a job that is being saved with it just then keeps it, as its own version carries it.
    """
    (before,) = store.calendars(tenant, [name])
    if before is None or before.is_deleted:
        raise no_such_calendar(name)
    _expect(name, before, expected)
    using = _some_using(store, tenant, name, now)
    if using:
        raise CalendarInUse(
            f"{name!r} is used by {', '.join(using[:NAMED_MAX])}{' and others' if len(using) > NAMED_MAX else ''}",
            pointer="",
            hint="Take it out of these jobs first",
        )
    store.put_calendar(CalendarRow(tenant, name, _following(before, now, ""), actor, "", ""))


def _following(before: CalendarRow | None, now: Instant, text: str) -> Instant:
    """The version that comes next: the instant, past the version before, and up to a sixteenth of a second later.

    Two who put at the same time, or under a clock behind that of whoever put the version before, would else name two
    contents alike, and their cells would be mixed. The content says how much later: the same one twice is one version.
    """
    spread = int.from_bytes(blake2b(text.encode(), digest_size=2).digest(), "big")
    return max(now, before.version + 1 if before else 0) + spread


def no_such_calendar(name: str) -> NotFound:
    """The refusal of a calendar that does not stand."""
    return NotFound(f"There is no calendar {name!r}", hint="`waterclock calendar list` shows those there are")


class Page(NamedTuple):
    """Jobs that use a calendar, as they stand. ``next_at``: where the next page begins; None: there is none."""

    rows: list[JobRow]
    next_at: Place | None


def using_jobs(
    store: Calendars, tenant: str, name: str, now: Instant, after: Place | None = None, limit: int = PAGE
) -> Page:
    """A page of the jobs that use the calendar now, of at most ``limit`` noted ones; drops notes that say nothing."""
    noted = store.noted_jobs(tenant, name, limit, after)
    rows = store.job_rows([job.job_id for job in noted])
    using: list[JobRow] = []
    gone: list[NotedJob] = []
    for job, row in zip(noted, rows, strict=True):
        if row is not None and uses(row, name):
            using.append(row)
        elif job.at < now - _NOTE_KEPT_US:
            gone.append(job)
    store.forget_noted(tenant, name, gone)
    last = noted[-1] if len(noted) >= limit else None
    return Page(using, None if last is None else (last.pshard, last.job_id))


def uses(row: JobRow, name: str) -> bool:
    """Whether a job that stands uses the calendar."""
    return row.status is not JobStatus.DELETED and any(use.name == name for use in row.spec.timing.calendars)


def is_behind(row: JobRow, use: CalendarUse) -> bool:
    """Whether a job uses an older version of the calendar than this one."""
    return any(mine.name == use.name and mine.version < use.version for mine in row.spec.timing.calendars)


def bring(job_ids: Iterable[str], uses_: tuple[CalendarUse, ...], pattern: Command) -> list[Command]:
    """The commands that bring these versions to jobs. ``pattern``: its ``command_id`` is what theirs begin with."""
    return [
        pattern._replace(
            kind=CommandKind.CALENDAR,
            job_id=job_id,
            command_id=f"{pattern.command_id}/{number}",
            calendars=uses_,
            note=f"calendar {', '.join(use.name for use in uses_)} changed",
        )
        for number, job_id in enumerate(job_ids)
    ]


def _some_using(store: Calendars, tenant: str, name: str, now: Instant) -> list[str]:
    """A few of the using jobs; one more than are named where there are more."""
    found: list[str] = []
    after: Place | None = None
    for _ in range(LOOKED_THROUGH_MAX // PAGE):
        page = using_jobs(store, tenant, name, now, after)
        found += [row.job_id for row in page.rows]
        after = page.next_at
        if after is None or len(found) > NAMED_MAX:
            return found[: NAMED_MAX + 1]
    raise Conflict(
        f"{LOOKED_THROUGH_MAX} jobs were saved with {name!r}, and not all could be looked at",
        hint="Try again: those that do not use it any more are forgotten step by step",
    )


def _expect(name: str, stands: CalendarRow | None, expected: Instant | None) -> None:
    version = stands.version if stands else 0
    if expected is not None and expected != version:
        what = f"stands at version {version}" if stands else "does not stand"
        raise Conflict(f"The calendar {name!r} {what}, not {expected or 'new'}", hint="Look at it again")
