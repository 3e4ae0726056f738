"""Routes of backfills: ask for one, count it first, look at it, pause, resume and cancel it.

The owner of the shard decides; what is shown is what it has told, by way of history. What must hold: a tenant sees
and turns its own backfills alone; a dry run changes nothing.
"""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from waterclock.model.backfill import CONCURRENCY, CONCURRENCY_MAX, make_backfill_id, parse_backfill_id
from waterclock.model.backfill_document import backfill_to_document
from waterclock.model.errors import RequestError
from waterclock.model.events import Answered, CommandVerdict
from waterclock.model.job import CommandKind, JobStatus, JobVersion, Tier
from waterclock.store.backfill_count import Counted, count_backfill
from waterclock.store.backfill_port import BackfillRow

from . import shapes, views, wanting
from .access import Held, Reader, Writer, no_such_job, own_job_id
from .appearing import appearing
from .backfill_shapes import Backfill, BackfillAsked, BackfillPage, BackfillTurned
from .bodies import read_object
from .cursors import read_cursor, unknown_cursor, write_cursor
from .definitions import expected_revision
from .jobs import pending_reply
from .keyring import Caller
from .orders import Order, give, is_refused, refuse
from .problems import Problem
from .repeats import RepeatKey, once, wants_no_wait
from .services import Services
from .shapes import Answers

PAGE_MAX = 500
_KEYS = ("from", "to", "revision", "tier", "concurrency", "note", "dry_run")
_TIERS = {tier.word: tier for tier in Tier}
_TURNS = {
    "pause": CommandKind.PAUSE_BACKFILL,
    "resume": CommandKind.RESUME_BACKFILL,
    "cancel": CommandKind.CANCEL_BACKFILL,
}

routes = APIRouter(tags=["backfills"])


@routes.post(
    "/jobs/{job_id}/backfills",
    summary="Run fires of a past range",
    openapi_extra=shapes.body("BackfillBody", if_match=True),
    responses=shapes.answers(Answers.CHANGE_ONE, {201: BackfillAsked, 200: BackfillAsked}),
)
async def create_backfill(job_id: str, request: Request, services: Held, caller: Writer) -> Response:
    """Those that never ran, and those that were skipped, each once; with `dry_run` it counts them (200)."""
    mine = own_job_id(caller, job_id)
    expected = expected_revision(request, needed=False)
    document = await read_object(request)
    wanting.check_known(document, _KEYS)
    order = _order(mine, expected, document)
    dry_run = wanting.flag(document, "dry_run")

    async def act(repeat_key: RepeatKey) -> Response:
        counted = await services.call(_count, services, order)
        if dry_run:
            return views.reply(200, _told(None, order, counted))
        obeyed = await give(services, caller, order._replace(repeat_key=repeat_key), wait=not wants_no_wait(request))
        if obeyed.answer is None:
            return pending_reply(obeyed, request)
        _check(obeyed.answer, order.kind)
        backfill_id = obeyed.answer.run_id
        where = f"/api/v1/backfills/{quote(backfill_id, safe=':')}"
        return views.reply(201, _told(backfill_id, order, counted), Location=where)

    return await once(services, caller, request, document, act)


@routes.get(
    "/jobs/{job_id}/backfills",
    summary="Backfills of a job, newest first",
    responses=shapes.answers(Answers.READ_ONE, {200: BackfillPage}),
)
async def list_backfills_of_job(
    job_id: str, services: Held, caller: Reader, limit: Annotated[int, Query(ge=1, le=PAGE_MAX)] = 50
) -> Response:
    """Kept for 30 days after the last word of each."""
    mine = own_job_id(caller, job_id)
    found = await services.call(services.store.backfills_of_job, mine, limit)
    if not found and await services.call(services.store.job, mine) is None:
        raise no_such_job(job_id)
    return views.reply(200, {"backfills": [_view(services, row) for row in found], "next_cursor": None})


