"""``GET /cron/preview``: what an expression means and when it fires, before a job has it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any
from zoneinfo import ZoneInfo

from fastapi import APIRouter, Query
from starlette.responses import Response

from waterclock.model.cron import compile_cron
from waterclock.model.ids import Instant
from waterclock.model.job import Cron
from waterclock.model.schedule import AT_MAX
from waterclock.model.time_text import parse_rfc3339

from . import shapes, views
from .access import Held, Reader
from .problems import Problem
from .shapes import Answers

_COUNT_MAX = 500
_EXPRESSION_MAX = 1_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

routes = APIRouter(tags=["cron"])


@routes.get(
    "/cron/preview",
    summary="The next fires of a cron expression",
    responses=shapes.answers(Answers.READ, {200: shapes.CronPreview, 422: shapes.Problem}),
)
async def preview(
    services: Held,
    caller: Reader,  # noqa: ARG001 - whoever may read
    expr: Annotated[str, Query(max_length=_EXPRESSION_MAX, description='Such as "0 9 * * 1-5"')],
    tz: Annotated[str, Query(max_length=64, description="IANA time zone")] = "UTC",
    n: Annotated[int, Query(ge=1, le=_COUNT_MAX, description="How many fires")] = 10,
    from_: Annotated[str | None, Query(alias="from", max_length=40, description="After this instant, RFC 3339")] = None,
    *,
    seconds: Annotated[bool, Query(description="Six fields, the second first")] = False,
) -> Response:
    """Each fire in its zone and in UTC; `offset_changed` marks a fire after a clock change."""
    after = services.clock.now() if from_ is None else parse_rfc3339(from_, "/from")
    if not 0 <= after < AT_MAX:
        raise Problem("invalid", "The instant is out of range", pointer="/from", hint="From 1970 to 2199")
    return views.reply(200, await services.call(_explained, expr, tz, n, after, seconds=seconds))


def _explained(expr: str, tz: str, count: int, after: Instant, *, seconds: bool) -> dict[str, Any]:
    """Runs off the loop: an expression may take its milliseconds."""
    spec = compile_cron(Cron(expr, tz, seconds))
    zone = ZoneInfo(spec.zone)
    fires: list[dict[str, Any]] = []
    offset_before = _local(after, zone).utcoffset()
    while len(fires) < count and (fire := spec.next(after)) is not None:
        local = _local(fire, zone)
        changed = local.utcoffset() != offset_before
        fires.append({"utc": views.instant(fire), "local": local.isoformat(), "offset_changed": changed})
        offset_before, after = local.utcoffset(), fire
    return {
        "expression": expr,
        "read_as": spec.resolved,
        "zone": spec.zone,
        "warnings": list(spec.warnings),
        "next_fires": fires,
    }


def _local(at: Instant, zone: ZoneInfo) -> datetime:
    return (_EPOCH + timedelta(microseconds=at)).astimezone(zone)
