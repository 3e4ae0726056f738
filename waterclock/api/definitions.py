"""A job document from a request, checked by the same door as everywhere; and the condition it comes under.

The check compiles cron texts, which may take milliseconds: it runs off the event loop. A pool is refused here where it
has no topics, because a job of it would wait for ever (the dispatcher refuses it too).
"""

from __future__ import annotations

import re
import secrets
from typing import Any

from fastapi import Request

from waterclock.model.document import spec_from_document
from waterclock.model.errors import NotFound, RequestError
from waterclock.model.ids import generated_name, make_job_id
from waterclock.model.job import JobSpec
from waterclock.model.sources import check_sources, sources_of
from waterclock.model.timing import CalendarUse
from waterclock.store.calendar_use import calendars_for

from .problems import Problem
from .services import Services

_ETAGS = re.compile(r'\s*(W/)?"(\d{1,19})"\s*\Z')
_REVISION_MAX = 2**63 - 1


def job_id_for(tenant: str, document: dict[str, Any], repeat_key: str) -> str:
    """The id of a new job; takes ``name`` out of the document. Without one a name is made up, the same for a repeat."""
    name = document.pop("name", None)
    if name is None:
        name = generated_name(tenant, repeat_key or secrets.token_hex(16))
    if not isinstance(name, str):
        raise Problem("invalid", "A name is text", pointer="/name", hint="Such as nightly-invoice")
    return make_job_id(tenant, name)


async def spec_of(services: Services, document: dict[str, Any], job_id: str) -> JobSpec:
    """The spec that the document describes, with the calendars that it names as they stand. Raises RequestError,
    BackendDown.

    The job is noted with them first: it is about to be saved.
    """
    calendars: dict[str, CalendarUse] = {}
    if "calendars" in document:
        calendars = await services.call(calendars_for, services.store, job_id, document, services.clock.now())
    if "cron" in document or calendars:
        spec = await services.call(spec_from_document, document, job_id=job_id, calendars=calendars)
    else:  # nothing to compile: a thread would cost more than the check
        spec = spec_from_document(document, job_id=job_id, calendars=calendars)
    check_sources(sources_of(services.settings.intake.sources), job_id, spec.on)
    if spec.pool != "default":  # that one has topics wherever anything runs
        try:
            await services.ask(services.pools.check, spec.tier, spec.pool)
        except NotFound as error:  # it is the document that is wrong
            raise RequestError(error.message, pointer=error.pointer, hint=error.hint) from None
    return spec


def expected_revision(request: Request, *, needed: bool) -> int:
    """What If-Match asks for; 0: whatever stands. Raises Problem: 428 where it is needed and absent, 400, 412."""
    text = request.headers.get("if-match")
    if text is None:
        if needed:
            raise Problem(
                "precondition-required",
                "A change needs If-Match with the job's ETag, so that it undoes nobody else's",
                hint='GET the job, then send If-Match: "<revision>"; If-Match: * for whatever stands',
            )
        return 0
    if text.strip() == "*":
        return 0
    match = _ETAGS.match(text)
    if match is None:
        raise Problem(
            "bad-request", "If-Match holds no single ETag of ours", hint='Such as If-Match: "281474976710699"'
        )
    revision = int(match[2])
    if match[1] or not 0 < revision <= _REVISION_MAX:
        raise Problem("stale", "No job ever had this ETag", hint="GET the job again")
    return revision
