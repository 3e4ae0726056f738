"""A calendar as people write it, and from there to the compiled form.

``{"description": "...", "exclude": {"weekdays": ["sat", "sun"], "days": ["2026-12-25", {"from": "2026-12-28", "to":
"2026-12-31"}], "periods": [{"from": "2026-11-27T18:00:00Z", "until": "2026-11-30T06:00:00Z"}]}, "include": {...}}``.
Days are whole local days of the schedule's zone, both ends included; periods are instants, half-open, whole seconds.

What must hold: a document that was checked compiles, and to the same text every time. How it fails: RequestError with
the pointer of the field and what to write instead.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from datetime import date
from typing import Any, NoReturn

from .calendar import RANGES_MAX, SPAN_DAYS_MAX, Calendar, Range, Side, side_of
from .errors import RequestError
from .ids import NAME_MAX, US_PER_S
from .schedule import AT_MAX
from .time_text import parse_rfc3339
from .timing import CalendarUse

WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
DESCRIPTION_MAX = 500
ITEMS_MAX = 5_000
"""Entries of one list of a document, and occurrences of one import."""

CALENDARS_MAX = 8
"""Of one job."""

COMPILED_MAX = 65_536
"""Characters of a job's compiled calendars together: they stand in each of its versions and due rows."""

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*\Z")
_KEYS = ("description", "include", "exclude")
_SIDE_KEYS = ("weekdays", "days", "periods")
_DAY_KEYS = ("from", "to")
_PERIOD_KEYS = ("from", "until")
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_DAY_HINT = 'A date such as "2026-12-25", or {"from": "2026-12-24", "to": "2026-12-31"}'
_PERIOD_HINT = '{"from": "2026-11-27T18:00:00Z", "until": "2026-11-30T06:00:00Z"}'


def check_calendar_name(name: object, pointer: str = "/name") -> str:
    """The name, if a calendar may be called so. Raises RequestError."""
    if not isinstance(name, str) or len(name) > NAME_MAX or not _NAME.match(name):
        hint = f"Use 1 to {NAME_MAX} of a-z, 0-9, '.', '_' and '-', beginning with a letter or digit"
        _refuse(pointer, f"{_shown(name)} is not the name of a calendar", hint)
    return name


def compile_calendar(document: object) -> Calendar:
    """The compiled calendar of a document. Raises RequestError at its first fault."""
    given = _object(document, "", _KEYS, 'Such as {"exclude": {"days": ["2026-12-25"]}}')
    description = given.get("description", "")
    if not isinstance(description, str) or len(description) > DESCRIPTION_MAX:
        _refuse("/description", "This is no short text", f"At most {DESCRIPTION_MAX} characters")
    found = Calendar(_side(given.get("include"), "/include"), _side(given.get("exclude"), "/exclude"))
    if found == Calendar():
        _refuse("", "The calendar says nothing", 'Give "exclude" or "include", with weekdays, days or periods')
    if "include" in given and found.include.is_empty:
        _refuse("/include", "An include side without a day would allow nothing", "Leave it out")
    if len(found.as_text()) > COMPILED_MAX:
        _refuse("", "The calendar is too large", f"Compiled it may have {COMPILED_MAX} characters: give fewer periods")
    return found


def names_in(document: Mapping[str, object]) -> list[str]:
    """The calendars that a job document names, none without. Raises RequestError."""
    value = document.get("calendars", [])
    if not isinstance(value, list | tuple) or len(value) > CALENDARS_MAX:
        hint = f'At most {CALENDARS_MAX} names, such as ["holidays"]'
        _refuse("/calendars", f"{_shown(value)} is no short list of calendars", hint)
    names = [check_calendar_name(name, f"/calendars/{place}") for place, name in enumerate(value)]
    for place, name in enumerate(names):
        if name in names[:place]:
            _refuse(f"/calendars/{place}", f"{name!r} is named twice", "Name each once")
    return names


def uses_named(document: Mapping[str, object], known: Mapping[str, CalendarUse] | None) -> tuple[CalendarUse, ...]:
    """The calendars that a job document names, as they stand. ``known`` None: this door looks none up.

    Raises RequestError.
    """
    names = names_in(document)
    if names and known is None:
        _refuse("/calendars", "Calendars are not looked up here", "Save a job with calendars through the API or "
                "`waterclock job create`")  # fmt: skip
    found: list[CalendarUse] = []
    for place, name in enumerate(names):
        use = (known or {}).get(name)
        if use is None:
            hint = "`waterclock calendar list` shows those there are; `waterclock calendar put` makes one"
            _refuse(f"/calendars/{place}", f"There is no calendar {name!r}", hint)
        found.append(use)
    if sum(len(use.compiled) for use in found) > COMPILED_MAX:
        hint = f"Compiled they may have {COMPILED_MAX} characters: use fewer or smaller ones"
        _refuse("/calendars", "The job's calendars are too large together", hint)
    return tuple(found)


