"""Log lines, and the sign that a process is ready.

A line is JSON on stdout with ``ts, level, event, role, instance`` first; on a terminal it is coloured key=value.
``event`` is a constant and variables are fields, so that lines can be counted. Payloads are never logged; values under
keys that look like secrets are replaced.

Readiness: the supervisor names a file in ``WATERCLOCK_READY_FILE``; the process writes READY into it once it owns its
inputs. Without the variable nothing happens.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, MutableMapping
from pathlib import Path
from typing import Any

import structlog

from waterclock.model.plain_json import NotJson, to_json

READY_FILE_VARIABLE = "WATERCLOCK_READY_FILE"

_SECRET_WORDS = (
    "password",
    "passwd",
    "secret",
    "api_key",
    "apikey",
    "token_value",
    "authorization",
    "credential",
    "sasl",
)
_SECRET_ENDS = ("token",)
"""What is called `token_count` or `max_tokens` is a number, which one wants to see."""
_FENCING = "fencing_token"
"""A number too: who wrote an effect is told by it."""

_FIRST_KEYS = ("ts", "level", "event", "role", "instance")

Fields = MutableMapping[str, Any]
Logger = structlog.typing.FilteringBoundLogger


def configure_logging(role: str, instance: str = "", *, level: str = "info", pretty: bool | None = None) -> Logger:
    """Set the process's logging up, once, and return its logger. ``pretty``: default, whether stdout is a terminal."""
    if sys.stdout.isatty() if pretty is None else pretty:
        renderers: list[structlog.typing.Processor] = [structlog.dev.ConsoleRenderer()]
    else:
        renderers = [structlog.processors.format_exc_info, _in_order, structlog.processors.JSONRenderer(_to_json)]
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True, key="ts"),
            _without_secrets,
            *renderers,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level.upper())),
        # stdout is looked up now: what replaces it later (a test) configures anew
        logger_factory=structlog.PrintLoggerFactory(sys.stdout),
        cache_logger_on_first_use=True,
    )
    logger: Logger = structlog.get_logger(role=role, **({"instance": instance} if instance else {}))
    return logger


def announce_ready() -> None:
    """Tell the supervisor that this process owns its inputs. Safe to call again; does nothing without a supervisor."""
    place = os.environ.get(READY_FILE_VARIABLE)
    if place:
        Path(place).write_text(f"READY {os.getpid()}\n")


def _without_secrets(_: object, __: str, fields: Fields) -> Fields:
    for key in fields:
        name = key.lower()
        is_token = name.endswith(_SECRET_ENDS) and not name.endswith(_FENCING)
        if is_token or any(word in name for word in _SECRET_WORDS):
            fields[key] = "[hidden]"
    return fields


def _in_order(_: object, __: str, fields: Fields) -> Fields:
    ordered = {key: fields.pop(key) for key in _FIRST_KEYS if key in fields}
    return ordered | dict(fields)


def _to_json(fields: Fields, default: Callable[[Any], Any], **_: object) -> str:
    """Fields are user code's, too (``ctx.log``): the line is written whatever they are."""
    try:
        return to_json(fields, any_keys=True).decode()
    except NotJson:
        plain = {_name(name): _plain(value, default) for name, value in fields.items()}
        return to_json(plain, any_keys=True).decode()


def _name(name: Any) -> Any:
    """Half of a surrogate pair is no UTF-8: it becomes a question mark."""
    return str.encode(name, "utf-8", "replace").decode() if isinstance(name, str) else name


def _plain(value: Any, default: Callable[[Any], Any]) -> Any:
    try:
        to_json(value, any_keys=True)
    except NotJson:
        try:
            return str(default(value))
        except Exception as error:  # noqa: BLE001 - user code: its repr may raise anything
            return f"unreadable: {type(error).__name__}"
    return value
