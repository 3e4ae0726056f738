"""``GET /overview``: how the caller's runs stand, per tier, with the runs that came last; what the page shows.

The counts are the tally's (``tally.py``), folded by the one reducer, so the page keeps no rules of its own. How it
fails: 503 while the log does not answer; a lag that cannot be had is null.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from waterclock.model.ids import US_PER_S, Instant
from waterclock.model.job import Tier

from . import shapes, views
from .access import Held, Reader
from .counting import Counting
from .services import Services
from .shapes import Answers
from .tally import SPAN_S, TalliedRun, Tally

routes = APIRouter(tags=["overview"])


class TierStanding(BaseModel):
    """One tier. ``due``, ``running``, ``retrying``: now; ``done``, ``failed``, ``skipped``: within the last hour."""

    tier: str
    due: int
    running: int
    retrying: int
    done: int
    failed: int
    skipped: int
    lag: int | None = Field(description="Records that no worker has claimed, of all tenants; null: not known")


class RunGlance(BaseModel):
    """One run, as far as it has come."""

    run_id: str
    job_id: str
    tier: str
    status: str
    attempt: int
    fire_time: str
    visible_at: str = Field(description="When the log had it")
    started_at: str | None
    ended_at: str | None
    error: str | None


class Overview(BaseModel):
    """How things stand. ``since``: from then on everything is counted."""

    at: str
    since: str
    tiers: list[TierStanding]
    last_runs: list[RunGlance]
    last_failures: list[RunGlance]


@routes.get(
    "/overview",
    summary="How things stand: due, running, done, failing and lag of each tier, and the runs that came last",
    responses=shapes.answers(Answers.READ, {200: Overview}),
)
async def overview(request: Request, caller: Reader, services: Held) -> Response:
    """Counts are of the last hour, or since as far back as the log was read: see `since`."""
    counting = counting_of(request, services)
    tally = await counting.tally(caller.tenant)
    return views.reply(200, shown(tally, await counting.lags(), services.clock.now()), cache_control="no-store")


def counting_of(request: Request, services: Services) -> Counting:
    """The one of this app, made at the first question."""
    state = request.app.state
    if not hasattr(state, "counting"):
        state.counting = Counting(services)
    counting = state.counting
    assert isinstance(counting, Counting)
    return counting


def shown(tally: Tally, lags: Mapping[Tier, int], now: Instant) -> dict[str, Any]:
    """The answer."""
    return {
        "at": views.instant(now),
        "since": views.instant(max(tally.since, now - SPAN_S * US_PER_S)),
        "tiers": [
            {"tier": tier.word, **standing._asdict(), "lag": lags.get(tier)}
            for tier, standing in tally.standing(now).items()
        ],
        "last_runs": [_glance(run) for run in tally.last],
        "last_failures": [_glance(run) for run in tally.failures],
    }


def _glance(run: TalliedRun) -> dict[str, Any]:
    return {
        "run_id": run.run_id,
        "job_id": run.job_id,
        "tier": run.tier.word,
        "status": run.status.name,
        "attempt": run.attempt,
        "fire_time": views.instant(run.fire_at),
        "visible_at": views.instant(run.visible_at),
        "started_at": views.instant(run.started_at),
        "ended_at": views.instant(run.ended_at),
        "error": run.error or None,
    }
