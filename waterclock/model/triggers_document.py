"""What starts a job, in a job document: ``"on": {"any": [{"job": "load-orders", "ended": "succeeded"}]}``, or ``all``
of several ``within`` a duration.

What must hold: ``triggers_from_document({"on": triggers_to_document(t)}) == t`` for all that came through here. How it
fails: RequestError with the pointer of the part and what to write instead.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NoReturn

from .errors import RequestError
from .ids import split_job_id
from .job import NEVER, Schedule
from .schedule import check_schedule
from .time_text import format_duration, parse_duration
from .triggers import (
    CONDITIONS_MAX,
    HEADER_MAX,
    HEADERS_LENGTH_MAX,
    HEADERS_MAX,
    WITHIN_US_MAX,
    WITHIN_US_MIN,
    Condition,
    Ended,
    RecordComes,
    RunEnds,
    Triggers,
    name_of,
)

KEY = "on"
_ENDED = {word.value: word for word in Ended}
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,127}\Z")
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}\Z")
_RECORDS = 'Such as {"topic": "shop.orders", "headers": {"type": "order-placed"}}'
_EXAMPLE = 'Such as {"any": [{"job": "load-orders", "ended": "succeeded"}]}'


def triggers_from_document(document: Mapping[str, object], job_id: str = "") -> Triggers | None:
    """What ``on`` says, None without one. ``job_id``: whose, where that is known yet. Raises RequestError."""
    if KEY not in document:
        return None
    parts = _object(document[KEY], "/on", ("any", "all", "within"), _EXAMPLE)
    if "any" in parts and "all" in parts:
        _refuse("/on", "It names any and all", "Give one of them")
    word = "all" if "all" in parts else "any"
    given = parts.get(word)
    if not isinstance(given, list):
        _refuse(f"/on/{word}" if word in parts else "/on", "It names no conditions", _EXAMPLE)
    conditions = tuple(_condition(each, f"/on/{word}/{place}") for place, each in enumerate(given))
    within_us = parse_duration(parts["within"], "/on/within") if "within" in parts else 0
    found = Triggers(conditions, within_us=within_us, wants_all=word == "all")
    check_triggers(found, job_id)
    return found


def triggers_to_document(triggers: Triggers | None) -> dict[str, Any]:
    """The key, where there is anything to say."""
    if triggers is None:
        return {}
    word = "all" if triggers.wants_all else "any"
    said: dict[str, Any] = {word: [_shown_condition(each) for each in triggers.conditions]}
    if triggers.within_us:
        said["within"] = format_duration(triggers.within_us)
    return {KEY: said}


def triggers_text(document: Mapping[str, Any]) -> str:
    """Such a document in a line for people: ``on load-orders, load-items``, ``on all of a, b within 2h``."""
    said = document[KEY]
    named = (each.get("job") or _records_text(each) for each in said.get("all") or said["any"])
    names = ", ".join(dict.fromkeys(named))
    return f"on {'all of ' * ('all' in said)}{names}" + (f" within {said['within']}" if "within" in said else "")


def _records_text(condition: Mapping[str, Any]) -> str:
    return f"records of {name_of(RecordComes(condition['topic'], tuple(condition.get('headers', {}).items())))}"


def without_schedule(document: Mapping[str, object], owners: Mapping[str, tuple[str, ...]]) -> Schedule:
    """The schedule of a job that has none. ``owners``: keys that go with some kinds alone. Raises RequestError."""
    for key, kinds in owners.items():
        if key in document:
            _refuse(f"/{key}", f'"{key}" goes with a schedule', f"Remove it, or give {' or '.join(kinds)}")
    return NEVER


def check_starts(schedule: Schedule, on: Triggers | None, job_id: str = "") -> None:
    """Refuse a schedule that cannot be kept, and conditions: RequestError. A job without fires is started by others."""
    if on is not None:
        check_triggers(on, job_id)
    if schedule != NEVER or on is None:
        check_schedule(schedule)


def check_triggers(triggers: Triggers, job_id: str = "") -> None:
    """Refuse what cannot be kept: RequestError. For commands too, which may come by no document."""
    word = "all" if triggers.wants_all else "any"
    fewest = 2 if triggers.wants_all else 1
    if not fewest <= len(triggers.conditions) <= CONDITIONS_MAX:
        _refuse(f"/on/{word}", f"{len(triggers.conditions)} conditions", f"Give {fewest} to {CONDITIONS_MAX} of them")
    _check_within(triggers)
    own_name = split_job_id(job_id)[1] if job_id else ""
    for place, each in enumerate(triggers.conditions):
        pointer = f"/on/{word}/{place}"
        if each in triggers.conditions[:place]:
            _refuse(pointer, "The same condition is given twice", "Give it once")
        if isinstance(each, RecordComes):
            _check_records(each, pointer)
            continue
        if not _NAME.match(each.job):
            _refuse(f"{pointer}/job", f"{_shown(each.job)} is not a job's name", "Name a job of the same tenant")
        if each.job == own_name:
            _refuse(f"{pointer}/job", "It would start itself, without end", "Name another job, or give it a schedule")
    headers = [header for each in triggers.conditions if isinstance(each, RecordComes) for header in each.headers]
    if (length := sum(len(name) + len(text) for name, text in headers)) > HEADERS_LENGTH_MAX:
        _refuse(f"/on/{word}", f"Its headers have {length} characters", f"At most {HEADERS_LENGTH_MAX} in all")


def _check_within(triggers: Triggers) -> None:
    within_us = triggers.within_us
    if triggers.wants_all and not within_us:
        _refuse("/on", "all needs a window", 'Say within which time all have to come: "within": "2h"')
    if within_us and (not WITHIN_US_MIN <= within_us <= WITHIN_US_MAX or within_us % WITHIN_US_MIN):
        _refuse("/on/within", f"A window of {within_us / 1e6:.6g} s", "Whole seconds, at least 1s and at most 31d")


def _check_records(condition: RecordComes, pointer: str) -> None:
    if not _TOPIC.match(condition.topic):
        _refuse(f"{pointer}/topic", f"{_shown(condition.topic)} is not a topic's name", "Name a topic of the cluster")
    if len(condition.headers) > HEADERS_MAX:
        _refuse(f"{pointer}/headers", f"{len(condition.headers)} headers", f"At most {HEADERS_MAX}")
    for name, text in condition.headers:
        if not 1 <= len(name) <= HEADER_MAX or len(text) > HEADER_MAX:
            _refuse(f"{pointer}/headers", f"{_shown(name)} is too long, or empty", f"1 to {HEADER_MAX} characters")
    names = [name for name, _ in condition.headers]
    if names != sorted(set(names)):
        _refuse(f"{pointer}/headers", "A header is named twice", "Name each once, in alphabetical order")


def _shown_condition(condition: Condition) -> dict[str, Any]:
    if isinstance(condition, RunEnds):
        return {"job": condition.job, "ended": condition.ended.value}
    return {"topic": condition.topic} | ({"headers": dict(condition.headers)} if condition.headers else {})


def _records(parts: Mapping[str, object], pointer: str) -> RecordComes:
    topic, headers = parts["topic"], parts.get("headers", {})
    if not isinstance(topic, str):
        _refuse(f"{pointer}/topic", f"{_shown(topic)} is not a topic's name", "Name a topic of the cluster")
    if not isinstance(headers, Mapping) or not all(isinstance(each, str) for each in headers.values()):
        _refuse(f"{pointer}/headers", "Headers are names with texts", 'Such as {"type": "order-placed"}')
    return RecordComes(topic, tuple(sorted((str(name), str(text)) for name, text in headers.items())))


def _condition(value: object, pointer: str) -> Condition:
    if isinstance(value, Mapping) and "topic" in value:
        return _records(_object(value, pointer, ("topic", "headers"), _RECORDS), pointer)
    parts = _object(value, pointer, ("job", "ended"), 'Such as {"job": "load-orders", "ended": "failed"}')
    job, ended = parts.get("job"), parts.get("ended", Ended.SUCCEEDED.value)
    if not isinstance(job, str):
        _refuse(f"{pointer}/job", "It names no job", "Name a job of the same tenant, without the tenant")
    if not isinstance(ended, str) or ended not in _ENDED:
        _refuse(f"{pointer}/ended", f"{_shown(ended)} is no end of a run", f"One of {', '.join(_ENDED)}")
    return RunEnds(job, _ENDED[ended])


def _object(value: object, pointer: str, keys: tuple[str, ...], hint: str) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        _refuse(pointer, f"{_shown(value)} is not an object", hint)
    for key in value:
        if key not in keys:
            _refuse(pointer, f"{_shown(key)} is not known here", f"Known: {' '.join(keys)}")
    return value


def _refuse(pointer: str, message: str, hint: str) -> NoReturn:
    raise RequestError(message, pointer=pointer, hint=hint)


def _shown(value: object) -> str:
    """A foreign value inside a message: short."""
    return repr(value)[:80]
