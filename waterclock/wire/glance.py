"""Run events at a glance: their kind and their run, for those who pass nearly all of them by."""

from __future__ import annotations

from waterclock.model.events import EventKind

from .binary import get_text
from .framing import BODY_AT
from .run_event import FRAME, KIND_AT


def kind_at_a_glance(data: bytes) -> EventKind | None:
    """The kind of an event of this release, without reading the rest; None for any other bytes."""
    return KIND_AT.get(data[BODY_AT]) if data[:BODY_AT] == FRAME and len(data) > BODY_AT else None


def run_at_a_glance(data: bytes) -> tuple[EventKind, str] | None:
    """The kind and the run id of an event of this release, without reading the rest; None for any other bytes."""
    kind = kind_at_a_glance(data)
    if kind is None:
        return None
    try:
        run_id, end = get_text(data, BODY_AT + 1)
    except (IndexError, ValueError):
        return None
    return (kind, run_id) if end <= len(data) else None
