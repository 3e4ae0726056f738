"""The shapes of previews, for the OpenAPI document. Rows grow by marks: whoever reads them lets unknown ones pass."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from .shapes import Instant

LocalTime = str
"""``2026-03-29T02:30:00``: a local time without an offset, because it may not exist."""


class PreviewMark(BaseModel):
    """What a clock change or a calendar does to a fire. More kinds may come."""

    model_config = ConfigDict(extra="allow")
    mark: str = Field(
        description="`moved`: it stands for nominal times that do not exist; `skipped`: before it lie such times, and "
        "they are no fires; `first_of_two`, `second_of_two`: its local time comes twice; `calendar_skipped`: before it "
        "lie fires that calendars block; `calendar_moved`: they moved fires to it",
        examples=["moved", "skipped", "first_of_two", "second_of_two", "calendar_skipped", "calendar_moved"],
    )
    nominal_from: LocalTime = Field(description="The first of the nominal times, without an offset")
    nominal_to: LocalTime = Field(description="The last of them")
    times: int = Field(description="How many there are")
    calendars: list[str] = Field([], description="Of the two last kinds: the calendars that block them")


class PreviewFire(BaseModel):
    """One fire."""

    model_config = ConfigDict(extra="allow")
    utc: Instant = Field(description="The fire time")
    due_time: Instant | None = Field(
        description="When it is to be decided: `utc` plus jitter; null where the jitter is drawn from a name that is "
        "not given"
    )
    local: str = Field(description="RFC 3339 in the schedule's zone", examples=["2026-03-29T03:00:00+02:00"])
    offset_changed: bool = Field(description="The clock was changed since the row before")
    marks: list[PreviewMark]
    remark: str | None = Field(description="The marks and the due time in words")


class Previewed(BaseModel):
    """What a schedule means."""

    model_config = ConfigDict(extra="allow")
    zone: str
    read_as: str | None = Field(description="The cron text with macros and `H` resolved; null for other kinds")
    words: str = Field(description="In English; never to be shown without the fires")
    warnings: list[str]
    tzdata: str = Field(description="The version of the zone data", examples=["2026f"])
    next_fires: list[PreviewFire]


class CronPreview(Previewed):
    """What an expression means."""

    expression: str


class JobPreview(Previewed):
    """When a job would fire. ``schedule``: its schedule as it would be saved."""

    schedule: dict[str, Any]


JOB_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/JobDefinition"}}},
    }
}
"""A job document. Nothing is changed by it, so it takes no Idempotency-Key."""
