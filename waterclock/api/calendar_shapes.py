"""Shapes of calendars: what is sent, and what is answered."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from waterclock.store.calendar_port import CalendarName, CalendarRow

from . import views
from .part_shapes import CLOSED
from .shapes import Instant, headers

NAMED = 20
"""Refusals that are named."""


class DayRange(BaseModel):
    """Days in a row, both ends included."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)
    from_: str = Field(alias="from", examples=["2026-12-24"])
    to: str = Field(examples=["2026-12-31"])


class Period(BaseModel):
    """Instants from one up to another: a freeze. Whole seconds."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)
    from_: Instant = Field(alias="from")
    until: Instant


class CalendarSide(BaseModel):
    """Days of the schedule's zone (UTC for what is no cron), and instants."""

    model_config = CLOSED
    weekdays: list[str] = Field([], max_length=7, description="mon to sun", examples=[["sat", "sun"]])
    days: list[str | DayRange] = Field([], max_length=5000, examples=[["2026-12-25"]])
    periods: list[Period] = Field([], max_length=5000)


class CalendarDocument(BaseModel):
    """What a calendar blocks. Without `include` everything is allowed; `exclude` wins."""

    model_config = CLOSED
    description: str = Field("", max_length=500)
    include: CalendarSide | None = Field(None, description="Only this is allowed")
    exclude: CalendarSide | None = Field(None, description="This is not")


class ApplyBody(BaseModel):
    """Where to go on."""

    model_config = CLOSED
    cursor: str = Field("", description="`next_cursor` of the answer before")


class CalendarLine(BaseModel):
    """A calendar in a list."""

    name: str
    version: int
    put_at: Instant
    description: str


class CalendarPage(BaseModel):
    """One page of calendars."""

    calendars: list[CalendarLine]
    next_cursor: str | None


class CalendarVersion(BaseModel):
    """One version of a calendar. `version` is the instant at which it was put, in microseconds."""

    name: str
    version: int
    put_at: Instant
    actor: str
    deleted: bool


class CalendarVersions(BaseModel):
    """The versions of a calendar."""

    name: str
    versions: list[CalendarVersion]
    next_cursor: str | None


class Calendar(CalendarVersion):
    """A calendar as it was put."""

    calendar_id: str = Field(examples=["acme:holidays"])
    definition: CalendarDocument
    day_count: int = Field(description="Days that are listed, of both sides")
    period_count: int = Field(description="Periods, once those that touch are joined")
    compiled_size: int = Field(description="Characters that each version of a using job carries")


class NotBrought(BaseModel):
    """A job that keeps the version that it has, and why."""

    job_id: str
    detail: str


class Brought(BaseModel):
    """How far a version of a calendar has come to the jobs that use it."""

    using: int = Field(description="Jobs of the pages that were looked at that use it")
    behind: int = Field(description="Those of them that had an older version")
    applied: int
    unchanged: int
    refused: int
    refusals: list[NotBrought]
    unanswered: int = Field(description="They stand in the log, and will be decided")
    is_whole: bool = Field(description="All jobs were looked at")
    next_cursor: str | None = Field(description="POST .../apply goes on with it")


class CalendarPut(Calendar):
    """A version that was put, and what became of the jobs that use the calendar."""

    changed: bool = Field(description="false: it stood so already")
    occurrences: int | None = Field(description="Of an import: events, with their repeats")
    jobs: Brought


class CalendarUser(BaseModel):
    """A job that uses a calendar."""

    job_id: str
    version: int = Field(description="The calendar's version that holds for its fires")
    is_behind: bool


class CalendarJobs(BaseModel):
    """The jobs that use a calendar."""

    name: str
    version: int
    jobs: list[CalendarUser]
    next_cursor: str | None


class CalendarDeleted(BaseModel):
    """The calendar is gone; its versions can still be looked at."""

    deleted: Literal[True]
    name: str


BODIES: tuple[type[BaseModel], ...] = (CalendarDocument, ApplyBody)
"""Models of requests."""

ICS_BODY: dict[str, Any] = {
    **headers(if_match=True),
    "requestBody": {
        "required": True,
        "content": {"text/calendar": {"schema": {"type": "string", "maxLength": 262_144}}},
    },
}


def line_of(name: CalendarName) -> dict[str, Any]:
    """A calendar in a list."""
    put_at = views.instant(name.version)
    return {"name": name.name, "version": name.version, "put_at": put_at, "description": name.description}


def version_of(row: CalendarRow) -> dict[str, Any]:
    """A version without its content."""
    return {
        "name": row.name,
        "version": row.version,
        "put_at": views.instant(row.version),
        "actor": row.actor,
        "deleted": row.is_deleted,
    }
