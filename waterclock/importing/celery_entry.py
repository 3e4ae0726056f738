"""One entry of a Celery beat schedule, as plain values, made into a job.

The task's name becomes the handler's, its arguments the payload ``{"args": [...], "kwargs": {...}}``. Celery's crontab
wants *every* field to match, ours either day field: of those with both only whole weeks (``1-7``) can be said (``#1``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from waterclock.model.ids import US_PER_S
from waterclock.model.time_text import format_duration

from .gathering import Gathering
from .naming import name_of

_HANDLER_HINT = 'Register each task under its name, such as @app.handler("{task}"), and unpack ctx.json()'
_WORD = re.compile(r"[A-Za-z]+")
_WEEKDAYS = ("sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday")
_WEEKS = {f"{first}-{first + 6}": number for number, first in enumerate((1, 8, 15, 22), 1)}
_KNOWN = {"task", "schedule", "args", "kwargs", "options", "relative", "enabled", "name"}
_SECONDS_MAX = 1e9
CRONTAB_FIELDS = ("minute", "hour", "day_of_month", "month_of_year", "day_of_week")


class Fields(NamedTuple):
    """``crontab(...)``: what was given, by field; a field that was not is ``*``."""

    given: Mapping[str, object]


class Seconds(NamedTuple):
    """A number or a timedelta."""

    value: float


class Unreadable(NamedTuple):
    """Something that cannot become a schedule of ours, or a value that only running the file would tell."""

    why: str
    hint: str


Timing: TypeAlias = Fields | Seconds | Unreadable


class Entry(NamedTuple):
    """``parts``: everything under the entry's key but its schedule, as plain values or Unreadable."""

    line: int
    key: str
    timing: Timing
    parts: Mapping[str, object]


def take_entries(entries: Sequence[Entry], gathering: Gathering, zone: str) -> None:
    """A draft, or remarks, for each. ``zone``: of the crontabs."""
    newest = {entry.key: entry for entry in entries}
    for entry in entries:
        if newest[entry.key] is not entry:
            gathering.left_out(entry.line, entry.key, f"line {newest[entry.key].line} gives the same key again",
                               "Celery keeps the last one: remove this")  # fmt: skip
            continue
        found = _document(entry, zone)
        if isinstance(found, Unreadable):
            gathering.left_out(entry.line, entry.key, found.why, found.hint)
        elif gathering.job(entry.line, entry.key, name_of(entry.key), found):
            _tell(entry, found, gathering)


def about_the_tasks(gathering: Gathering) -> None:
    """What holds for all of them."""
    drafts = gathering.found().drafts
    if drafts:
        gathering.note(0, "handlers", "a job names its task as its handler, and workers of ours must know it",
                       _HANDLER_HINT.format(task=drafts[0].spec.handler))  # fmt: skip


def _document(entry: Entry, zone: str) -> dict[str, Any] | Unreadable:
    parts = entry.parts
    unreadable = [part for part in (entry.timing, *parts.values()) if isinstance(part, Unreadable)]
    if unreadable:
        return unreadable[0]
    if parts.get("enabled") is False:
        return Unreadable("it is switched off", "Import it when it is wanted")
    schedule = _schedule(entry.timing, zone)
    if isinstance(schedule, Unreadable):
        return schedule
    document = {"handler": parts.get("task"), **schedule, "retry": False}
    args, kwargs = parts.get("args") or (), parts.get("kwargs") or {}
    if not isinstance(args, list | tuple) or not isinstance(kwargs, Mapping):
        return Unreadable("args is no list, or kwargs no dict", "Correct them")
    if args or kwargs:
        document["payload"] = {"args": list(args), "kwargs": dict(kwargs)}
    options = parts.get("options")
    expires = options.get("expires") if isinstance(options, Mapping) else None
    if isinstance(expires, int | float) and _is_whole(expires):
        document["timeouts"] = {"queue": format_duration(int(expires) * US_PER_S)}
    return document


