"""Routes of calendars: put, look at, delete, import; and what a new version does to the jobs that use it.

A calendar's version is never changed, and each version of a job carries its calendars' content; so a new version of a
calendar is brought to the jobs, by one command for each, paced and within a bound of time. What was not reached in
time the answer's `next_cursor` goes on with, and so does the same request again: a job that has the version already is
left alone. What must hold: a tenant's calendars are its own; no calendar that a job uses is deleted.
"""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from waterclock.importing.ics import ICS_MAX, document_from_ics
from waterclock.model.calendar import calendar_from_text
from waterclock.model.calendar_document import check_calendar_name
from waterclock.model.errors import RequestError
from waterclock.model.events import Answered, CommandVerdict
from waterclock.model.job import CommandKind
from waterclock.store.calendar_port import CalendarRow
from waterclock.store.calendar_use import (
    CalendarInUse,
    Place,
    bring,
    delete_calendar,
    is_behind,
    no_such_calendar,
    put_calendar,
    using_jobs,
)
from waterclock.store.rows import pshard_of

from . import calendar_shapes, shapes, views, wanting
from .access import Held, Reader, Writer
from .bodies import read_bytes, read_object
from .cursors import read_cursor, write_cursor
from .definitions import expected_revision
from .keyring import Caller
from .orders import Order, command_of, is_refused
from .pacing import WITHIN_S, send_paced
from .problems import Problem
from .repeats import RepeatKey, once
from .services import Services
from .shapes import Answers

_PAGE_MAX = 500
_IMPORT_WAIT_S = 5.0

routes = APIRouter(tags=["calendars"])

Limit = Annotated[int, Query(ge=1, le=_PAGE_MAX)]
Cursor = Annotated[str | None, Query(max_length=400, description="`next_cursor` of the page before")]


@routes.get(
    "/calendars",
    summary="List calendars, by name",
    responses=shapes.answers(Answers.READ, {200: calendar_shapes.CalendarPage}),
)
async def list_calendars(services: Held, caller: Reader, limit: Limit = 50, cursor: Cursor = None) -> Response:
    """Without their days. A page may hold fewer than `limit` and go on all the same."""
    after = read_cursor(cursor)[1] if cursor is not None else ""
    names = await services.call(services.store.calendar_names, caller.tenant, limit, after)
    told = [calendar_shapes.line_of(name) for name in names if not name.is_deleted]
    following = write_cursor(0, names[-1].name) if len(names) >= limit else None
    return views.reply(200, {"calendars": told, "next_cursor": following})


@routes.get(
    "/calendars/{name}",
    summary="A calendar",
    responses=shapes.answers(Answers.READ_ONE, {200: calendar_shapes.Calendar}),
)
async def show_calendar(
    name: str,
    services: Held,
    caller: Reader,
    version: Annotated[int | None, Query(ge=1, le=2**63 - 1, description="Else the newest")] = None,
) -> Response:
    """As it was put. Its ETag is its version."""
    if version is None:
        row = await _standing(services, caller, name)
    else:
        found = await services.call(services.store.calendar, caller.tenant, _named(name), version)
        if found is None or found.is_deleted:
            raise Problem("not-found", f"There is no such version of {name[:200]!r}", hint="GET its versions")
        row = found
    return views.reply(200, _view(row), ETag=f'"{row.version}"')


@routes.get(
    "/calendars/{name}/versions",
    summary="The versions of a calendar, newest first",
    responses=shapes.answers(Answers.READ_ONE, {200: calendar_shapes.CalendarVersions}),
)
async def list_versions(
    name: str, services: Held, caller: Reader, limit: Limit = 50, cursor: Cursor = None
) -> Response:
    """Each is immutable; one that deletes the calendar says so."""
    below = read_cursor(cursor)[0] if cursor is not None else None
    rows = await services.call(services.store.calendar_versions, caller.tenant, _named(name), limit, below)
    if not rows and below is None:
        raise no_such_calendar(name)
    told = [calendar_shapes.version_of(row) for row in rows]
    following = write_cursor(rows[-1].version, "") if len(rows) >= limit else None
    return views.reply(200, {"name": name, "versions": told, "next_cursor": following})


