"""The language every role speaks, and the front door for users. Roles import it; it never imports them.

``from waterclock import App`` is all that a module with handlers needs, ``from waterclock import Client`` all that a
program needs which schedules. The front door opens lazily, so that a role which needs only ``waterclock.model`` loads
nothing else.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from waterclock.app import App as App
    from waterclock.app import Context as Context
    from waterclock.clients.client import Client as Client
    from waterclock.dags import Dag as Dag

__all__ = ["App", "Client", "Context", "Dag"]

_HOMES = {
    "App": "waterclock.app",
    "Client": "waterclock.clients.client",
    "Context": "waterclock.app",
    "Dag": "waterclock.dags",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'waterclock' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