@routes.get("/backfills", summary="Backfills, job by job", responses=shapes.answers(Answers.READ, {200: BackfillPage}))
async def list_backfills(
    services: Held,
    caller: Reader,
    limit: Annotated[int, Query(ge=1, le=PAGE_MAX)] = 50,
    cursor: Annotated[str | None, Query(max_length=400, description="`next_cursor` of the page before")] = None,
) -> Response:
    """From the last job's name to the first, those of a job newest first."""
    after = None
    if cursor is not None:
        number, job_id = read_cursor(cursor)
        if not job_id.startswith(f"{caller.tenant}:"):
            raise unknown_cursor()
        after = (job_id, number)
    found = await services.call(services.store.backfills, caller.tenant, limit, after)
    more = write_cursor(found[-1].told.number, found[-1].job_id) if len(found) == limit else None
    return views.reply(200, {"backfills": [_view(services, row) for row in found], "next_cursor": more})


@routes.get(
    "/backfills/{backfill_id}",
    summary="A backfill",
    responses=shapes.answers(Answers.READ_ONE, {200: Backfill}),
)
async def show_backfill(backfill_id: str, services: Held, caller: Reader) -> Response:
    """What it has run, what is left, about how long that takes. History may lag by a second or so."""
    return views.reply(200, _view(services, await _row(services, caller, backfill_id)))


@routes.post(
    "/backfills/{backfill_id}/pause",
    summary="Pause a backfill",
    openapi_extra=shapes.body("NoteBody", required=False),
    responses=shapes.answers(Answers.CHANGE_ONE, {200: BackfillTurned}),
)
async def pause_backfill(backfill_id: str, request: Request, services: Held, caller: Writer) -> Response:
    """Nothing more is made; what is open goes on."""
    return await _turn(backfill_id, request, services, caller, "pause")


@routes.post(
    "/backfills/{backfill_id}/resume",
    summary="Resume a paused backfill",
    openapi_extra=shapes.body("NoteBody", required=False),
    responses=shapes.answers(Answers.CHANGE_ONE, {200: BackfillTurned}),
)
async def resume_backfill(backfill_id: str, request: Request, services: Held, caller: Writer) -> Response:
    """It goes on where it was paused; what has run meanwhile is left out."""
    return await _turn(backfill_id, request, services, caller, "resume")


@routes.post(
    "/backfills/{backfill_id}/cancel",
    summary="Cancel a backfill",
    openapi_extra=shapes.body("NoteBody", required=False),
    responses=shapes.answers(Answers.CHANGE_ONE, {200: BackfillTurned}),
)
async def cancel_backfill(backfill_id: str, request: Request, services: Held, caller: Writer) -> Response:
    """Nothing more is made, for ever; what is open goes on."""
    return await _turn(backfill_id, request, services, caller, "cancel")


async def _turn(backfill_id: str, request: Request, services: Services, caller: Caller, word: str) -> Response:
    job_id, number = _own(caller, backfill_id)
    document = await read_object(request, optional=True)
    wanting.check_known(document, ("note",))
    note = wanting.text(document, "note", wanting.NOTE_MAX)

    async def act(repeat_key: RepeatKey) -> Response:
        named = make_backfill_id(job_id, number)
        order = Order(_TURNS[word], job_id, repeat_key=repeat_key, note=note, backfill_id=named)
        obeyed = await give(services, caller, order, wait=not wants_no_wait(request))
        if obeyed.answer is None:
            return pending_reply(obeyed, request)
        _check(obeyed.answer, order.kind)
        changed = obeyed.answer.verdict != CommandVerdict.UNCHANGED
        return views.reply(200, {"backfill_id": named, "job_id": job_id, "changed": changed})

    return await once(services, caller, request, document, act)