@routes.get(
    "/calendars/{name}/jobs",
    summary="The jobs that use a calendar, and in which version",
    responses=shapes.answers(Answers.READ_ONE, {200: calendar_shapes.CalendarJobs}),
)
async def list_jobs(name: str, services: Held, caller: Reader, limit: Limit = 50, cursor: Cursor = None) -> Response:
    """In no order that means anything. A page may hold fewer than `limit` and go on all the same."""
    row = await _standing(services, caller, name)
    now, after = services.clock.now(), _place(cursor)
    page = await services.call(using_jobs, services.store, caller.tenant, row.name, now, after, limit)
    told = [
        {"job_id": job.job_id, "version": use.version, "is_behind": use.version < row.version}
        for job in page.rows
        for use in job.spec.timing.calendars
        if use.name == row.name
    ]
    following = write_cursor(*page.next_at) if page.next_at else None
    return views.reply(200, {"name": row.name, "version": row.version, "jobs": told, "next_cursor": following})


@routes.put(
    "/calendars/{name}",
    summary="Make a calendar, or a new version of it",
    openapi_extra=shapes.body("CalendarDocument", if_match=True),
    responses=shapes.answers(Answers.CHANGE_ONE, {200: calendar_shapes.CalendarPut, 201: calendar_shapes.CalendarPut}),
)
async def put(name: str, request: Request, services: Held, caller: Writer) -> Response:
    """The same content again changes nothing. The jobs that use it get the new version: see `jobs` in the answer."""
    document = await read_object(request)
    return await _save(services, caller, request, name, document, document, None)


@routes.post(
    "/calendars/{name}/import",
    summary="Make a version of a calendar from an iCalendar file",
    openapi_extra=calendar_shapes.ICS_BODY,
    responses=shapes.answers(Answers.CHANGE_ONE, {200: calendar_shapes.CalendarPut, 201: calendar_shapes.CalendarPut}),
)
async def import_ics(
    name: str,
    request: Request,
    services: Held,
    caller: Writer,
    into: Annotated[
        str, Query(max_length=20, description="exclude: its events block; include: only they allow")
    ] = "exclude",
    zone: Annotated[str, Query(max_length=64, description="IANA zone of times that name none")] = "UTC",
) -> Response:
    """Whole days and periods, with what recurs expanded for ten years. Nothing is fetched: send the file."""
    data = await read_bytes(request, ("text/calendar",), ICS_MAX)
    asked = {"ics": data.decode(errors="replace"), "into": into, "zone": zone}
    async with services.importing.turn(_IMPORT_WAIT_S, waits_for="other files are being read"):
        imported = await services.call(document_from_ics, data, now=services.clock.now(), into=into, zone=zone)
    return await _save(services, caller, request, name, imported.document, asked, imported.occurrences)


@routes.post(
    "/calendars/{name}/apply",
    summary="Bring a calendar's newest version to the jobs that use an older one",
    openapi_extra=shapes.body("ApplyBody", required=False),
    responses=shapes.answers(Answers.BULK, {200: calendar_shapes.Brought}),
)
async def apply_calendar(name: str, request: Request, services: Held, caller: Writer) -> Response:
    """Goes on behind `cursor`. Without it, it begins anew, and leaves alone who has the version already."""
    document = await read_object(request, optional=True)
    wanting.check_known(document, ("cursor",))
    cursor = wanting.text(document, "cursor")

    async def act(_repeat_key: RepeatKey) -> Response:
        row = await _standing(services, caller, name)
        return views.reply(200, await _bring(services, caller, row, _place(cursor or None)))

    return await once(services, caller, request, document, act)


@routes.delete(
    "/calendars/{name}",
    summary="Delete a calendar that no job uses",
    openapi_extra=shapes.headers(if_match=True),
    responses=shapes.answers(Answers.CHANGE_ONE, {200: calendar_shapes.CalendarDeleted}),
)
async def delete(name: str, request: Request, services: Held, caller: Writer) -> Response:
    """Refused while jobs use it; up to ten of them are named. Its versions can still be looked at."""
    expected = expected_revision(request, needed=False) or None

    async def act(_repeat_key: RepeatKey) -> Response:
        actor, now = caller.actor, services.clock.now()
        try:
            await services.call(
                delete_calendar, services.store, caller.tenant, _named(name), actor=actor, now=now, expected=expected
            )
        except CalendarInUse as error:
            raise Problem("in-use", error.message, hint=error.hint) from None
        return views.reply(200, {"deleted": True, "name": name})

    return await once(services, caller, request, {}, act)


