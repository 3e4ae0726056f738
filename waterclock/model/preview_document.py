"""A preview as JSON values, and as lines for a person: the same for the API and the command line."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from .preview import Mark, MarkKind, Preview, Row
from .preview_calendar import CalendarMark, CalendarMarkKind
from .time_text import format_rfc3339
from .zones import TZDATA_VERSION


def preview_document(preview: Preview) -> dict[str, Any]:
    """``read_as`` is null for what is no cron schedule."""
    return {
        "zone": preview.zone,
        "read_as": preview.read_as or None,
        "words": preview.words,
        "warnings": list(preview.warnings),
        "tzdata": TZDATA_VERSION,
        "next_fires": [row_document(row) for row in preview.rows],
    }


def row_document(row: Row) -> dict[str, Any]:
    """One fire. ``local`` carries its offset, nominal times carry none: they may not exist."""
    return {
        "utc": format_rfc3339(row.fire_time),
        "due_time": None if row.due_at is None else format_rfc3339(row.due_at),
        "local": row.local.isoformat(),
        "offset_changed": row.offset_changed,
        "marks": [*map(_mark_document, row.marks), *map(_calendar_document, row.calendar_marks)],
        "remark": remark(row),
    }


def remark(row: Row) -> str | None:
    """What a person should know about this fire, or None."""
    said = [*map(_says, row.marks), *map(_calendar_says, row.calendar_marks)]
    if row.offset_changed:
        said.append(f"after the clock change to UTC{_offset(row.local)}")
    if row.due_at is not None and row.due_at != row.fire_time:
        said.append(f"by jitter due {format_rfc3339(row.due_at)}")
    return "; ".join(said) or None


def shown_rows(preview: Preview) -> list[dict[str, str | None]]:
    """Lines of a table: local, utc, remark. Nominal times that are no fires have a line of their own, without utc."""
    lines: list[dict[str, str | None]] = []
    for row in preview.rows:
        lines += [
            {"local": f"{mark.nominal_from:%a %Y-%m-%d %H:%M:%S}", "utc": None, "remark": _says(mark)}
            for mark in row.marks
            if mark.kind is MarkKind.SKIPPED
        ]
        lines += [
            {"local": f"{mark.nominal_from:%a %Y-%m-%d %H:%M:%S}", "utc": None, "remark": _calendar_says(mark)}
            for mark in row.calendar_marks
            if mark.kind is CalendarMarkKind.SKIPPED
        ]
        kept = row._replace(
            marks=tuple(mark for mark in row.marks if mark.kind is not MarkKind.SKIPPED),
            calendar_marks=tuple(mark for mark in row.calendar_marks if mark.kind is CalendarMarkKind.MOVED),
        )
        local = f"{row.local:%a %Y-%m-%d %H:%M:%S} {_offset(row.local)}"
        lines.append({"local": local, "utc": format_rfc3339(row.fire_time), "remark": remark(kept)})
    return lines


def _mark_document(mark: Mark) -> dict[str, Any]:
    return {
        "mark": mark.kind.value,
        "nominal_from": mark.nominal_from.isoformat(),
        "nominal_to": mark.nominal_to.isoformat(),
        "times": mark.times,
    }


def _calendar_document(mark: CalendarMark) -> dict[str, Any]:
    return {
        "mark": mark.kind.value,
        "nominal_from": mark.nominal_from.isoformat(),
        "nominal_to": mark.nominal_to.isoformat(),
        "times": mark.times,
        "calendars": list(mark.calendars),
    }


def _calendar_says(mark: CalendarMark) -> str:
    """``calendar: skipped (acme:holidays, 2026-12-25 09:00)``."""
    names = ", ".join(mark.calendars) or "several calendars"
    span = _moment(mark.nominal_from)
    if mark.times > 1:
        span = f"{mark.times} times from {span} to {_moment(mark.nominal_to)}"
    if mark.kind is CalendarMarkKind.SKIPPED:
        return f"calendar: skipped ({names}, {span})"
    return f"calendar: moved from {span} ({names})"


def _moment(at: datetime) -> str:
    return f"{at:%Y-%m-%d} {_time(at)}"


def _says(mark: Mark) -> str:
    match mark.kind:
        case MarkKind.MOVED:
            return f"moved: stands for {_nominal(mark)}, not on the clock that day"
        case MarkKind.SKIPPED:
            return f"skipped: no fire for {_nominal(mark)}, not on the clock that day"
        case MarkKind.FIRST_OF_TWO:
            other = "the second is no fire" if mark.alone else "both fire"
            return f"the first of two {_time(mark.nominal_from)}, {other}"
        case MarkKind.SECOND_OF_TWO:
            return f"the second of two {_time(mark.nominal_from)}"


def _nominal(mark: Mark) -> str:
    first = _time(mark.nominal_from)
    if mark.times == 1:
        return first
    return f"{mark.times} times from {first} to {_time(mark.nominal_to)}"


def _time(at: datetime) -> str:
    return f"{at:%H:%M:%S}" if at.second else f"{at:%H:%M}"


def _offset(local: datetime) -> str:
    """``+01:00``."""
    minutes = (local.utcoffset() or timedelta()) // timedelta(minutes=1)
    return f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"
