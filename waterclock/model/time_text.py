"""How people write time: durations such as ``5m``, and instants as RFC 3339.

What must hold: reading what was written gives the same microseconds. How it fails: RequestError with the pointer that
the caller names. Writing never fails: what no calendar names is told as a number.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import NoReturn

from .errors import RequestError
from .ids import US_PER_S, Instant

_DURATION = re.compile(r"(\d{1,9})([smhd])\Z", re.ASCII)
_RFC3339 = re.compile(
    r"(?P<local>\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d)(?:\.(?P<part>\d{1,6}))?(?P<offset>[Zz]|[+-]\d\d:\d\d)?\Z", re.ASCII
)
_UNITS_S = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def parse_duration(text: object, pointer: str = "") -> int:
    """Microseconds of ``5s``, ``10m``, ``2h``, ``1d``. Raises RequestError; at least one second."""
    match = _DURATION.match(text) if isinstance(text, str) else None
    if match is None or int(match[1]) == 0:
        _refuse(
            pointer, f"{_shown(text)} is not a duration", "Write whole seconds, minutes, hours or days: 5s 10m 2h 1d"
        )
    return int(match[1]) * _UNITS_S[match[2]] * US_PER_S


def format_duration(us: int) -> str:
    """The shortest text that :func:`parse_duration` reads as so many microseconds (whole seconds)."""
    seconds = us // US_PER_S
    unit = next(unit for unit, size in _UNITS_S.items() if seconds % size == 0)
    return f"{seconds // _UNITS_S[unit]}{unit}"


def parse_rfc3339(text: object, pointer: str = "") -> Instant:
    """The instant of an RFC 3339 text with an offset, to the microsecond. Raises RequestError."""
    match = _RFC3339.match(text) if isinstance(text, str) else None
    hint = "Write RFC 3339, such as 2026-11-21T09:00:00Z or 2026-11-21T10:00:00+01:00"
    if match is None:
        _refuse(pointer, f"{_shown(text)} is not an instant", hint)
    if match["offset"] is None:
        _refuse(pointer, f"{_shown(text)} names no offset", hint)
    try:
        offset = match["offset"].upper().replace("Z", "+00:00")
        at = datetime.fromisoformat(match["local"].upper().replace(" ", "T") + offset)
        # An offset may carry it out of the years that have a text in UTC: astimezone() raises OverflowError then.
        return (at.astimezone(UTC) - _EPOCH) // timedelta(microseconds=1) + int((match["part"] or "").ljust(6, "0"))
    except (ValueError, OverflowError):
        # The 30th of February, hour 24, second 60 (clocks that hide leap seconds have none), year 0 or 10000.
        _refuse(pointer, f"{_shown(text)} does not exist", hint)


def format_rfc3339(at: Instant) -> str:
    """RFC 3339 in UTC, with six digits of a second where there is a fraction.

    Outside the years 1 to 9999 the plain number: records of others hold any, and whoever shows one must not stop at it.
    """
    try:
        return (_EPOCH + timedelta(microseconds=at)).isoformat().replace("+00:00", "Z")
    except OverflowError:
        return str(at)


def _refuse(pointer: str, message: str, hint: str) -> NoReturn:
    raise RequestError(message, pointer=pointer, hint=hint)


def _shown(value: object) -> str:
    """A foreign value inside a message: short."""
    return repr(value)[:80]
