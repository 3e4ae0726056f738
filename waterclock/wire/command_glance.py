"""Commands at a glance: whether one makes a new job, for those who pass thousands of such by."""

from __future__ import annotations

from waterclock.model.job import MUST_BE_NEW, CommandKind

from . import schemata
from .binary import get_long, get_text
from .framing import BODY_AT

_SCHEMA = schemata.current("command")
_KINDS: list[str] = _SCHEMA.parsed["fields"][0]["type"]["symbols"]
_CREATE = bytes([_KINDS.index(CommandKind.CREATE.name) << 1])
"""How Avro writes the kind: its place among the symbols, zigzag."""
_HEAD = _SCHEMA.frame + _CREATE


def new_job_at_a_glance(data: bytes) -> str | None:
    """The job that a command of this release makes on the condition that no such job stands; None for all others."""
    if not data.startswith(_HEAD):
        return None
    try:
        job_id, at = get_text(data, BODY_AT + 1)
        _command_id, at = get_text(data, at)
        _actor, at = get_text(data, at)
        _at, at = get_long(data, at)
        expected_revision, at = get_long(data, at)
    except (IndexError, ValueError):
        return None
    return job_id if expected_revision == MUST_BE_NEW and at <= len(data) else None
