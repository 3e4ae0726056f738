"""The shapes of what machines ask: probes, figures, the stream. See ``shapes.py``."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel


class Health(BaseModel):
    """Whether threads move."""

    status: Literal["ok", "stuck"]
    stuck: list[str]


class Ready(BaseModel):
    """Which backends do not answer."""

    status: Literal["ok", "waiting"]
    away: list[str]


STREAM: dict[str, Any] = {
    "description": "An endless stream; see docs/api.md",
    "content": {"text/event-stream": {"schema": {"type": "string"}}},
}
METRICS: dict[str, Any] = {
    "description": "The text that Prometheus reads",
    "content": {"text/plain": {"schema": {"type": "string"}}},
}
