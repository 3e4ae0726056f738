"""The route that changes many jobs by one request: pause, resume, delete or trigger all that a filter means.

By default it only counts. What it does it does within 8 s, paced, and says how far it came; `next_cursor` goes on
behind the last job that was reached, so going on triggers nothing twice. What must hold: a tenant changes its own jobs
alone; a job that somebody changed since it was looked at is refused, and told.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from waterclock.model.errors import RequestError
from waterclock.model.events import Answered, CommandVerdict
from waterclock.model.job import Command, CommandKind, JobStatus, Tier
from waterclock.store.job_filter import (
    COUNTED_MAX,
    LOOKED_THROUGH_MAX,
    STANDING,
    FoundJobs,
    JobFilter,
    jobs_meant,
    place_of,
)
from waterclock.store.port import JobRow

from . import shapes, views, wanting
from .access import Held, Writer
from .bodies import read_object
from .cursors import read_cursor, write_cursor
from .orders import is_refused
from .pacing import send_paced
from .repeats import RepeatKey, once
from .services import Services
from .shapes import Answers

SAMPLE = 20
"""So many jobs, and so many refusals, are named."""

ACTIONS = {
    "pause": (CommandKind.PAUSE, frozenset({JobStatus.ACTIVE})),
    "resume": (CommandKind.RESUME, frozenset({JobStatus.PAUSED})),
    "delete": (CommandKind.DELETE, STANDING),
    "trigger": (CommandKind.TRIGGER, STANDING),
}
"""What can be done, and to jobs of which statuses if the request does not say."""

_KEYS = (
    "action",
    "prefix",
    "tier",
    "handler",
    "status",
    "dry_run",
    "cap",
    "rate_per_s",
    "note",
    "resume_at",
    "cursor",
)
_STATUSES = {status.name.lower(): status for status in STANDING}
_TIERS = {tier.word: tier for tier in Tier}

routes = APIRouter(tags=["jobs"])


class BulkBody(BaseModel):
    """What to do with which jobs. At least one of `prefix`, `tier`, `handler` and `status`."""

    model_config = ConfigDict(extra="forbid")
    action: Literal["pause", "resume", "delete", "trigger"]
    prefix: str = Field("", description="Names that begin so")
    tier: list[str] = Field([], description="high, medium, low")
    handler: str = Field("", description="The handler's name, or where the executor goes, as lists show it")
    status: list[str] = Field([], description="active, paused, ended; without: those that the action changes")
    dry_run: bool = Field(True, description="Count them, and change nothing. false: do it")
    cap: int = Field(wanting.CAP, ge=1, le=wanting.CAP_MAX)
    rate_per_s: float = Field(wanting.RATE_PER_S, ge=0.1, le=wanting.RATE_MAX)
    note: str = Field("", max_length=wanting.NOTE_MAX)
    resume_at: shapes.Instant | None = Field(None, description="With pause: they resume by themselves")
    cursor: str = Field("", description="`next_cursor` of the answer before")


class Refusal(BaseModel):
    """A job that was not changed, and why."""

    job_id: str
    detail: str


class Bulk(BaseModel):
    """What a bulk change did, or would do."""

    action: str
    dry_run: bool
    matched: int = Field(description="Jobs that the filter means, at most `cap`")
    by_status: dict[str, int]
    sample: list[str] = Field(description="The first of them")
    applied: int
    unchanged: int = Field(description="They were so already, or the same request had done it")
    refused: int
    refusals: list[Refusal] = Field(description="The first of them")
    unanswered: int = Field(description="They stand in the log, and will be decided")
    left: int = Field(description="Matched and not reached in time: go on with `next_cursor`")
    is_whole: bool = Field(description="Nothing was left out by a bound; else go on with `next_cursor`")
    next_cursor: str | None = Field(description="The same body with it as `cursor` goes on behind what was reached")


@routes.post(
    "/jobs/bulk",
    summary="Pause, resume, delete or trigger jobs by filter",
    openapi_extra=shapes.body("BulkBody"),
    responses=shapes.answers(Answers.BULK, {200: Bulk}),
)
async def change_many(request: Request, services: Held, caller: Writer) -> Response:
    """By default it only says how many jobs are meant, and names some."""
    document = await read_object(request)
    wanting.check_known(document, _KEYS)
    kind, wanted = _wanted(document)
    cap, rate_per_s = wanting.cap(document), wanting.rate_per_s(document)
    note, resume_at = wanting.text(document, "note", wanting.NOTE_MAX), wanting.instant(document, "resume_at")
    if resume_at and kind is not CommandKind.PAUSE:
        raise RequestError("resume_at goes with pause alone", pointer="/resume_at", hint="Leave it out")
    dry_run = wanting.flag(document, "dry_run", default=True)
    cursor = wanting.text(document, "cursor")
    after = read_cursor(cursor) if cursor else None

    async def act(repeat_key: RepeatKey) -> Response:
        bound = COUNTED_MAX if dry_run else LOOKED_THROUGH_MAX
        found = await services.call(jobs_meant, services.store, caller.tenant, wanted, cap, after, bound)
        told = _told(document["action"], found, dry_run=dry_run)
        if not dry_run:
            asked = Command(kind, "", "", caller.actor, 0, note=note, answer=True, resume_at=resume_at)
            asked = asked._replace(idempotency_key=repeat_key.text, request_hash=repeat_key.request_hash)
            commands = [_command(services, asked, row) for row in found.rows]
            answers = (await send_paced(services, commands, rate_per_s)).answers
            told |= _came_to(found.rows, answers)
            if told["left"]:
                reached = write_cursor(*place_of(found.rows[len(answers) - 1])) if answers else cursor or None
                told |= {"is_whole": False, "next_cursor": reached}
        return views.reply(200, told)

    return await once(services, caller, request, document, act)


def _wanted(document: Mapping[str, Any]) -> tuple[CommandKind, JobFilter]:
    """What to do with which jobs. Raises RequestError."""
    word = document.get("action")
    if not isinstance(word, str) or word not in ACTIONS:
        raise RequestError("Say what to do", pointer="/action", hint=f"One of {', '.join(ACTIONS)}")
    kind, usual = ACTIONS[word]
    prefix, handler = wanting.text(document, "prefix"), wanting.text(document, "handler")
    tiers = frozenset(wanting.words(document, "tier", _TIERS))
    statuses = frozenset(wanting.words(document, "status", _STATUSES))
    if not (prefix or handler or tiers or statuses):
        raise RequestError(
            "Say which jobs", pointer="", hint="Give prefix, tier, handler or status; by default it only counts"
        )
    return kind, JobFilter(prefix, tiers, handler, statuses or usual)


def _told(action: str, found: FoundJobs, *, dry_run: bool) -> dict[str, Any]:
    return {
        "action": action,
        "dry_run": dry_run,
        "matched": len(found.rows),
        "by_status": dict(Counter(row.status.name.lower() for row in found.rows)),
        "sample": [row.job_id for row in found.rows[:SAMPLE]],
        **dict.fromkeys(("applied", "unchanged", "refused", "unanswered", "left"), 0),
        "refusals": [],
        "is_whole": found.next_at is None,
        "next_cursor": write_cursor(*found.next_at) if found.next_at else None,
    }


def _command(services: Services, asked: Command, row: JobRow) -> Command:
    """Of this job as it was looked at; a trigger asks for no revision, for it changes nothing."""
    return asked._replace(
        job_id=row.job_id,
        command_id=services.next_command_id(),
        at=services.clock.now(),
        expected_revision=0 if asked.kind is CommandKind.TRIGGER else row.revision,
    )


def _came_to(rows: Sequence[JobRow], answers: Sequence[Answered | None]) -> dict[str, Any]:
    """What became of those that were reached."""
    refused = [(row, answer) for row, answer in zip(rows, answers, strict=False) if answer and is_refused(answer)]
    words = Counter("" if answer is None else answer.verdict for answer in answers)
    return {
        "applied": words[CommandVerdict.APPLIED],
        "unchanged": words[CommandVerdict.UNCHANGED] + words[CommandVerdict.REPEATED],
        "refused": len(refused),
        "refusals": [{"job_id": row.job_id, "detail": answer.message} for row, answer in refused[:SAMPLE]],
        "unanswered": words[""],
        "left": len(rows) - len(answers),
    }
