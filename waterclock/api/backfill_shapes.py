"""The shapes of backfills, for the OpenAPI document: see ``shapes.py``."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from waterclock.model.backfill import CONCURRENCY, CONCURRENCY_MAX

from . import wanting


class BackfillBody(BaseModel):
    """A past range of a job's fires: [`from`, `to`)."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"from": "2026-11-01T00:00:00Z", "to": "2026-11-08T00:00:00Z"}]}
    )
    from_: str = Field(alias="from", description="The first instant, RFC 3339")
    to: str = Field("", description="Up to there, not included; else now")
    revision: int = Field(0, ge=0, description="The version whose fires are meant; 0: the one that stands")
    tier: Literal["high", "medium", "low"] = "low"
    concurrency: int = Field(CONCURRENCY, ge=1, le=CONCURRENCY_MAX, description="How many of its runs may be open")
    note: str = Field("", max_length=wanting.NOTE_MAX)
    dry_run: bool = Field(False, description="Count, and run nothing")


class BackfillAsked(BaseModel):
    """What was asked for, and what it comes to as history shows it now."""

    backfill_id: str | None = Field(description="None of a dry run")
    job_id: str
    dry_run: bool
    fires: int = Field(description="Fires of the range")
    left_out: int = Field(description="Of these, those that have run")
    blocked: int = Field(description="Those that a calendar of the version blocks")
    would_run: int


class BackfillTurned(BaseModel):
    """A command about a backfill was obeyed."""

    backfill_id: str
    job_id: str
    changed: bool = Field(description="False: it stood so already")


class Backfill(BaseModel):
    """How a backfill stands. Told by its owner at every change, and every few seconds while it makes runs."""

    backfill_id: str
    job_id: str
    status: str = Field(description="WAITING, RUNNING, PAUSED, DONE or CANCELLED")
    reason: str | None = Field(description="Why it was cancelled")
    from_: str = Field(alias="from")
    to: str
    reached: str | None = Field(description="Fires up to here are decided")
    revision: int
    tier: str
    concurrency: int
    fires: int
    made: int = Field(description="Runs that it has made")
    left_out: int = Field(description="Fires that had run before")
    blocked: int
    remaining: int
    open: int = Field(description="Of its runs, those that have not ended")
    succeeded: int
    failed: int
    cancelled: int
    eta_s: int | None = Field(description="About how long until its last fire is decided")
    asked_at: str
    began_at: str | None
    told_at: str
    actor: str
    note: str | None


class BackfillPage(BaseModel):
    """One page of backfills."""

    backfills: list[Backfill]
    next_cursor: str | None


BODIES = (BackfillBody,)
