"""Routes of runs: what has run. History is a projection of the log and may lag by a second or so."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from waterclock.model.errors import RequestError
from waterclock.model.events import Answered, CommandVerdict, RunStatus
from waterclock.model.ids import US_PER_S, RunId, parse_run_id
from waterclock.store.dag_port import NodeRow
from waterclock.store.port import RunRow

from . import shapes, views
from .access import Held, Reader, no_such_job, own_job_id
from .appearing import appearing
from .cursors import read_cursor, unknown_cursor, write_cursor
from .problems import Problem
from .services import Services
from .shapes import Answers

PAGE_MAX = 500
_YOUNG_US = 10 * US_PER_S
_INT64 = 2**63

routes = APIRouter(tags=["runs"])


@routes.get(
    "/jobs/{job_id}/runs",
    summary="Runs of a job, newest first",
    responses=shapes.answers(Answers.READ_ONE, {200: shapes.RunPage}),
)
async def list_runs(
    job_id: str,
    services: Held,
    caller: Reader,
    limit: Annotated[int, Query(ge=1, le=PAGE_MAX)] = 50,
    cursor: Annotated[str | None, Query(max_length=400, description="`next_cursor` of the page before")] = None,
) -> Response:
    """History is kept for 30 days. Also of a job that was deleted, while its name is known."""
    mine = own_job_id(caller, job_id)
    before, series = _place(cursor) if cursor is not None else (None, None)
    found = await services.call(services.store.runs, mine, limit, before, series)
    if not found and await services.call(services.store.job, mine) is None:
        raise no_such_job(job_id)
    more = write_cursor(found[-1].fire_at, str(found[-1].series)) if len(found) == limit else None
    return views.reply(200, {"runs": [views.run_view(row) for row in found], "next_cursor": more})


@routes.get(
    "/runs/{run_id:path}",
    summary="A run",
    responses=shapes.answers(Answers.READ_ONE, {200: shapes.RunInFull}),
)
async def show_run(run_id: str, services: Held, caller: Reader) -> Response:
    """Also of a node of a DagRun. With the attempts before its last one. In a path, percent-encode `@` and `/`."""
    place = own_run(run_id, caller.tenant, nodes=True)
    row = await run_row(services, place)
    if row is None:
        raise no_such_run(run_id)
    attempts = await services.call(services.store.attempts, *place)
    return views.reply(200, {**views.run_view(row), "attempts": [views.attempt_view(each) for each in attempts]})


async def run_row(services: Services, place: RunId) -> RunRow | NodeRow | None:
    """The run; one that may just have been made is waited for, a second at most, because history lags.

    That may be any run with a series: a redrive and a rerun keep the fire time of the run that they repeat.
    """
    may_be_young = place.series > 0 or abs(services.clock.now() - place.fire_at) < _YOUNG_US
    return await appearing(lambda: row_now(services, place)) if may_be_young else await row_now(services, place)


async def came_to(services: Services, answer: Answered) -> dict[str, str | None]:
    """Why the run that a command made waits (``held``), or will never run (``skipped``).

    The shard's owner says it once: to whoever asks again under the same key history tells it, as it is by now.
    """
    held, skipped = answer.held, answer.skipped
    if answer.verdict == CommandVerdict.REPEATED and answer.run_id:
        row = await run_row(services, parse_run_id(answer.run_id))
        if isinstance(row, RunRow):
            held, skipped = views.held_of(row), row.reason if row.status is RunStatus.SKIPPED else ""
    return {"held": held or None, "skipped": skipped or None}


async def row_now(services: Services, place: RunId) -> RunRow | NodeRow | None:
    """What history knows of it at this moment."""
    if place.node:
        return await services.call(services.store.dag_node, place)
    return await services.call(services.store.run, place.job_id, place.fire_at, place.series)


def own_run(text: str, tenant: str, *, nodes: bool = False) -> RunId:
    """The run that a path names. Raises Problem (404), also where it is another tenant's.

    ``nodes``: it may be a node of a DagRun.
    """
    try:
        place = parse_run_id(text)
    except RequestError:
        raise no_such_run(text) from None
    if not place.job_id.startswith(f"{tenant}:") or (place.node and not nodes) or place.series >= _INT64:
        raise no_such_run(text)
    return place


def no_such_run(text: str) -> Problem:
    """404, in the same words whether it does not exist or is another tenant's."""
    return Problem(
        "not-found", f"History knows no run {text[:300]!r}", hint="GET /api/v1/jobs/{job_id}/runs lists those it knows"
    )


def _place(cursor: str) -> tuple[int, int]:
    at, series = read_cursor(cursor)
    if not series.isdecimal() or not series.isascii() or int(series[:20]) >= _INT64:
        raise unknown_cursor()
    return at, int(series)