def _order(job_id: str, expected: int, document: dict[str, Any]) -> Order:
    from_at = wanting.instant(document, "from")
    if document.get("from") is None:
        raise RequestError("Say from when on", pointer="/from", hint="RFC 3339, such as 2026-11-01T00:00:00Z")
    if from_at <= 0:
        raise RequestError("from is not after 1970-01-01T00:00:00Z", pointer="/from", hint="No fire is as old")
    to_at = wanting.instant(document, "to")
    if document.get("to") is not None and to_at <= from_at:
        raise RequestError("from must lie before to", pointer="/to", hint="Without to: up to now")
    revision = wanting.revision(document, "revision") if document.get("revision") else 0
    concurrency = document.get("concurrency", CONCURRENCY)
    is_number = isinstance(concurrency, int) and not isinstance(concurrency, bool)
    if not is_number or not 1 <= concurrency <= CONCURRENCY_MAX:
        raise RequestError(f"concurrency is a number from 1 to {CONCURRENCY_MAX}", pointer="/concurrency")
    tiers = wanting.words(document, "tier", _TIERS)
    if len(tiers) > 1:
        raise RequestError("tier is one word", pointer="/tier", hint="high, medium or low")
    return Order(
        CommandKind.BACKFILL,
        job_id,
        expected,
        note=wanting.text(document, "note", wanting.NOTE_MAX),
        to_revision=revision,
        from_at=from_at,
        to_at=to_at,  # 0: its owner says when; were it now, each repeat would ask for something else
        concurrency=concurrency,
        tier=tiers[0] if tiers else Tier.LOW,
    )


def _count(services: Services, order: Order) -> Counted:
    """Raises Problem (404), RequestError, BackendDown."""
    row = services.store.job(order.job_id)
    if row is None or row.status is JobStatus.DELETED:
        raise no_such_job(order.job_id)
    version: JobVersion | None = services.store.version(order.job_id, order.to_revision or row.revision)
    if version is None:
        raise Problem("not-found", f"There is no such version of {order.job_id}",
                      hint=f"GET /api/v1/jobs/{order.job_id}/versions lists those there are")  # fmt: skip
    now = services.clock.now()
    return count_backfill(services.store, version, order.from_at, order.to_at or now, now)


def _told(backfill_id: str | None, order: Order, counted: Counted) -> dict[str, Any]:
    return {
        "backfill_id": backfill_id,
        "job_id": order.job_id,
        "dry_run": backfill_id is None,
        "fires": counted.fire_count,
        "left_out": counted.left_count,
        "blocked": counted.blocked_count,
        "would_run": counted.made_count,
    }


def _check(answer: Answered, kind: CommandKind) -> None:
    """Raise what the dispatcher refused it with."""
    if not is_refused(answer):
        return
    if kind is not CommandKind.BACKFILL and answer.problem in ("conflict", "not-found"):
        slug = "not-found" if answer.problem == "not-found" else "invalid"
        raise Problem(slug, answer.message, hint="GET /api/v1/backfills lists those there are")
    refuse(answer, kind)


async def _row(services: Services, caller: Caller, text: str) -> BackfillRow:
    """The backfill; one that history does not show may just have been asked for: it is waited for, a second at most."""
    job_id, number = _own(caller, text)
    row: BackfillRow | None = await appearing(lambda: services.call(services.store.backfill, job_id, number))
    if row is None:
        raise _no_such(text)
    return row


def _own(caller: Caller, text: str) -> tuple[str, int]:
    """The backfill that a path names. Raises Problem (404), also where it is another tenant's."""
    try:
        job_id, number = parse_backfill_id(text)
    except RequestError:
        raise _no_such(text) from None
    if not job_id.startswith(f"{caller.tenant}:"):
        raise _no_such(text)
    return job_id, number


def _no_such(text: str) -> Problem:
    hint = "GET /api/v1/backfills lists those there are"
    return Problem("not-found", f"History knows no backfill {text[:300]!r}", hint=hint)


def _view(services: Services, row: BackfillRow) -> dict[str, Any]:
    return backfill_to_document(row.job_id, row.told, row.at, services.clock.now())
