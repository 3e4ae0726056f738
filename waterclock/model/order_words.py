"""What an order on job-events says beside the job: its idempotency key, its note, the revision that must stand.

One check for both ends: the intake refuses what does not pass, and a client refuses it before it is sent. How it fails:
RequestError with a pointer into the event.
"""

from __future__ import annotations

from .errors import RequestError

KEY_MAX = 200
"""Characters of an idempotency key and of a ``ce_id``."""

_NOTE_MAX = 1_000
_REVISION_MAX = 2**63 - 1


def checked_key(text: str) -> str:
    """The idempotency key, "" where there is none. Raises RequestError."""
    return _checked("/idempotency_key", text, KEY_MAX)


def checked_note(text: str) -> str:
    """Words for the audit. Raises RequestError."""
    return _checked("/note", text, _NOTE_MAX)


def checked_revision(number: int) -> int:
    """The revision that must stand; 0: any. Raises RequestError."""
    if not 0 <= number <= _REVISION_MAX:
        raise RequestError(f"{number} is not a revision", pointer="/expected_revision", hint="0: whatever stands")
    return number


def _checked(pointer: str, text: str, limit: int) -> str:
    if len(text) > limit:
        raise RequestError(f"It has {len(text)} characters", pointer=pointer, hint=f"At most {limit}")
    if not all(letter.isprintable() or letter == "\n" for letter in text):
        raise RequestError("It holds characters that cannot be shown", pointer=pointer, hint="Use printable text")
    return text
