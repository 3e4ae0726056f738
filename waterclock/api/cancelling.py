"""Routes that end runs: one, or all that a filter means. The log decides what a cancel comes to.

A run that waits is cancelled at once. One that runs is asked to stop, and is cancelled when its attempt ends otherwise
than well; if it succeeds first, it has succeeded. So the answer says what is known a moment later, and `status` is
history's word, not a promise. What must hold: a tenant ends its own runs alone; what a bulk request does, it says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from waterclock.dead_letters.acting import Asked, cancel_of
from waterclock.model.errors import RequestError
from waterclock.model.events import FINAL, RunStatus
from waterclock.model.ids import RunId, make_run_id
from waterclock.model.job import CommandKind
from waterclock.model.time_text import parse_duration
from waterclock.store.dag_port import NodeRow
from waterclock.store.open_runs import OPEN, OpenRuns, open_runs, parse_place
from waterclock.store.port import RunRow

from . import shapes, views, wanting
from .access import Held, Writer, own_job_id
from .appearing import appearing
from .bodies import read_object
from .jobs import pending_reply
from .keyring import Caller
from .orders import Order, give, is_refused, refuse
from .pacing import send_paced
from .repeats import RepeatKey, once, wants_no_wait
from .runs import no_such_run, own_run, row_now, run_row
from .services import Services
from .shapes import Answers

_KEYS = ("job", "run_ids", "status", "older_than", "dry_run", "cap", "rate_per_s", "note", "cursor")

routes = APIRouter(tags=["runs"])


class CancelBody(BaseModel):
    """Why, for those who read it later."""

    model_config = ConfigDict(extra="forbid")
    note: str = Field("", max_length=wanting.NOTE_MAX)


class CancelManyBody(BaseModel):
    """Which runs to end. At least one of `job`, `run_ids`, `status` and `older_than`."""

    model_config = ConfigDict(extra="forbid")
    job: str = Field("", description="Only this job's")
    run_ids: list[str] = Field([], max_length=wanting.RUN_IDS_MAX)
    status: list[str] = Field([], description="Of pending, running, retrying; all three if none is given")
    older_than: str = Field("", description="Made so long ago", examples=["10m"])
    dry_run: bool = Field(False, description="Count, and end nothing")
    cap: int = Field(wanting.CAP, ge=1, le=wanting.CAP_MAX)
    rate_per_s: float = Field(wanting.RATE_PER_S, ge=0.1, le=wanting.RATE_MAX)
    note: str = Field("", max_length=wanting.NOTE_MAX)
    cursor: str = Field("", description="`next_cursor` of the answer before")


class Cancelled(BaseModel):
    """What is known of the run now."""

    run_id: str
    status: str = Field(description="CANCELLED at once while it waited; RUNNING until its attempt has stopped")
    cancel_requested: bool = Field(description="Somebody asked it to end; of a run that had ended before: false")


class CancelledMany(BaseModel):
    """What a bulk cancel did."""

    dry_run: bool
    matched: int = Field(description="Runs that the filter means, at most `cap`")
    by_status: dict[str, int]
    requested: int = Field(description="Cancels that the log has taken; who was asked before is not asked again")
    refused: int
    left: int = Field(description="Matched and not reached in time: the same body again goes on with them")
    is_whole: bool = Field(description="Nothing was left out by a bound; else go on with `next_cursor`")
    next_cursor: str | None = Field(description="The same body with it as `cursor` goes on, also if none was found yet")
    run_ids: list[str]


@routes.post(
    "/runs/cancel",
    summary="Cancel runs by filter",
    openapi_extra=shapes.body("CancelManyBody"),
    responses=shapes.answers(Answers.BULK, {200: CancelledMany}),
)
async def cancel_many(request: Request, services: Held, caller: Writer) -> Response:
    """Among the runs that history shows. With `dry_run` it says how many there are, by status."""
    document = await read_object(request)
    wanting.check_known(document, _KEYS)
    rate_per_s, dry_run, note = (
        wanting.rate_per_s(document),
        wanting.flag(document, "dry_run"),
        wanting.text(document, "note", wanting.NOTE_MAX),
    )

    async def act(_repeat_key: RepeatKey) -> Response:
        found = await _matching(services, caller, document)
        told: dict[str, Any] = {
            "dry_run": dry_run,
            "matched": len(found.rows),
            "by_status": dict(Counter(row.status.name for row in found.rows)),
            "requested": 0,
            "refused": 0,
            "left": 0 if dry_run else len(found.rows),
            "is_whole": found.is_whole,
            "next_cursor": str(found.next_at) if found.next_at else None,
            "run_ids": [_run_id(row) for row in found.rows],
        }
        if not dry_run:
            # One that was asked before may run on for long: asked each time, it would stand before the others.
            unasked = [_run_id(row) for row in found.rows if not row.cancel_requested]
            commands = [cancel_of(run_id, _asked(services, caller, note)) for run_id in unasked]
            answers = (await send_paced(services, commands, rate_per_s)).answers
            refused = sum(answer is not None and is_refused(answer) for answer in answers)
            told |= {"requested": len(answers) - refused, "refused": refused, "left": len(commands) - len(answers)}
            if told["left"]:
                told["next_cursor"] = wanting.text(document, "cursor") or None
        return views.reply(200, told)

    return await once(services, caller, request, document, act)


@routes.post(
    "/runs/{run_id:path}/cancel",
    summary="Cancel a run",
    openapi_extra=shapes.body("CancelBody", required=False),
    responses=shapes.answers(Answers.CHANGE_ONE, {200: Cancelled}),
)
async def cancel_run(run_id: str, request: Request, services: Held, caller: Writer) -> Response:
    """A run that waits ends at once; one that runs is asked to stop, then stopped. Of one that has ended: as it is."""
    place = own_run(run_id, caller.tenant, nodes=True)
    document = await read_object(request, optional=True)
    wanting.check_known(document, ("note",))
    note = wanting.text(document, "note", wanting.NOTE_MAX)

    async def act(repeat_key: RepeatKey) -> Response:
        row = await run_row(services, place)
        if row is None:
            raise no_such_run(run_id)
        if row.status in FINAL:
            return _told(place, row)
        order = Order(CommandKind.CANCEL, place.job_id, repeat_key=repeat_key, run_id=str(place), note=note)
        obeyed = await give(services, caller, order, wait=not wants_no_wait(request))
        if obeyed.answer is None:
            return pending_reply(obeyed, request)
        if is_refused(obeyed.answer):
            refuse(obeyed.answer, order.kind)
        return _told(place, await _since(services, place) or row._replace(cancel_requested=True))

    return await once(services, caller, request, document, act)


async def _since(services: Services, place: RunId) -> RunRow | NodeRow | None:
    """The run once history shows the cancel, a second at most; None: it does not yet."""

    async def look() -> RunRow | NodeRow | None:
        row = await row_now(services, place)
        return row if row is not None and (row.status in FINAL or row.cancel_requested) else None

    return await appearing(look)


def _told(place: RunId, row: RunRow | NodeRow) -> Response:
    document = {"run_id": str(place), "status": row.status.name, "cancel_requested": row.cancel_requested}
    return views.reply(200, document)


async def _matching(services: Services, caller: Caller, document: Mapping[str, Any]) -> OpenRuns:
    """The runs that the body means. Raises RequestError, Problem, BackendDown."""
    job = wanting.text(document, "job")
    run_ids = wanting.texts(document, "run_ids")
    words = wanting.texts(document, "status")
    age = wanting.text(document, "older_than")
    if not (job or run_ids or words or age):
        raise RequestError(
            "Say which runs", pointer="", hint="Give job, run_ids, status or older_than; dry_run shows what they mean"
        )
    statuses = frozenset(_status(word) for word in words) or frozenset(OPEN)
    before = services.clock.now() - parse_duration(age, "/older_than") if age else None
    if run_ids:
        return await _named(services, caller, run_ids, statuses)
    job_id = own_job_id(caller, job) if job else ""
    limit = wanting.cap(document)
    cursor = wanting.text(document, "cursor")
    after = parse_place(cursor) if cursor else None
    return await services.call(open_runs, services.store, caller.tenant, job_id, statuses, before, limit, after)


async def _named(services: Services, caller: Caller, run_ids: list[str], statuses: frozenset[RunStatus]) -> OpenRuns:
    found: list[RunRow] = []
    for run_id in dict.fromkeys(run_ids):
        place = own_run(run_id, caller.tenant)
        row = await services.call(services.store.run, place.job_id, place.fire_at, place.series)
        if row is None:
            raise no_such_run(run_id)
        if row.status in statuses:
            found.append(row)
    return OpenRuns(found)


def _status(word: str) -> RunStatus:
    status = next((each for each in OPEN if each.name == word.upper()), None)
    if status is None:
        raise RequestError(
            f"{word[:40]!r} is no status that can be cancelled", pointer="/status", hint="pending, running, retrying"
        )
    return status


def _asked(services: Services, caller: Caller, note: str) -> Asked:
    return Asked(caller.actor, services.next_command_id(), services.clock.now(), note)


def _run_id(row: RunRow) -> str:
    return make_run_id(row.job_id, row.fire_at, row.series)
