"""The product's previews of jobs with calendars in the form of the golden page, and where they differ from it."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

from tests.oracle import brute_calendars
from tests.oracle.brute_calendars import CALENDARS, JOBS, Asked
from waterclock.model.calendar_document import compile_calendar
from waterclock.model.document import spec_from_document
from waterclock.model.preview import preview_job
from waterclock.model.preview_document import preview_document
from waterclock.model.time_text import parse_rfc3339
from waterclock.model.timing import CalendarUse


def differences(preview_of: Callable[[Asked], dict[str, Any]]) -> list[str]:
    """Lines of the page that ``preview_of`` (a preview as the API answers it) shows otherwise."""
    golden = brute_calendars.PAGE.read_text(encoding="utf-8")
    parts = [[*brute_calendars.heading(number, asked), *_lines(asked, preview_of(asked)), ""]
             for number, asked in enumerate(JOBS, 1)]  # fmt: skip
    shown = "\n".join([brute_calendars.HEAD, *(line for part in parts for line in part)])
    return list(difflib.unified_diff(golden.splitlines(), shown.splitlines(), "brute force", "the product", n=1))


def document_of(asked: Asked) -> dict[str, Any]:
    """The job, as it would be saved."""
    document: dict[str, Any] = {"handler": "h", "cron": asked.text, "zone": asked.zone, "calendars": list(asked.names)}
    if asked.moves:
        document["on_calendar"] = "next_allowed"
    if asked.window_s:
        document["jitter"] = {"window": f"{asked.window_s}s", "per_fire": asked.per_fire}
    return document


def after_of(asked: Asked) -> str:
    """The instant after which fires are asked for."""
    return asked.after.replace("Z", ":00Z")


def preview_of(asked: Asked) -> dict[str, Any]:
    """By the model, without a door."""
    job_id = f"acme:{asked.name}"
    uses = {name: CalendarUse(name, 1, compile_calendar(CALENDARS[name]).as_text()) for name in asked.names}
    spec = spec_from_document(document_of(asked), job_id=job_id, calendars=uses)
    return preview_document(preview_job(spec, 0, parse_rfc3339(after_of(asked)), brute_calendars.FIRES, job_id=job_id))


def _lines(asked: Asked, preview: dict[str, Any]) -> Iterator[str]:
    end = datetime.fromisoformat(after_of(asked)) + timedelta(days=brute_calendars.DAYS)
    for fire in preview["next_fires"]:
        if datetime.fromisoformat(fire["utc"]) > end:
            return
        marks = [mark for mark in fire["marks"] if mark["mark"].startswith("calendar_")]
        for mark in marks:
            if mark["mark"] == "calendar_skipped":
                yield f"{_span(mark)}  skipped by {_names(mark)}"
        local, utc = datetime.fromisoformat(fire["local"]), datetime.fromisoformat(fire["utc"])
        parts = [f"{local:%a %Y-%m-%d %H:%M}", f"{utc:%Y-%m-%dT%H:%MZ}"]
        if fire["due_time"] != fire["utc"]:
            parts.append(f"due {datetime.fromisoformat(fire['due_time']):%H:%M:%S.%f}")
        parts += [f"moved from {_span(mark)} by {_names(mark)}" for mark in marks if mark["mark"] == "calendar_moved"]
        yield "  ".join(parts)


def _span(mark: dict[str, Any]) -> str:
    first, last = (f"{datetime.fromisoformat(mark[key]):%a %Y-%m-%d %H:%M}" for key in ("nominal_from", "nominal_to"))
    return first if mark["times"] == 1 else f"{first}..{last} ({mark['times']})"


def _names(mark: dict[str, Any]) -> str:
    return ", ".join(name.rpartition(":")[2] for name in mark["calendars"])
