"""Routes of a job's past: its versions, what differs between two of them, and bringing an old one back.

Versions are immutable, so what is read here is never stale; only the newest may be a moment old. A rollback is a
command like any change: a new version, on the condition of If-Match, decided by the shard's owner.
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from waterclock.model.document import spec_to_document
from waterclock.model.job import CommandKind, JobVersion
from waterclock.model.spec_diff import spec_diff
from waterclock.store.calendar_use import note_uses

from . import shapes, views, wanting
from .access import Held, Reader, Writer, own_job_id
from .bodies import read_object
from .cursors import unknown_cursor
from .definitions import expected_revision
from .jobs import change
from .orders import Order
from .problems import Problem
from .repeats import RepeatKey, once
from .services import Services
from .shapes import Answers, Instant

PAGE_MAX = 100
_REVISION_MAX = 2**63 - 1

routes = APIRouter(tags=["jobs"])


class RollbackBody(BaseModel):
    """Which version's definition comes back."""

    model_config = ConfigDict(extra="forbid")
    to_revision: int = Field(ge=1, description="One of the job's own, as its versions list them")
    note: str = Field("", max_length=wanting.NOTE_MAX)


class Version(BaseModel):
    """What one command made of a job."""

    revision: int
    action: str | None = Field(description="The verb of the command; null in versions of an earlier release")
    actor: str
    note: str | None
    at: Instant
    status: str
    from_revision: int | None = Field(description="Of a rollback: whose definition it brought back")
    pause: shapes.Pause | None


class VersionInFull(Version):
    """The same, and the definition as it was."""

    definition: dict[str, Any]


class VersionPage(BaseModel):
    """One page of versions, newest first."""

    job_id: str
    versions: list[Version]
    next_cursor: str | None


class FieldChange(BaseModel):
    """One field of the definition."""

    field: str = Field(description="RFC 6901, into the definition")
    kind: str = Field(description="added, removed or changed")
    before: Any
    after: Any


class VersionDiff(BaseModel):
    """What one version says otherwise than another."""

    job_id: str
    from_revision: int
    to_revision: int
    status: list[str] = Field(description="Before and after")
    changes: list[FieldChange]
    is_whole: bool = Field(description="False: there are more changes than are told")


@routes.get(
    "/jobs/{job_id}/versions",
    summary="A job's versions, newest first",
    responses=shapes.answers(Answers.READ_ONE, {200: VersionPage}),
)
async def list_versions(
    job_id: str,
    services: Held,
    caller: Reader,
    limit: Annotated[int, Query(ge=1, le=PAGE_MAX)] = 20,
    cursor: Annotated[str | None, Query(max_length=20, description="`next_cursor` of the page before")] = None,
) -> Response:
    """Who changed it, when, and with which words. Also of a job that was deleted."""
    mine = own_job_id(caller, job_id)
    below = _below(cursor) if cursor is not None else None
    found = await services.call(services.store.history, mine, limit + 1, below)
    if not found and below is None:
        raise _no_version(mine)
    page = found[:limit]
    document = {
        "job_id": mine,
        "versions": [views.version_view(version) for version in page],
        "next_cursor": str(page[-1].revision) if len(found) > limit else None,
    }
    return views.reply(200, document)


@routes.get(
    "/jobs/{job_id}/versions/{revision}",
    summary="One version of a job",
    responses=shapes.answers(Answers.READ_ONE, {200: VersionInFull}),
)
async def show_version(job_id: str, revision: str, services: Held, caller: Reader) -> Response:
    """With its definition, as it was."""
    mine = own_job_id(caller, job_id)
    number = _revision_of(revision)
    if number is None:
        raise _no_version(mine)
    version = await _version(services, mine, number)
    return views.reply(200, views.version_view(version) | {"definition": spec_to_document(version.spec)})


@routes.get(
    "/jobs/{job_id}/diff",
    summary="What differs between two versions of a job",
    responses=shapes.answers(Answers.READ_ONE, {200: VersionDiff}),
)
async def diff_versions(
    job_id: str,
    services: Held,
    caller: Reader,
    from_revision: Annotated[int | None, Query(ge=1, le=_REVISION_MAX, description="Else the one before")] = None,
    to_revision: Annotated[int | None, Query(ge=1, le=_REVISION_MAX, description="Else the newest")] = None,
) -> Response:
    """By field of the definition."""
    mine = own_job_id(caller, job_id)
    after = await (_newest(services, mine) if to_revision is None else _version(services, mine, to_revision))
    if from_revision is None:
        before = await _newest(services, mine, after.revision)
    else:
        before = await _version(services, mine, from_revision)
    found = spec_diff(before.spec, after.spec)
    document = {
        "job_id": mine,
        "from_revision": before.revision,
        "to_revision": after.revision,
        "status": [before.status.name.lower(), after.status.name.lower()],
        "changes": [each._asdict() for each in found.changes],
        "is_whole": found.is_whole,
    }
    return views.reply(200, document)


@routes.post(
    "/jobs/{job_id}/rollback",
    summary="Bring an old version of a job back",
    openapi_extra=shapes.body("RollbackBody", if_match=True),
    responses=shapes.answers(Answers.CHANGE_ONE, {200: shapes.Job, 428: shapes.Problem}),
)
async def rollback_job(job_id: str, request: Request, services: Held, caller: Writer) -> Response:
    """Its definition becomes a new version; whether the job is paused stays as it is. If-Match is needed."""
    mine = own_job_id(caller, job_id)
    expected = expected_revision(request, needed=True)
    document = await read_object(request)
    wanting.check_known(document, ("to_revision", "note"))
    to_revision, note = wanting.revision(document, "to_revision"), wanting.text(document, "note", wanting.NOTE_MAX)

    async def act(repeat_key: RepeatKey) -> Response:
        target = await _version(services, mine, to_revision)
        if target.spec.timing.calendars:
            await services.call(note_uses, services.store, mine, target.spec, services.clock.now())
        order = Order(CommandKind.ROLLBACK, mine, expected, repeat_key=repeat_key, note=note, to_revision=to_revision)
        return await change(services, caller, request, order, brought_back=target.spec)

    return await once(services, caller, request, document, act)


async def _version(services: Services, job_id: str, revision: int) -> JobVersion:
    version = await services.call(services.store.version, job_id, revision)
    if version is None:
        raise _no_version(job_id)
    return version


async def _newest(services: Services, job_id: str, below: int | None = None) -> JobVersion:
    found = await services.call(services.store.history, job_id, 1, below)
    if not found:
        raise _no_version(job_id)
    return found[0]


def _below(cursor: str) -> int:
    """The revision behind which a page begins. Raises Problem (400)."""
    number = _revision_of(cursor)
    if number is None:
        raise unknown_cursor()
    return number


def _revision_of(text: str) -> int | None:
    """None: no version can have that number."""
    if not (text.isascii() and text.isdecimal() and len(text) <= len(str(_REVISION_MAX))):
        return None
    return int(text) if 0 < int(text) <= _REVISION_MAX else None


def _no_version(job_id: str) -> Problem:
    return Problem(
        "not-found",
        f"There is no such version of {job_id}",
        hint=f"GET /api/v1/jobs/{job_id}/versions lists those there are",
    )
