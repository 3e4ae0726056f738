"""Where a page ended, as text that a client hands back: opaque to it, checked by us."""

from __future__ import annotations

import base64
import binascii
import re

from waterclock.model.ids import Instant

from .problems import Problem

_CURSOR = re.compile(r"(-?\d{1,19})\|(\S{0,320})\Z")
_INT64 = 2**63


def write_cursor(at: Instant, rest: str) -> str:
    """The cursor after the line at (``at``, ``rest``)."""
    return base64.urlsafe_b64encode(f"{at}|{rest}".encode()).decode().rstrip("=")


def read_cursor(text: str) -> tuple[Instant, str]:
    """(at, rest). Raises Problem (400)."""
    try:
        plain = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        raise unknown_cursor() from None
    match = _CURSOR.match(plain)
    if match is None or not -_INT64 <= int(match[1]) < _INT64:
        raise unknown_cursor()
    return int(match[1]), match[2]


def unknown_cursor() -> Problem:
    """400."""
    return Problem(
        "bad-request", "This is no cursor of ours", hint="Hand back `next_cursor` as it came, or leave it out"
    )
