"""A list of dates in a job document: ``dates``, each an instant, or a local time in the ``zone`` beside it.

Local times are read once, here, and kept as instants: where such a time does not exist (spring) it is the first
instant after the gap, where it comes twice (autumn) the first one (time.md §5). How it fails: RequestError with the
pointer of the date.
"""

from __future__ import annotations

import re
from typing import NoReturn

from .errors import RequestError
from .ids import US_PER_MINUTE, Instant
from .job import Dates
from .schedule import DATES_MAX
from .time_text import parse_rfc3339
from .zones import check_zone, spans_from

_LOCAL = re.compile(r"(\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d)(:\d\d)?\Z", re.ASCII)
_TWO_DAYS = 2 * 1_440
"""Minutes; more than any zone is away from UTC, and than any gap is long."""


def dates_from_document(value: object, zone: object) -> Dates:
    """The dates, sorted. ``zone`` None: each names its own offset. Raises RequestError."""
    if not isinstance(value, list) or not 1 <= len(value) <= DATES_MAX:
        _refuse("/dates", f"dates is not a list of 1 to {DATES_MAX} instants", 'Such as ["2026-12-24T09:00:00Z"]')
    if zone is not None:
        if not isinstance(zone, str):
            _refuse("/zone", f"{repr(zone)[:80]} is not a time zone", "Write an IANA name, such as Europe/Berlin")
        check_zone(zone)
    found: dict[Instant, int] = {}
    for place, text in enumerate(value):
        at = _instant(text, zone, f"/dates/{place}")
        if at in found:
            _refuse(f"/dates/{place}", f"It is the same instant as that at {found[at]}", "Give each date once")
        found[at] = place
    return Dates(tuple(sorted(found)))


def _instant(text: object, zone: str | None, pointer: str) -> Instant:
    match = _LOCAL.match(text) if isinstance(text, str) else None
    if match is None:
        return parse_rfc3339(text, pointer)
    if zone is None:
        _refuse(pointer, f"{text!r} names no offset, and the job no zone", 'Add "zone", or an offset such as Z')
    return _from_local(zone, parse_rfc3339(f"{match[1]}{match[2] or ':00'}Z", pointer), pointer)


def _from_local(zone: str, local: Instant, pointer: str) -> Instant:
    """The first instant at which a clock of the zone shows this time, or that it is past it."""
    minute, rest = divmod(local, US_PER_MINUTE)
    for _, span in spans_from(zone, minute - _TWO_DAYS, minute + _TWO_DAYS):
        if minute < span.start + span.offset:
            return span.start * US_PER_MINUTE  # in the gap before this span
        if minute < span.end + span.offset:
            return (minute - span.offset) * US_PER_MINUTE + rest
    return _refuse(pointer, "The date is out of range", "From 1970 to 2199")


def _refuse(pointer: str, message: str, hint: str) -> NoReturn:
    raise RequestError(message, pointer=pointer, hint=hint)
