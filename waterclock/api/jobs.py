"""Routes of jobs: define, look at, change, trigger. Every change is a command; the dispatcher has the last word."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator
from typing import Annotated, Any
from urllib.parse import quote

import orjson
from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from waterclock.model.document import PAYLOAD_MAX, spec_to_document
from waterclock.model.errors import RequestError
from waterclock.model.events import Answered, CommandVerdict
from waterclock.model.job import MUST_BE_NEW, CommandKind, Delay, Every, JobSpec, JobStatus
from waterclock.model.placement import Placed, placement_document
from waterclock.store.expecting import expectation_of
from waterclock.store.listing import JobListing
from waterclock.store.next_of_delay import next_of_delay
from waterclock.store.port import JobRow
from waterclock.store.standing import RUNS_LOOKED_AT, standing_of

from . import shapes, views, wanting
from .access import Held, Reader, Writer, no_such_job, own_job_id
from .bodies import read_object
from .changes import changed, placed_anew
from .cursors import read_cursor, write_cursor
from .definitions import expected_revision, job_id_for, spec_of
from .keyring import Caller
from .orders import Obeyed, Order, etag, give, is_refused, refuse
from .problems import Problem
from .repeats import RepeatKey, once, wants_no_wait
from .runs import came_to
from .saving import follow_calendars, with_place
from .services import Services
from .shapes import Answers

PAGE_MAX = 500
PAGE_BYTES = 4 * 1024 * 1024
"""A page ends with the job that comes to so many: a Dag alone may have 128 KiB, and clients of ours read 8 MiB."""
_ROWS_AT_ONCE = 50
_MERGES_MAX = 5
"""So often a change of whatever stands is merged anew, where something else stands by the time it is applied."""
_LISTINGS_MAX = 8
"""Listings read for one page: deleted jobs stand in them for a while, and are left out."""

routes = APIRouter(tags=["jobs"])


@routes.post(
    "/jobs",
    summary="Define a job",
    openapi_extra=shapes.body("JobDefinition"),
    responses=shapes.answers(Answers.CHANGE, {201: shapes.Job, 200: shapes.Job, 409: shapes.Problem}),
)
async def create_job(request: Request, services: Held, caller: Writer) -> Response:
    """The same definition again answers 200 and changes nothing; another one under a name that is taken is refused."""
    document = await read_object(request)

    async def act(repeat_key: RepeatKey) -> Response:
        job_id = job_id_for(caller.tenant, rest := dict(document), repeat_key.text)
        spec, found = await with_place(services, job_id, await spec_of(services, rest, job_id))
        order = Order(CommandKind.CREATE, job_id, MUST_BE_NEW, spec, repeat_key=repeat_key)
        return await change(services, caller, request, order, created=True, found=found)

    return await once(services, caller, request, document, act)


@routes.get("/jobs", summary="List jobs, newest first", responses=shapes.answers(Answers.READ, {200: shapes.JobPage}))
async def list_jobs(
    services: Held,
    caller: Reader,
    limit: Annotated[int, Query(ge=1, le=PAGE_MAX)] = 50,
    cursor: Annotated[str | None, Query(max_length=400, description="`next_cursor` of the page before")] = None,
) -> Response:
    """Payloads are left out, those of a Dag's nodes too: they are in the job itself."""
    after = read_cursor(cursor) if cursor is not None else None
    page = await services.call(_page, services, caller.tenant, limit, after)
    return views.reply(200, page)


@routes.get(
    "/jobs/{job_id}",
    summary="A job",
    responses=shapes.answers(Answers.READ_ONE, {200: shapes.Job}),
)
async def show_job(job_id: str, services: Held, caller: Reader) -> Response:
    """With its ETag, which a change asks for."""
    row = await _standing(services, own_job_id(caller, job_id))
    return await _job_reply(services, 200, row)