def _tell(entry: Entry, document: Mapping[str, Any], gathering: Gathering) -> None:
    """What the job does not carry."""
    if entry.parts.get("relative"):
        gathering.lost(entry.line, f"{entry.key}: relative", "an interval counts from when its job is defined",
                       'Give "start_at" for whole minutes or hours, or write it as cron')  # fmt: skip
    for key in sorted(entry.parts.keys() - _KNOWN, key=str):
        gathering.lost(entry.line, f"{entry.key}: {key}", "it has no counterpart", "See docs/importing.md")
    options = entry.parts.get("options") or {}
    if not isinstance(options, Mapping):
        gathering.lost(entry.line, f"{entry.key}: options", "they are no dict", "Correct them")
        return
    for key, value in options.items():
        what = f"{entry.key}: options.{key}"
        if key == "queue":
            gathering.lost(entry.line, what, f"queue {str(value)[:60]!r} is no pool", "Give --pool, one import a queue")
        elif key == "priority":
            gathering.lost(entry.line, what, "a priority is no tier", "Give --tier high, medium or low")
        elif key != "expires" or "timeouts" not in document:
            gathering.lost(entry.line, what, "it has no counterpart", "See docs/importing.md")


def _schedule(timing: Timing, zone: str) -> dict[str, Any] | Unreadable:
    match timing:
        case Unreadable():
            return timing
        case Seconds(value) if _is_whole(value):
            return {"every": format_duration(int(value) * US_PER_S)}
        case Seconds(value):
            return Unreadable(f"every {value:g} s is no whole number of seconds", "Intervals are whole seconds")
        case Fields(given):
            words = _words(given)
            if isinstance(words, Unreadable):
                return words
            return {"cron": " ".join(words[field] for field in CRONTAB_FIELDS), "zone": zone}


def _words(given: Mapping[str, object]) -> dict[str, str] | Unreadable:
    """The text of each field of a crontab."""
    words: dict[str, str] = dict.fromkeys(CRONTAB_FIELDS, "*")
    for field, value in given.items():
        if field not in CRONTAB_FIELDS:
            return Unreadable(f"crontab({field}=...) is not known", "Leave it out, if the schedule means the same so")
        text = _field_text(value)
        if text is None:
            return Unreadable(f"{field}={value!r} is neither text nor numbers", "Write it as text")
        words[field] = text.replace(" ", "")
    words["day_of_week"] = _WORD.sub(_weekday, words["day_of_week"])
    if "*" in (words["day_of_month"], words["day_of_week"]):
        return words
    weeks = [_WEEKS.get(part) for part in words["day_of_month"].split(",")]
    days = words["day_of_week"].split(",")
    if None in weeks or not all(day.isalnum() for day in days):
        return Unreadable(
            "Celery fires where day of month and day of week both match, Waterclock where either does",
            "Restrict one of them, and let the handler check the other",
        )
    return words | {"day_of_month": "*", "day_of_week": ",".join(f"{day}#{week}" for day in days for week in weeks)}


def _is_whole(seconds: float) -> bool:
    """Whether it is a whole number of seconds, from one to some decades; NaN and infinity are none."""
    return 1 <= seconds < _SECONDS_MAX and seconds == int(seconds)


def _field_text(value: object) -> str | None:
    if isinstance(value, str):
        return value
    numbers = [value] if isinstance(value, int) else value
    if not isinstance(numbers, list | tuple | set | frozenset) or not numbers:
        return None
    if not all(isinstance(number, int) and not isinstance(number, bool) for number in numbers):
        return None
    return ",".join(str(number) for number in sorted(set(numbers)))


def _weekday(match: re.Match[str]) -> str:
    """``monday`` as ``mon``. What is none stays, and is refused with a hint."""
    word = match[0].lower()
    return word[:3] if word in _WEEKDAYS else word
