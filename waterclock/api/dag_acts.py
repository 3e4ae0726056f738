"""Routes that act on DagRuns: cancel, pause, resume, run again; each can say first what it comes to.

The log decides, as for any run: an answer says what is known a moment later. What must hold: a dry run sends nothing;
what it says follows from the rule by which the engine goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, Request
from starlette.responses import Response

from waterclock.dag_runs.acting import Plan, plan_cancel, plan_pause, plan_rerun, plan_resume
from waterclock.dag_runs.reading import DagRunSeen
from waterclock.dag_runs.views import plan_view
from waterclock.model.errors import Conflict
from waterclock.model.events import FINAL
from waterclock.model.ids import RunId
from waterclock.model.job import CommandKind
from waterclock.store.port import RunRow

from . import dag_run_shapes, shapes, views, wanting
from .access import Held, Writer
from .appearing import appearing
from .bodies import read_object
from .dag_runs import seen_dag_run
from .jobs import pending_reply
from .keyring import Caller
from .orders import Obeyed, Order, give, is_refused, refuse
from .problems import Problem
from .repeats import RepeatKey, once, wants_no_wait
from .runs import came_to
from .services import Services
from .shapes import Answers

_ACT_KEYS = ("note", "dry_run")
_RERUN_KEYS = ("from", "failed", "payload", "payload_base64", "note", "dry_run")
_NODES_MAX = 1_000

routes = APIRouter(tags=["dag runs"])


@routes.post(
    "/dag-runs/{dag_run_id}/cancel",
    summary="Cancel a DagRun",
    openapi_extra=shapes.body("ActBody", required=False),
    responses=shapes.answers(Answers.CHANGE_ONE, {200: dag_run_shapes.ActAnswer}),
)
async def cancel_dag_run(dag_run_id: str, request: Request, services: Held, caller: Writer) -> Response:
    """What waits ends at once, what runs is asked to stop; it ends with the last. Of one that has ended: as it is."""
    return await _act(services, caller, request, dag_run_id, CommandKind.CANCEL, plan_cancel)


@routes.post(
    "/dag-runs/{dag_run_id}/pause",
    summary="Pause a DagRun",
    openapi_extra=shapes.body("ActBody", required=False),
    responses=shapes.answers(Answers.CHANGE_ONE, {200: dag_run_shapes.ActAnswer}),
)
async def pause_dag_run(dag_run_id: str, request: Request, services: Held, caller: Writer) -> Response:
    """None of its nodes begins; what runs goes on, and so does its time-out. Of one that has ended: as it is."""
    return await _act(services, caller, request, dag_run_id, CommandKind.PAUSE_RUN, plan_pause)


@routes.post(
    "/dag-runs/{dag_run_id}/resume",
    summary="Resume a paused DagRun",
    openapi_extra=shapes.body("ActBody", required=False),
    responses=shapes.answers(Answers.CHANGE_ONE, {200: dag_run_shapes.ActAnswer}),
)
async def resume_dag_run(dag_run_id: str, request: Request, services: Held, caller: Writer) -> Response:
    """Its nodes begin again, as their parents and its limits allow. Of one that has ended: as it is."""
    return await _act(services, caller, request, dag_run_id, CommandKind.RESUME_RUN, plan_resume)


@routes.post(
    "/dag-runs/{dag_run_id}/rerun",
    summary="Run a DagRun again",
    openapi_extra=shapes.body("RerunBody", required=False),
    responses=shapes.answers(Answers.CHANGE_ONE, {200: dag_run_shapes.DagPlan, 201: dag_run_shapes.Rerun}),
)
async def rerun_dag_run(dag_run_id: str, request: Request, services: Held, caller: Writer) -> Response:
    """A new DagRun of the same version: whole, from some nodes on, or from those that failed. It must have ended."""
    document = await read_object(request, optional=True)
    wanting.check_known(document, _RERUN_KEYS)
    begin = tuple(dict.fromkeys(wanting.texts(document, "from", _NODES_MAX)))
    failed, dry_run = wanting.flag(document, "failed"), wanting.flag(document, "dry_run")
    note, payload = wanting.text(document, "note", wanting.NOTE_MAX), wanting.payload(document)

    async def act(repeat_key: RepeatKey) -> Response:
        seen = await seen_dag_run(services, caller.tenant, dag_run_id)
        plan = await _planned(services, lambda seen: plan_rerun(seen, begin, failed=failed), seen)
        if dry_run:
            return views.reply(200, plan_view(seen.run_id, plan))
        order = Order(
            CommandKind.RERUN,
            seen.row.job_id,
            repeat_key=repeat_key,
            run_id=str(seen.run_id),
            note=note,
            payload=payload,
            to_revision=seen.row.revision,
            rerun_from=plan.begins,
        )
        obeyed = await _given(services, caller, request, order)
        if obeyed.answer is None:
            return pending_reply(obeyed, request)
        answer = obeyed.answer
        told: dict[str, Any] = {"job_id": seen.row.job_id, "run_id": answer.run_id, "linked_run": str(seen.run_id)}
        told |= await came_to(services, answer)
        # What was dropped at once has not become a DagRun: history knows it as a skip.
        shelf = "runs" if told["skipped"] else "dag-runs"
        return views.reply(201, told, Location=f"/api/v1/{shelf}/{quote(answer.run_id, safe='')}")

    return await once(services, caller, request, document, act)


async def _act(
    services: Services,
    caller: Caller,
    request: Request,
    run_id: str,
    kind: CommandKind,
    planned: Callable[[DagRunSeen], Plan],
) -> Response:
    document = await read_object(request, optional=True)
    wanting.check_known(document, _ACT_KEYS)
    note, dry_run = wanting.text(document, "note", wanting.NOTE_MAX), wanting.flag(document, "dry_run")

    async def act(repeat_key: RepeatKey) -> Response:
        seen = await seen_dag_run(services, caller.tenant, run_id)
        if dry_run:
            return views.reply(200, plan_view(seen.run_id, await _planned(services, planned, seen)))
        if not seen.is_open or (seen.is_ending and kind is not CommandKind.CANCEL):
            return _told(seen.row)  # a repeat may come after its end: what was done is not to be called a failure
        if seen.is_held and kind is not CommandKind.CANCEL:
            await _planned(services, planned, seen)  # refuses: the log passes over a pause of what has not begun
        order = Order(kind, seen.row.job_id, repeat_key=repeat_key, run_id=str(seen.run_id), note=note)
        obeyed = await _given(services, caller, request, order)
        if obeyed.answer is None:
            return pending_reply(obeyed, request)
        return _told(await _since(services, seen.run_id, kind) or _assumed(seen.row, kind))

    return await once(services, caller, request, document, act)


async def _planned(services: Services, plan: Callable[[DagRunSeen], Plan], seen: DagRunSeen) -> Plan:
    """Raises Problem (409) where the DagRun does not stand so that it could be done, RequestError."""
    try:
        return await services.call(plan, seen)
    except Conflict as conflict:
        raise Problem("wrong-state", conflict.message, hint=conflict.hint) from None


async def _given(services: Services, caller: Caller, request: Request, order: Order) -> Obeyed:
    """Raises Problem where the dispatcher refused."""
    obeyed = await give(services, caller, order, wait=not wants_no_wait(request))
    if obeyed.answer is not None and is_refused(obeyed.answer):
        refuse(obeyed.answer, order.kind)
    return obeyed


async def _since(services: Services, place: RunId, kind: CommandKind) -> RunRow | None:
    """The DagRun once history shows what was done, a second at most; None: it does not yet."""

    async def look() -> RunRow | None:
        row: RunRow | None = await services.call(services.store.run, place.job_id, place.fire_at, place.series)
        return row if row is not None and (row.status in FINAL or _shows(row, kind)) else None

    return await appearing(look)


def _shows(row: RunRow, kind: CommandKind) -> bool:
    return row.cancel_requested if kind is CommandKind.CANCEL else row.paused is (kind is CommandKind.PAUSE_RUN)


def _assumed(row: RunRow, kind: CommandKind) -> RunRow:
    """As it will be shown: the log has taken the word."""
    if kind is CommandKind.CANCEL:
        return row._replace(cancel_requested=True)
    return row._replace(paused=kind is CommandKind.PAUSE_RUN)


def _told(row: RunRow) -> Response:
    document: dict[str, Any] = {"run_id": str(RunId(row.job_id, row.fire_at, row.series)), "status": row.status.name}
    return views.reply(200, document | {"paused": row.paused, "cancel_requested": row.cancel_requested})
