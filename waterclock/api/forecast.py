"""``GET /forecast``: the load of the next 24 hours, by minute and tier, and its busiest minutes.

Counting runs off the event loop, a page of jobs at a time, so that others have turns; few may count at once. How it
fails: 503 while the store does not answer or too many count; what a bound left out, ``stopped`` says.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, Field
from starlette.datastructures import State
from starlette.responses import Response

from waterclock.model.forecast import BUSIEST_MAX, Forecast, forecast_document
from waterclock.model.schedule import AT_MAX
from waterclock.model.time_text import parse_rfc3339
from waterclock.store.planned import Page, known_tenants, planned_pages

from . import keys, shapes, views
from .access import Held, Reader
from .problems import Problem, busy
from .shapes import Answers

_AT_ONCE_MAX = 2
_WAIT_S = 5.0
"""For one of them to end; then the caller is told to come back."""

_JOBS_MAX = 10_000
_STEPS_MAX = 500_000

routes = APIRouter(tags=["forecast"])


class TierLoad(BaseModel):
    """One tier. ``by_minute``: 1,440 counts, the first that of the minute ``begin_at``."""

    tier: str
    fire_count: int
    by_minute: list[int] = Field(description="By fire time: before jitter")
    due_by_minute: list[int] = Field(description="By due time: after jitter")


class JobLoad(BaseModel):
    """A job in one minute."""

    job_id: str
    tier: str
    fire_count: int


class MinuteLoad(BaseModel):
    """One minute, by due time. ``jobs``: of its ``job_count`` jobs the five with the most fires."""

    minute_at: str
    fire_count: int
    job_count: int
    jobs: list[JobLoad]


class LoadForecast(BaseModel):
    """What the schedules say, and no more: no retries, triggers, overlap, later changes."""

    begin_at: str
    end_at: str
    tenants: list[str]
    job_count: int
    delay_job_count: int = Field(description="Of these, those with a fixed delay: none of their fires is foreseen")
    fire_count: int
    due_count: int = Field(description="As `fire_count`, by due time: jitter carries fires over the ends of the span")
    stopped: str | None = Field(description="Why not all jobs were counted; null: all were")
    tiers: list[TierLoad]
    busiest: list[MinuteLoad]


@routes.get(
    "/forecast",
    summary="The load of the next 24 hours, by minute",
    responses=shapes.answers(Answers.READ, {200: LoadForecast, 422: shapes.Problem}),
)
async def forecast(
    request: Request,
    services: Held,
    caller: Reader,
    from_: Annotated[str | None, Query(alias="from", max_length=40, description="RFC 3339; without: now")] = None,
    busiest: Annotated[int, Query(ge=0, le=BUSIEST_MAX, description="So many busy minutes")] = 10,
    *,
    all_tenants: Annotated[bool, Query(description="Needs the scope admin")] = False,
) -> Response:
    """Fires of all active jobs. Of many jobs the newest are counted: see `stopped`."""
    from_at = services.clock.now() if from_ is None else parse_rfc3339(from_, "/from")
    if not 0 <= from_at < AT_MAX:
        raise Problem("invalid", "The instant is out of range", pointer="/from", hint="From 1970 to 2199")
    tenants = [caller.tenant]
    if all_tenants:
        if not keys.allows(caller.scopes, "admin"):
            raise Problem("forbidden", f"All tenants need the scope 'admin'; the key has {caller.scopes!r}",
                          hint="`waterclock key create --scopes admin` makes one")  # fmt: skip
        named = [caller.tenant, services.settings.tenant, *services.settings.intake.tenants.values()]
        tenants = await services.call(known_tenants, services.store, named)
    counted = Forecast(from_at, jobs_max=_JOBS_MAX, steps_max=_STEPS_MAX)
    room = _room_of(request.app.state)
    try:
        await asyncio.wait_for(room.acquire(), _WAIT_S)
    except TimeoutError:
        raise busy(f"{_AT_ONCE_MAX} forecasts are being counted, and others wait") from None
    try:
        pages = planned_pages(services.store, tenants)
        while await services.call(_take_page, counted, pages):
            pass
        told = await services.call(forecast_document, counted, busiest)
    finally:
        room.release()
    return views.reply(200, told | {"tenants": tenants}, cache_control="no-store")


def _room_of(state: State) -> asyncio.Semaphore:
    """For so many at once, in the whole of this API."""
    if not hasattr(state, "forecasting"):
        state.forecasting = asyncio.Semaphore(_AT_ONCE_MAX)
    room: asyncio.Semaphore = state.forecasting
    return room


def _take_page(counted: Forecast, pages: Iterator[Page]) -> bool:
    """Whether there may be more."""
    page = next(pages, None)
    return page is not None and counted.take(*page)
