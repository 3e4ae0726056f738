"""The language every role speaks, and the front door for users. Roles import it; it never imports them.

``from waterclock import App`` is all that a module with handlers needs. The front door opens lazily, so that a role
which needs only ``waterclock.model`` loads nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from waterclock.app import App as App
    from waterclock.app import Context as Context

__all__ = ["App", "Context"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from waterclock import app  # noqa: PLC0415 - the lazy front door itself

        return getattr(app, name)
    raise AttributeError(f"module 'waterclock' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