def _side(value: object, pointer: str) -> Side:
    if value is None:
        return Side()
    given = _object(value, pointer, _SIDE_KEYS, 'Such as {"weekdays": ["sat", "sun"], "days": ["2026-12-25"]}')
    weekdays = [_weekday(word, f"{pointer}/weekdays/{at}") for at, word in _items(given, "weekdays", pointer, 7)]
    days: list[int] = []
    for at, item in _items(given, "days", pointer, ITEMS_MAX):
        days += _days(item, f"{pointer}/days/{at}")
    periods = [_period(item, f"{pointer}/periods/{at}") for at, item in _items(given, "periods", pointer, ITEMS_MAX)]
    try:
        return side_of(weekdays, days, periods)
    except ValueError as error:
        hint = f"At most {SPAN_DAYS_MAX} days from the first to the last, and {RANGES_MAX} periods"
        _refuse(pointer, f"It is too large: {error}", hint)


def _items(given: Mapping[str, object], key: str, pointer: str, most: int) -> Iterable[tuple[int, object]]:
    value = given.get(key, [])
    if not isinstance(value, list | tuple) or len(value) > most:
        _refuse(f"{pointer}/{key}", f"{_shown(value)} is no list of at most {most}", "Give a list")
    return enumerate(value)


def _weekday(word: object, pointer: str) -> int:
    if not isinstance(word, str) or word.lower() not in WEEKDAYS:
        _refuse(pointer, f"{_shown(word)} is no day of the week", f"One of {', '.join(WEEKDAYS)}")
    return WEEKDAYS.index(word.lower())


def _days(item: object, pointer: str) -> Iterable[int]:
    if isinstance(item, Mapping):
        given = _object(item, pointer, _DAY_KEYS, _DAY_HINT)
        first, last = (_day(given.get(key), f"{pointer}/{key}") for key in _DAY_KEYS)
        if last < first:
            _refuse(f"{pointer}/to", "It comes before the first day", _DAY_HINT)
        if last - first >= SPAN_DAYS_MAX:
            _refuse(pointer, f"{last - first + 1} days are too many", f"At most {SPAN_DAYS_MAX}")
        return range(first, last + 1)
    return (_day(item, pointer),)


def _day(item: object, pointer: str) -> int:
    try:
        if not isinstance(item, str) or not re.fullmatch(r"\d{4}-\d\d-\d\d", item, re.ASCII):
            raise ValueError(item)
        day = date.fromisoformat(item).toordinal() - _EPOCH_DAY
    except ValueError:
        _refuse(pointer, f"{_shown(item)} is not a day", _DAY_HINT)
    if not 0 <= day < AT_MAX // (86_400 * US_PER_S):
        _refuse(pointer, "The day is out of range", "From 1970 to 2199")
    return day


def _period(item: object, pointer: str) -> Range:
    given = _object(item, pointer, _PERIOD_KEYS, _PERIOD_HINT)
    ends: list[int] = []
    for key in _PERIOD_KEYS:
        if key not in given:
            _refuse(f"{pointer}/{key}", f'A period needs "{key}"', _PERIOD_HINT)
        at = parse_rfc3339(given[key], f"{pointer}/{key}")
        if not 0 <= at < AT_MAX or at % US_PER_S:
            _refuse(f"{pointer}/{key}", "The instant is out of range", "Whole seconds, from 1970 to 2199")
        ends.append(at // US_PER_S)
    if ends[0] >= ends[1]:
        _refuse(f"{pointer}/until", "It does not come after the beginning", _PERIOD_HINT)
    return ends[0], ends[1]


def _object(value: object, pointer: str, keys: tuple[str, ...], hint: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        _refuse(pointer, f"{_shown(value)} is not an object", hint)
    for key in value:
        if key not in keys:
            near = difflib.get_close_matches(str(key)[:40], keys, n=1, cutoff=0.5)
            place = str(key)[:80].replace("~", "~0").replace("/", "~1")
            known = f"Did you mean {near[0]}?" if near else f"Known: {' '.join(keys)}"
            _refuse(f"{pointer}/{place}", f"{_shown(key)} is not known", known)
    return value


def _refuse(pointer: str, message: str, hint: str) -> NoReturn:
    raise RequestError(message, pointer=pointer, hint=hint)


def _shown(value: object) -> str:
    """A foreign value inside a message: short."""
    return repr(value)[:80]