@routes.patch(
    "/jobs/{job_id}",
    summary="Change a job",
    openapi_extra=shapes.body("JobChange", if_match=True),
    responses=shapes.answers(Answers.CHANGE_ONE, {200: shapes.Job, 428: shapes.Problem}),
)
async def change_job(job_id: str, request: Request, services: Held, caller: Writer) -> Response:
    """A merge patch (RFC 7396) of its definition; If-Match is needed. Naming another kind of schedule replaces it."""
    mine = own_job_id(caller, job_id)
    expected = expected_revision(request, needed=True)
    patch = await read_object(request)

    async def act(repeat_key: RepeatKey) -> Response:
        for _ in range(0 if expected else _MERGES_MAX - 1):
            try:
                return await merge(repeat_key)
            except Problem as problem:
                if problem.slug != "stale":  # somebody was faster, and whatever stands was to be changed
                    raise
        return await merge(repeat_key)

    async def merge(repeat_key: RepeatKey) -> Response:
        row = await _standing(services, mine)
        document = placed_anew(changed(spec_to_document(row.spec), patch), patch)
        spec, found = await with_place(services, mine, await spec_of(services, document, mine))
        order = Order(CommandKind.UPDATE, mine, expected or row.revision, spec, repeat_key=repeat_key)
        return await change(services, caller, request, order, found=found)

    return await once(services, caller, request, patch, act)


@routes.delete(
    "/jobs/{job_id}",
    summary="Delete a job",
    openapi_extra=shapes.body("NoteBody", if_match=True, required=False),
    responses=shapes.answers(Answers.CHANGE_ONE, {200: shapes.Deleted}),
)
async def delete_job(job_id: str, request: Request, services: Held, caller: Writer) -> Response:
    """Its history stays for 30 days."""

    def told(_row: JobRow | None, mine: str) -> Response:
        return views.reply(200, {"deleted": True, "job_id": mine})

    return await _plain_change(services, caller, request, job_id, CommandKind.DELETE, told)


@routes.post(
    "/jobs/{job_id}/pause",
    summary="Pause a job",
    openapi_extra=shapes.body("PauseBody", if_match=True, required=False),
    responses=shapes.answers(Answers.CHANGE_ONE, {200: shapes.Job}),
)
async def pause_job(job_id: str, request: Request, services: Held, caller: Writer) -> Response:
    """Its fires count as paused until it is resumed; with `resume_at` it resumes by itself, and that fire is owed."""
    return await _plain_change(services, caller, request, job_id, CommandKind.PAUSE, known=("note", "resume_at"))


@routes.post(
    "/jobs/{job_id}/resume",
    summary="Resume a paused job",
    openapi_extra=shapes.body("NoteBody", if_match=True, required=False),
    responses=shapes.answers(Answers.CHANGE_ONE, {200: shapes.Job}),
)
async def resume_job(job_id: str, request: Request, services: Held, caller: Writer) -> Response:
    """It fires again from now on; what was missed stays missed."""
    return await _plain_change(services, caller, request, job_id, CommandKind.RESUME)


@routes.post(
    "/jobs/{job_id}/trigger",
    summary="Run a job now",
    openapi_extra=shapes.body("TriggerBody", if_match=True, required=False),
    responses=shapes.answers(Answers.CHANGE_ONE, {201: shapes.Triggered}),
)
async def trigger_job(job_id: str, request: Request, services: Held, caller: Writer) -> Response:
    """Once more than its schedule says; a payload stands in for the job's own, this once."""
    mine = own_job_id(caller, job_id)
    expected = expected_revision(request, needed=False)
    document = await read_object(request, optional=True)
    payload = _payload_of(document)

    async def act(repeat_key: RepeatKey) -> Response:
        order = Order(CommandKind.TRIGGER, mine, expected, payload=payload, repeat_key=repeat_key)
        obeyed = await _given(services, caller, request, order)
        if obeyed.answer is None:
            return pending_reply(obeyed, request)
        run_id = obeyed.answer.run_id
        told: dict[str, Any] = {"job_id": mine, "run_id": run_id, "revision": obeyed.answer.revision}
        told |= await came_to(services, obeyed.answer)
        return views.reply(201, told, Location=f"/api/v1/runs/{quote(run_id, safe='')}")

    return await once(services, caller, request, document, act)


