"""What a schedule means and when it fires, before a job has it: of an expression, or of a whole job document.

Nothing is written, and no backend is asked but for the calendars that a document names. An expression may take its
milliseconds: it is compiled off the event loop.
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from waterclock.model.calendar_document import names_in
from waterclock.model.document import spec_from_document, spec_to_document
from waterclock.model.errors import RequestError
from waterclock.model.executor import EXECUTORS
from waterclock.model.ids import Instant, make_job_id
from waterclock.model.job import Cron, Fold, Gap
from waterclock.model.preview import PREVIEW_MAX, anchor_of, preview_cron, preview_job
from waterclock.model.preview_document import preview_document
from waterclock.model.schedule import AT_MAX
from waterclock.model.time_text import parse_rfc3339
from waterclock.model.timing import CalendarUse
from waterclock.store.calendar_use import standing

from . import preview_shapes, shapes, views
from .access import Held, Reader, own_job_id
from .bodies import read_object
from .keyring import Caller
from .problems import Problem
from .services import Services
from .shapes import Answers

_EXPRESSION_MAX = 1_000
_WORK_KEYS = ("handler", *EXECUTORS, "callback_url", "dag")

Count = Annotated[int, Query(ge=1, le=PREVIEW_MAX, description="How many fires")]
From = Annotated[str | None, Query(alias="from", max_length=40, description="After this instant, RFC 3339 [now]")]

routes = APIRouter(tags=["cron"])


@routes.get(
    "/cron/preview",
    summary="The next fires of a cron expression",
    responses=shapes.answers(Answers.READ, {200: preview_shapes.CronPreview, 404: shapes.Problem, 422: shapes.Problem}),
)
async def preview(
    services: Held,
    caller: Reader,
    expr: Annotated[str, Query(max_length=_EXPRESSION_MAX, description='Such as "0 9 * * 1-5"')],
    tz: Annotated[str, Query(max_length=64, description="IANA time zone")] = "UTC",
    n: Count = 10,
    from_: From = None,
    *,
    seconds: Annotated[bool, Query(description="Six fields, the second first")] = False,
    gap: Annotated[Gap, Query(description="A local time that does not exist")] = Gap.AUTO,
    fold: Annotated[Fold, Query(description="A local time that comes twice")] = Fold.AUTO,
    job: Annotated[str, Query(max_length=200, description="The job that `H` is drawn from")] = "",
) -> Response:
    """Each fire in its zone and in UTC, with what a clock change does to it (`marks`; `remark` says it in words)."""
    after = _after(services, from_)
    job_id = own_job_id(caller, job) if job else ""
    told = await services.call(_of_expression, Cron(expr, tz, seconds, gap, fold), after, n, job_id)
    return views.reply(200, told)


@routes.post(
    "/jobs/preview",
    summary="The next fires of a job, before it is saved",
    openapi_extra=dict(preview_shapes.JOB_BODY),
    responses=shapes.answers(
        Answers.READ,
        {200: preview_shapes.JobPreview, **dict.fromkeys((408, 413, 415, 422), shapes.Problem)},
    ),
)
async def preview_definition(
    request: Request, services: Held, caller: Reader, n: Count = 10, from_: From = None
) -> Response:
    """The document is checked as it would be at `POST /jobs`, but that it need not say yet how to reach its work.

    `H` is drawn from its `name`. Nothing is saved; an interval without `start_at` counts from `from`.
    """
    after = _after(services, from_)
    document = await read_object(request)
    names = names_in(document)
    calendars = await services.call(standing, services.store, caller.tenant, names) if names else {}
    return views.reply(200, await services.call(_of_document, caller, document, after, n, calendars))


def _of_expression(cron: Cron, after: Instant, count: int, job_id: str) -> dict[str, Any]:
    return {"expression": cron.text, **preview_document(preview_cron(cron, after, count, job_id=job_id))}


def _of_document(
    caller: Caller, document: dict[str, Any], after: Instant, count: int, calendars: dict[str, CalendarUse]
) -> dict[str, Any]:
    definition = dict(document)
    name = definition.pop("name", None)
    if name is not None and not isinstance(name, str):
        raise RequestError("A name is text", pointer="/name", hint="Such as nightly-invoice")
    job_id = make_job_id(caller.tenant, name) if name else ""
    if not any(key in definition for key in _WORK_KEYS):
        definition["handler"] = "preview"
    spec = spec_from_document(definition, job_id=job_id, calendars=calendars)
    told = preview_job(spec, anchor_of(spec.schedule, after), after, count, job_id=job_id)
    return {"schedule": _schedule_of(spec_to_document(spec)), **preview_document(told)}


def _schedule_of(document: dict[str, Any]) -> dict[str, Any]:
    """What of a job document says when it fires, in full."""
    others = {*_WORK_KEYS, "tier", "pool", "payload", "payload_base64", "at_most_once", "retry", "timeouts"}
    return {key: value for key, value in document.items() if key not in others}


def _after(services: Services, text: str | None) -> Instant:
    after = services.clock.now() if text is None else parse_rfc3339(text, "/from")
    if not 0 <= after < AT_MAX:
        raise Problem("invalid", "The instant is out of range", pointer="/from", hint="From 1970 to 2199")
    return after
