"""An instant as an option gives it: RFC 3339, or so long before now."""

from __future__ import annotations

from waterclock.model.errors import RequestError
from waterclock.model.ids import Instant
from waterclock.model.time_text import parse_duration, parse_rfc3339


def instant_or_age(text: str, now: Instant, pointer: str) -> Instant:
    """``2026-11-21T09:00:00Z``, or ``36h`` before ``now``. Raises RequestError, which names both ways to say it."""
    try:
        return parse_rfc3339(text, pointer) if "-" in text else now - parse_duration(text, pointer)
    except RequestError as error:
        hint = "So long before now: 30m, 36h, 7d; or RFC 3339: 2026-11-21T09:00:00Z"
        raise RequestError(error.message, pointer=pointer, hint=hint) from None