@routes.get(
    "/jobs/{job_id}/status",
    summary="How a job stands",
    responses=shapes.answers(Answers.READ_ONE, {200: shapes.Status}),
)
async def job_status(job_id: str, services: Held, caller: Reader) -> Response:
    """Its last run, its next one, and how often the last one was retried. History may lag by a second or so."""
    row = await _standing(services, own_job_id(caller, job_id))
    runs = await services.call(services.store.runs, row.job_id, RUNS_LOOKED_AT)
    document = views.status_view(row, standing_of(row, runs, services.clock.now()))
    return views.reply(200, document | {"warnings": await services.crew.warnings(row.spec)})


async def _plain_change(
    services: Services,
    caller: Caller,
    request: Request,
    word: str,
    kind: CommandKind,
    told: Callable[[JobRow | None, str], Response] | None = None,
    known: tuple[str, ...] = ("note",),
) -> Response:
    """A change that needs no body, and may have one with these keys."""
    job_id = own_job_id(caller, word)
    expected = expected_revision(request, needed=False)
    document = await read_object(request, optional=True)
    wanting.check_known(document, known)
    note, resume_at = wanting.text(document, "note", wanting.NOTE_MAX), wanting.instant(document, "resume_at")

    async def act(repeat_key: RepeatKey) -> Response:
        order = Order(kind, job_id, expected, repeat_key=repeat_key, note=note, resume_at=resume_at)
        return await change(services, caller, request, order, told=told)

    return await once(services, caller, request, document, act)


async def change(
    services: Services,
    caller: Caller,
    request: Request,
    order: Order,
    *,
    created: bool = False,
    told: Callable[[JobRow | None, str], Response] | None = None,
    found: Placed | None = None,
    brought_back: JobSpec | None = None,
) -> Response:
    """Give the order, and answer with the job as it stands since. ``found``: the second that was picked for it."""
    obeyed = await _given(services, caller, request, order)
    is_repeat = obeyed.answer is not None and obeyed.answer.verdict == CommandVerdict.REPEATED
    await follow_calendars(services, caller, order.job_id, order.spec or brought_back, is_repeat=is_repeat)
    if obeyed.answer is None:
        return pending_reply(obeyed, request)
    if told is not None:
        return told(None, order.job_id)
    row = _newborn(services, order, obeyed.answer) if created else None
    if row is None:
        row = await services.call(services.store.job, order.job_id)
    if row is None:
        raise no_such_job(order.job_id)  # deleted by somebody else, and forgotten, all since
    is_new = created and row.revision == obeyed.answer.revision and row.created_at == row.updated_at
    is_news = obeyed.answer.verdict != CommandVerdict.UNCHANGED
    status = 201 if is_new and is_news else 200
    where = {"Location": f"/api/v1/jobs/{quote(order.job_id, safe=':')}"} if created else {}
    return await _job_reply(services, status, row, None if is_repeat else found, **where)


async def _given(services: Services, caller: Caller, request: Request, order: Order) -> Obeyed:
    """Raises Problem where the dispatcher refused."""
    obeyed = await give(services, caller, order, wait=not wants_no_wait(request))
    if obeyed.answer is not None and is_refused(obeyed.answer):
        refuse(obeyed.answer, order.kind)
    return obeyed


def pending_reply(obeyed: Obeyed, request: Request) -> Response:
    """202: it stands in the log and will be obeyed; here is where to ask."""
    where = {"Location": f"/api/v1/operations/{obeyed.operation.operation_id}"}
    if wants_no_wait(request):
        where["Preference_Applied"] = "respond-async"
    return views.reply(202, views.operation_view(obeyed.operation, None), **where)


def _newborn(services: Services, order: Order, answer: Answered) -> JobRow | None:
    """The row of a job that this create made: all of it is known, so the store need not be asked. Else None."""
    stamp_at = services.answers.stamp_of(order.job_id, answer.revision)
    spec = order.spec
    if stamp_at is None or spec is None or answer.verdict != CommandVerdict.APPLIED:
        return None
    anchor_at = 0
    if isinstance(spec.schedule, Every):
        anchor_at = stamp_at if spec.schedule.start_at is None else spec.schedule.start_at
    return JobRow(
        order.job_id,
        spec,
        JobStatus.ACTIVE,
        answer.revision,
        anchor_at,
        answer.revision,
        stamp_at,
        stamp_at,
        0,
        0,
        stamp_at,
    )


