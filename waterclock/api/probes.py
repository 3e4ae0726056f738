"""For machines that watch this process: is it alive, should it get requests, how does it go.

Liveness is progress: an API whose threads stand still is dead, however quickly it answers. Probes carry no key and
tell nothing about anybody's jobs; the figures are for ``admin`` keys.
"""

from __future__ import annotations

from fastapi import APIRouter
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.responses import Response

from waterclock.model.catch_up_eta import told_by
from waterclock.model.errors import BackendDown, UndecodableRecord
from waterclock.model.fold import parse_repairs
from waterclock.store.upkeep import DAG_ENGINE, DUE_SWEEP, LEDGER, OVERDUE, STUCK_DAGS

from . import shapes, views
from .access import Admin, Held
from .problems import Problem
from .services import Services
from .shapes import Answers

routes = APIRouter(tags=["probes"])


@routes.get(
    "/healthz", summary="Whether it makes progress", responses=shapes.answers(Answers.PROBE, {200: shapes.Health})
)
async def healthz(services: Held) -> Response:
    """503 when a thread has stood still for half a minute: restart it."""
    stuck = services.stuck()
    return views.reply(503 if stuck else 200, {"status": "stuck" if stuck else "ok", "stuck": stuck})


@routes.get(
    "/readyz", summary="Whether it should get requests", responses=shapes.answers(Answers.PROBE, {200: shapes.Ready})
)
async def readyz(services: Held) -> Response:
    """503 while Kafka or Cassandra does not answer: send requests elsewhere."""
    away = services.away()
    return views.reply(503 if away else 200, {"status": "waiting" if away else "ok", "away": away})


@routes.get("/metrics", summary="Figures for Prometheus", responses=shapes.answers(Answers.READ, {200: shapes.METRICS}))
async def metrics(services: Held, caller: Admin) -> Response:  # noqa: ARG001 - whoever may see all tenants
    """Made off the event loop: a scrape delays no request."""
    await _count_repairs(services)
    await _ask_upkeep(services)
    await _count_owed(services)
    return Response(await services.call(services.measures.text), media_type=CONTENT_TYPE_LATEST)


async def _count_owed(services: Services) -> None:
    """Rides with the dispatchers' committed positions, likewise."""
    try:
        positions = await services.ask(services.log.group_positions, services.names.group("dispatcher"))
    except (BackendDown, Problem):
        return
    told = told_by(at.metadata for at in positions.values())
    services.measures.catching_up(sum(each.row_count for each in told), services.clock.monotonic_s())


async def _count_repairs(services: Services) -> None:
    """They ride with the retry router's committed positions. Where the log does not answer, as it was told last."""
    try:
        positions = await services.ask(services.log.group_positions, services.names.group("retry-router"))
    except (BackendDown, Problem):
        return
    services.measures.repairs.set(sum(parse_repairs(at.metadata) for at in positions.values()))


async def _ask_upkeep(services: Services) -> None:
    """Dispatchers and recorders tell it in a table. Where the store does not answer, as it was told last."""
    try:
        told = [await services.call(services.store.told_of_all, what) for what in (DUE_SWEEP, LEDGER, OVERDUE)]
        of_dags = [await services.call(services.store.told_of_all, what) for what in (DAG_ENGINE, STUCK_DAGS)]
    except (BackendDown, UndecodableRecord, Problem):
        return
    services.measures.upkeep.take(*told)
    services.measures.dags.take(*of_dags)
