"""Dead letters as the JSON that clients see, and the shapes of it for the OpenAPI document."""

from __future__ import annotations

import base64
from typing import Any

import orjson
from pydantic import BaseModel, ConfigDict, Field

from waterclock.dead_letters.acting import work_of
from waterclock.dead_letters.choosing import Group, Letter
from waterclock.model.errors import RequestError
from waterclock.model.events import DeadLetter, WorkRecord

from . import wanting
from .shapes import Instant
from .views import instant


class LetterGroup(BaseModel):
    """Letters of one cause."""

    error_class: str
    fingerprint: str
    error: str = Field(description="Of the newest")
    letters: int
    jobs: int
    first_at: Instant | None
    last_at: Instant | None
    sample: str = Field(description="Run id of the newest")


class DeadLetter_(BaseModel):  # noqa: N801 - "DeadLetter" is the domain's own
    """A run that was given up."""

    model_config = ConfigDict(title="DeadLetter")
    run_id: str
    job_id: str
    state: str = Field(description="open, redriven or discarded")
    reason: str
    error_class: str
    error: str
    fingerprint: str
    attempts: int
    ended_at: Instant | None
    redriven_as: str | None = Field(description="The run that the last redrive made")
    done_at: Instant | None
    done_by: str | None = Field(description="Who discarded it")


class LetterInFull(DeadLetter_):
    """The same, with what it was to do."""

    redrives: int = Field(description="How often its work was redriven before")
    first_failure_at: Instant | None
    last_failure_at: Instant | None
    work: dict[str, Any] | None = Field(description="Handler or executor, tier, pool, payload; null: no longer there")
    source: dict[str, Any] | None = Field(description="Topic, partition and offset of the work record")


class LetterPage(BaseModel):
    """One page of letters, or their groups."""

    letters: list[DeadLetter_]
    groups: list[LetterGroup]
    is_whole: bool = Field(description="Nothing was left out")
    next_cursor: str | None = Field(description="Where to go on, also behind a page without letters")


class Done(BaseModel):
    """One letter that was acted on. `answered` false: it stands in the log and will be obeyed."""

    run_id: str
    redriven_as: str | None
    answered: bool


class RefusedLetter(BaseModel):
    """One that was not, and why."""

    run_id: str
    why: str


class Redriven(BaseModel):
    """What was done."""

    dry_run: bool
    matched: int
    groups: list[LetterGroup]
    done: list[Done]
    refused: list[RefusedLetter]
    left: int = Field(description="Not reached in time: go on with `next_cursor`")
    is_whole: bool = Field(description="Nothing was left out by a bound; else go on with `next_cursor`")
    next_cursor: str | None = Field(description="The same body with it as `cursor` goes on behind what was done")


class DiscardBody(BaseModel):
    """Which letters, by filter or by name: at least one of the first four, or `run_ids`."""

    model_config = ConfigDict(extra="forbid")
    job: str = ""
    error_class: str = ""
    fingerprint: str = ""
    since: str = Field("", description="RFC 3339, or so long ago", examples=["36h"])
    state: str = Field("open", description="open, redriven, discarded or all")
    run_ids: list[str] = Field([], max_length=wanting.RUN_IDS_MAX)
    dry_run: bool = Field(False, description="Count, and change nothing")
    cap: int = Field(wanting.CAP, ge=1, le=wanting.CAP_MAX)
    rate_per_s: float = Field(wanting.RATE_PER_S, ge=0.1, le=wanting.RATE_MAX)
    note: str = Field("", max_length=wanting.NOTE_MAX)
    cursor: str = Field("", description="`next_cursor` of the answer before")


class RedriveBody(DiscardBody):
    """The same, and what to run in place of the payload."""

    payload: Any = None
    payload_base64: str | None = None
    force: bool = Field(False, description="Also what was redriven within a day, or often before")


def letter_view(letter: Letter) -> dict[str, Any]:
    """A letter, as the lists show it."""
    failure, done = letter.failure, letter.done
    return {
        "run_id": letter.run_id,
        "job_id": failure.job_id,
        "state": letter.state.value,
        "reason": failure.reason,
        "error_class": failure.error_class or failure.reason,
        "error": failure.error,
        "fingerprint": failure.fingerprint,
        "attempts": failure.attempts,
        "ended_at": instant(failure.ended_at),
        "redriven_as": (done.linked_run or None) if done else None,
        "done_at": instant(done.at) if done else None,
        "done_by": (done.actor or None) if done else None,
    }


def full_view(letter: Letter, whole: DeadLetter | None, redrives: int) -> dict[str, Any]:
    """A letter with what it was to do."""
    source = whole.work if whole is not None else None
    return letter_view(letter) | {
        "redrives": redrives,
        "first_failure_at": instant(whole.first_failure_at) if whole else None,
        "last_failure_at": instant(whole.last_failure_at) if whole else None,
        "work": _work_view(whole) if whole is not None else None,
        "source": {"topic": source.topic, "partition": source.partition, "offset": source.offset} if source else None,
    }


def group_view(group: Group) -> dict[str, Any]:
    """Letters of one cause."""
    return {
        "error_class": group.error_class,
        "fingerprint": group.fingerprint,
        "error": group.error,
        "letters": group.letter_count,
        "jobs": group.job_count,
        "first_at": instant(group.first_at),
        "last_at": instant(group.last_at),
        "sample": group.sample,
    }


def _work_view(whole: DeadLetter) -> dict[str, Any] | None:
    try:
        work = work_of(whole)
    except RequestError:
        return None
    return {
        "handler": work.handler or None,
        "executor": orjson.loads(work.executor) if work.executor else None,
        "tier": work.tier.word,
        "pool": work.pool,
        "revision": work.revision,
        **_payload_view(work),
    }


def _payload_view(work: WorkRecord) -> dict[str, Any]:
    try:
        return {"payload": orjson.loads(work.payload) if work.payload else None}
    except orjson.JSONDecodeError:
        return {"payload_base64": base64.b64encode(work.payload).decode()}