async def _job_reply(
    services: Services, status: int, row: JobRow, placed: Placed | None = None, **headers: str
) -> Response:
    now, found = services.clock.now(), None
    if row.spec.timing.expect_within_us:
        found = await services.call(expectation_of, services.store, row, now)
    more: dict[str, Any] = {
        "expectation": views.expectation_view(found),
        "warnings": await services.crew.warnings(row.spec),
    }
    if isinstance(row.spec.schedule, Delay):
        runs = await services.call(services.store.runs, row.job_id, RUNS_LOOKED_AT)
        next_at = views.instant(next_of_delay(row, runs))
        more |= {"next_fire_time": next_at, "next_due_time": next_at}
    if placed is not None:
        more["placement"] = placement_document(placed)
    return views.reply(status, views.job_view(row, now) | more, ETag=etag(row.revision), **headers)


async def _standing(services: Services, job_id: str) -> JobRow:
    row = await services.call(services.store.job, job_id)
    if row is None or row.status is JobStatus.DELETED:
        raise no_such_job(job_id)
    return row


def _payload_of(document: dict[str, Any]) -> bytes | None:
    """The payload of a trigger: None where it has none of its own."""
    unknown = next((key for key in document if key not in ("payload", "payload_base64")), None)
    if unknown is not None or len(document) > 1:
        key = unknown if unknown is not None else "payload_base64"
        raise RequestError("A trigger takes a payload and nothing else", pointer=f"/{key[:80]}",
                           hint="Give payload or payload_base64, or no body")  # fmt: skip
    payload: bytes | None = None
    if "payload" in document:
        payload = orjson.dumps(document["payload"])
    elif "payload_base64" in document:
        try:
            payload = base64.b64decode(document["payload_base64"], validate=True)
        except (TypeError, ValueError, binascii.Error):
            raise RequestError("This is not base64", pointer="/payload_base64", hint="Padded by =") from None
    if payload is not None and len(payload) > PAYLOAD_MAX:
        raise RequestError(f"The payload has {len(payload)} bytes", pointer="/payload", hint=f"At most {PAYLOAD_MAX}")
    return payload


def _page(services: Services, tenant: str, limit: int, after: tuple[int, str] | None) -> dict[str, Any]:
    """One page; runs off the loop. It may hold fewer than ``limit`` and go on all the same."""
    shown: list[orjson.Fragment] = []
    now, size, ended = services.clock.now(), 0, False
    for _ in range(_LISTINGS_MAX):
        lines: list[JobListing] = services.store.jobs(tenant, limit - len(shown), after)
        ended = len(lines) < limit - len(shown)
        for line, row in _with_rows(services, lines):
            after = line.created_at, line.job_id
            if row is not None and row.status is not JobStatus.DELETED:
                view = orjson.dumps(views.job_view(row, now, in_list=True))
                shown.append(orjson.Fragment(view))
                size += len(view)
            if size >= PAGE_BYTES:
                return {"jobs": shown, "next_cursor": write_cursor(*after)}
        if ended or len(shown) >= limit:
            break
    return {"jobs": shown, "next_cursor": None if ended or after is None else write_cursor(*after)}


def _with_rows(services: Services, lines: list[JobListing]) -> Iterator[tuple[JobListing, JobRow | None]]:
    """Each line with its job; no more of these are read at once than a page of large ones holds."""
    for start in range(0, len(lines), _ROWS_AT_ONCE):
        part = lines[start : start + _ROWS_AT_ONCE]
        standing = [line.job_id for line in part if line.status is not JobStatus.DELETED]
        rows = dict(zip(standing, services.store.job_rows(standing), strict=True))
        yield from ((line, rows.get(line.job_id)) for line in part)
