"""An iCalendar file as a calendar document. The file is read in a process of its own, with bounds of time and memory.

Nothing is fetched: whoever has a URL fetches it and sends the bytes. Why a process: parsers and recurrence rules are
Python that anybody's text can keep busy for hours (``FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30`` looks for its first date up
to the year 9999), and a thread cannot be ended. How it fails: RequestError, with what to change.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any, NamedTuple, NoReturn

from waterclock.model.errors import RequestError
from waterclock.model.ids import US_PER_S, Instant

from .ics_child import CPU_S

ICS_MAX = 256 * 1024
"""Bytes of one file."""

_WITHIN_S = 30.0
"""Of the clock: a busy machine may take so long for the seconds of work that the file is given."""

_SIDES = ("exclude", "include")
_KEPT_ENVIRONMENT = ("PATH", "LD_LIBRARY_PATH", "SYSTEMROOT")
"""The rest may hold secrets, which a reader of strangers' files has no use for."""


class Imported(NamedTuple):
    """``document``: of the calendar; ``occurrences``: how many events and repeats it stands for."""

    document: dict[str, Any]
    occurrences: int


def document_from_ics(
    data: bytes, *, now: Instant, into: str = "exclude", zone: str = "UTC", description: str = ""
) -> Imported:
    """The calendar that a file describes, from a year before ``now`` to ten years after. Raises RequestError.

    ``into``: the side that its events stand on; ``zone``: of times that name none.
    """
    if into not in _SIDES:
        _refuse(f"{into[:40]!r} is no side of a calendar", f"One of {', '.join(_SIDES)}", "/into")
    if len(data) > ICS_MAX:
        _refuse(f"The file has {len(data)} bytes", f"At most {ICS_MAX}: leave out what lies far back")
    found = _read(data, zone, now)
    side = {key: found[key] for key in ("days", "periods") if found[key]}
    said = description or found["name"]
    return Imported(({"description": said} if said else {}) | {into: side}, found["occurrences"])


def _read(data: bytes, zone: str, now: Instant) -> dict[str, Any]:
    command = [sys.executable, "-I", "-m", "waterclock.importing.ics_child", zone, str(now // US_PER_S)]
    environment = {name: os.environ[name] for name in _KEPT_ENVIRONMENT if name in os.environ}
    try:
        done = subprocess.run(  # noqa: S603 - our own module; the text goes to its stdin
            command, input=data, capture_output=True, timeout=_WITHIN_S, check=True, env=environment
        )
        answer: dict[str, Any] = json.loads(done.stdout)
    except (subprocess.SubprocessError, ValueError):
        _refuse(
            f"The file takes more than {CPU_S} s to read, or too much memory",
            "Leave out events that recur by rules without a date, or that recur very often",
        )
    if "error" in answer:
        message, hint = answer["error"]
        _refuse(message, hint)
    result: dict[str, Any] = answer["found"]
    return result


def _refuse(message: str, hint: str, pointer: str = "") -> NoReturn:
    raise RequestError(message, pointer=pointer, hint=hint)
