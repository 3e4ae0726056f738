"""Routes of DagRuns: what stands, node by node, and what is stuck. History is a projection of the log and may lag."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.responses import Response

from waterclock.dag_runs.listing import dag_runs_of
from waterclock.dag_runs.looking import stuck_in
from waterclock.dag_runs.picture import nodes_seen
from waterclock.dag_runs.reading import DagRunSeen, read_dag_run
from waterclock.dag_runs.views import dag_run_in_full, dag_run_view, stuck_view
from waterclock.model.errors import RequestError
from waterclock.model.ids import RunId
from waterclock.store.open_runs import OPEN, open_runs, parse_place

from . import dag_run_shapes, shapes, views
from .access import Held, Reader, no_such_job, own_job_id
from .cursors import read_cursor, unknown_cursor, write_cursor
from .problems import Problem
from .runs import own_run, run_row
from .services import Services
from .shapes import Answers

PAGE_MAX = 500
LOOKED_AT_MAX = 100
"""Open DagRuns that one request for what is stuck looks at: each is a read of its own."""

_INT64 = 2**63
_NODE_MAX = 80

routes = APIRouter(tags=["dag runs"])


@routes.get(
    "/jobs/{job_id}/dag-runs",
    summary="DagRuns of a job, newest first",
    responses=shapes.answers(Answers.READ_ONE, {200: dag_run_shapes.DagRunPage}),
)
async def list_dag_runs(
    job_id: str,
    services: Held,
    caller: Reader,
    limit: Annotated[int, Query(ge=1, le=PAGE_MAX)] = 50,
    cursor: Annotated[str | None, Query(max_length=400, description="`next_cursor` of the page before")] = None,
) -> Response:
    """Without its skipped fires: a page may be short, and more follow. History is kept for 30 days."""
    mine = own_job_id(caller, job_id)
    before, series = _place(cursor) if cursor is not None else (None, None)
    found = await services.call(dag_runs_of, services.store, mine, limit, before, series)
    if not found.rows and await services.call(services.store.job, mine) is None:
        raise no_such_job(job_id)
    more = write_cursor(found.last[0], str(found.last[1])) if found.last is not None else None
    return views.reply(200, {"dag_runs": [dag_run_view(row) for row in found.rows], "next_cursor": more})


@routes.get(
    "/dag-runs/stuck",
    summary="Nodes that somebody should look at",
    responses=shapes.answers(Answers.READ_ONE, {200: dag_run_shapes.StuckPage}),
)
async def list_stuck(
    services: Held,
    caller: Reader,
    job: Annotated[str | None, Query(max_length=200, description="Only this job's DagRuns")] = None,
    limit: Annotated[int, Query(ge=1, le=LOOKED_AT_MAX, description="Open runs looked at")] = LOOKED_AT_MAX,
    cursor: Annotated[str | None, Query(max_length=400, description="`next_cursor` of the page before")] = None,
) -> Response:
    """Among open DagRuns, each with its reason; empty where all is well, also where nodes wait for what will come."""
    job_id = own_job_id(caller, job) if job else ""
    try:
        after = parse_place(cursor) if cursor else None
    except RequestError:
        raise unknown_cursor() from None
    found = await services.call(open_runs, services.store, caller.tenant, job_id, frozenset(OPEN), None, limit, after)
    if job and not found.rows and await services.call(services.store.job, job_id) is None:
        raise no_such_job(job)
    told: list[dict[str, Any]] = []
    dag_runs = [row for row in found.rows if row.is_dag]
    for row in dag_runs:
        seen = await services.call(read_dag_run, services.store, RunId(row.job_id, row.fire_at, row.series))
        if seen is not None:
            told += [stuck_view(str(seen.run_id), each) for each in stuck_in(seen, *await _facts(services))]
    next_at = str(found.next_at) if found.next_at else None
    return views.reply(200, {"stuck": told, "looked_at": len(dag_runs), "next_cursor": next_at})


@routes.get(
    "/dag-runs/{dag_run_id}",
    summary="A DagRun with its nodes",
    responses=shapes.answers(Answers.READ_ONE, {200: dag_run_shapes.DagRunInFull}),
)
async def show_dag_run(dag_run_id: str, services: Held, caller: Reader) -> Response:
    """How each node stands, what took longest, and what is stuck. A mapped node is shown as a whole."""
    seen = await seen_dag_run(services, caller.tenant, dag_run_id)
    served, now = await _facts(services)

    def document() -> dict[str, Any]:
        return dag_run_in_full(seen, nodes_seen(seen), stuck_in(seen, served, now), now)

    return views.reply(200, await services.call(document))


@routes.get(
    "/dag-runs/{dag_run_id}/nodes",
    summary="Node runs of a DagRun",
    responses=shapes.answers(Answers.READ_ONE, {200: dag_run_shapes.NodeRunPage}),
)
async def list_nodes(
    dag_run_id: str,
    services: Held,
    caller: Reader,
    limit: Annotated[int, Query(ge=1, le=PAGE_MAX)] = 100,
    cursor: Annotated[str | None, Query(max_length=_NODE_MAX, description="`next_cursor` of the page before")] = None,
) -> Response:
    """Each as a run, with its whole result and error: every item of a mapped node, too."""
    place = own_run(dag_run_id, caller.tenant)
    row = await run_row(services, place)
    if row is None or not getattr(row, "is_dag", False):
        raise no_such_dag_run(dag_run_id)
    found = await services.call(
        services.store.dag_nodes, place.job_id, place.fire_at, place.series, limit, cursor or ""
    )
    more = found[-1].node if len(found) == limit else None
    return views.reply(200, {"nodes": [views.run_view(each) for each in found], "next_cursor": more})


async def seen_dag_run(services: Services, tenant: str, run_id: str) -> DagRunSeen:
    """The DagRun that a path names; one that was just made is waited for. Raises Problem (404)."""
    place = own_run(run_id, tenant)
    if await run_row(services, place) is None:
        raise no_such_dag_run(run_id)
    seen = await services.call(read_dag_run, services.store, place)
    if seen is None:
        raise no_such_dag_run(run_id)
    return seen


def no_such_dag_run(text: str) -> Problem:
    """404, in the same words whether it does not exist, is a run of another kind, or is another tenant's."""
    return Problem(
        "not-found",
        f"History knows no DagRun {text[:300]!r}",
        hint="GET /api/v1/jobs/{job_id}/dag-runs lists those it knows",
    )


async def _facts(services: Services) -> tuple[frozenset[str] | None, int]:
    """The pools that have a worker (None: nobody can tell), and the time."""
    serving = await services.crew.serving()
    pools = None if serving is None else frozenset(pool for pool, served in serving.items() if served.workers)
    return pools, services.clock.now()


def _place(cursor: str) -> tuple[int, int]:
    at, series = read_cursor(cursor)
    if not series.isdecimal() or not series.isascii() or int(series[:20]) >= _INT64:
        raise unknown_cursor()
    return at, int(series)
