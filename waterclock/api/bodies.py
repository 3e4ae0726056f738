"""A request's body, bounded in size, time and depth before anything parses it."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import Request
from starlette.requests import ClientDisconnect

from waterclock.model.errors import RequestError
from waterclock.wire.json_text import JSON_MAX, read_json

from .problems import Problem

WITHIN_S = 10.0
"""A body must have arrived by then."""


async def read_body(request: Request) -> bytes:
    """The bytes. Raises Problem: 413 over 256 KiB, 408 when they take too long, 415 for what is no JSON."""
    body = await _bounded(request, JSON_MAX)
    if body and not _is_json(request.headers.get("content-type", "")):
        raise Problem("media-type", "The body must be JSON", hint="Send `Content-Type: application/json`")
    return body


async def read_bytes(request: Request, kinds: tuple[str, ...], limit: int) -> bytes:
    """The bytes of a file of one of these media types. Raises Problem, as :func:`read_body` does."""
    body = await _bounded(request, limit)
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in kinds:
        raise Problem("media-type", f"The body must be {kinds[0]}", hint=f"Send `Content-Type: {kinds[0]}`")
    return body


async def _bounded(request: Request, limit: int) -> bytes:
    announced = request.headers.get("content-length", "0")
    if announced.isdecimal() and int(announced[:20]) > limit:
        raise _too_large(limit)
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(WITHIN_S):
            async for part in request.stream():
                size += len(part)
                if size > limit:
                    raise _too_large(limit)
                parts.append(part)
    except TimeoutError:
        raise Problem(
            "timeout", f"The body was not there within {WITHIN_S:g} s", headers={"Connection": "close"}
        ) from None
    except ClientDisconnect:
        raise Problem("bad-request", "The connection ended before the body did") from None
    return b"".join(parts)


async def read_object(request: Request, *, optional: bool = False) -> dict[str, Any]:
    """The body as a JSON object. ``optional``: no body at all is the empty object. Raises Problem."""
    body = await read_body(request)
    if not body and optional:
        return {}
    try:
        document = read_json(body)
    except RequestError as error:
        raise Problem("bad-request", error.message, hint=error.hint) from None
    if not isinstance(document, dict):
        raise Problem("invalid", "The body is no JSON object", pointer="", hint='Such as {"name": "nightly"}')
    return document


def _is_json(content_type: str) -> bool:
    kind = content_type.partition(";")[0].strip().lower()
    return kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json"))


def _too_large(limit: int) -> Problem:
    return Problem(
        "too-large",
        f"A body has at most {limit} bytes",
        hint="Keep large data elsewhere and pass a reference",
        headers={"Connection": "close"},
    )