async def _save(
    services: Services,
    caller: Caller,
    request: Request,
    name: str,
    document: dict[str, Any],
    asked: dict[str, Any],
    occurrences: int | None,
) -> Response:
    expected = expected_revision(request, needed=False) or None

    async def act(_repeat_key: RepeatKey) -> Response:
        mine, actor, now = _named(name), caller.actor, services.clock.now()
        row, is_new = await services.call(
            put_calendar, services.store, caller.tenant, mine, document, actor=actor, now=now, expected=expected
        )
        told = _view(row) | {"changed": is_new, "occurrences": occurrences}
        told["jobs"] = await _bring(services, caller, row, None)
        return views.reply(201 if is_new else 200, told, ETag=f'"{row.version}"')

    return await once(services, caller, request, asked, act)


async def _bring(services: Services, caller: Caller, row: CalendarRow, after: Place | None) -> dict[str, Any]:
    """Send the version to jobs that are behind it, page by page, within a bound of time."""
    began_s = services.clock.monotonic_s()
    words: Counter[str] = Counter()
    refused: list[dict[str, str]] = []
    is_whole = False
    order = Order(CommandKind.CALENDAR, "")  # no key: by the version that it brings it says the same each time
    while services.clock.monotonic_s() - began_s < WITHIN_S:  # each page makes some way
        page = await services.call(using_jobs, services.store, caller.tenant, row.name, services.clock.now(), after)
        behind = [job.job_id for job in page.rows if is_behind(job, row.use)]
        commands = bring(behind, (row.use,), command_of(services, caller, order))
        answers = (await send_paced(services, commands, wanting.RATE_PER_S)).answers
        words.update("unanswered" if answer is None else answer.verdict for answer in answers)
        words["using"] += len(page.rows)
        words["behind"] += len(behind)
        refused += _refusals(behind, answers)
        if len(answers) < len(behind):
            words["left"] += len(behind) - len(answers)
            after = (pshard_of(behind[len(answers) - 1]), behind[len(answers) - 1]) if answers else after
            break
        after = page.next_at
        if after is None:
            is_whole = True
            break
    return {
        "using": words["using"],
        "behind": words["behind"],
        "applied": words[CommandVerdict.APPLIED],
        "unchanged": words[CommandVerdict.UNCHANGED] + words[CommandVerdict.REPEATED],
        "refused": words[CommandVerdict.REFUSED],
        "refusals": refused[: calendar_shapes.NAMED],
        "unanswered": words["unanswered"],
        "is_whole": is_whole,
        "next_cursor": None if is_whole else write_cursor(*(after or (0, ""))),
    }


def _refusals(job_ids: list[str], answers: list[Answered | None]) -> list[dict[str, str]]:
    said = zip(job_ids, answers, strict=False)
    return [{"job_id": job_id, "detail": each.message} for job_id, each in said if each and is_refused(each)]


async def _standing(services: Services, caller: Caller, name: str) -> CalendarRow:
    (row,) = await services.call(services.store.calendars, caller.tenant, [_named(name)])
    if row is None or row.is_deleted:
        raise no_such_calendar(name[:200])
    return row


def _named(name: str) -> str:
    """The name; 404 for what can be none."""
    try:
        return check_calendar_name(name)
    except RequestError:
        raise no_such_calendar(name[:200]) from None


def _place(cursor: str | None) -> Place | None:
    if cursor is None:
        return None
    pshard, job_id = read_cursor(cursor)
    if not 0 <= pshard < 1 << 15:
        raise Problem("bad-request", "This is no cursor of ours", hint="Hand back `next_cursor` as it came")
    return pshard, job_id


def _view(row: CalendarRow) -> dict[str, Any]:
    calendar = calendar_from_text(row.compiled)
    sides = (calendar.include, calendar.exclude)
    return {
        "calendar_id": f"{row.tenant}:{row.name}",
        **calendar_shapes.version_of(row),
        "definition": orjson.loads(row.document),
        "day_count": sum(side.days.bit_count() for side in sides),
        "period_count": sum(len(side.ranges) for side in sides),
        "compiled_size": len(row.compiled),
    }
