"""Idempotency-Key: the same request again gets the same answer, and is done once.

Three keepers, each for what it can do: this process refuses the same key while the first request is still being served
(409); the table ``api_answers`` replays the answer for two days, and refuses another request under the same key (422);
the shard owner, which sees all commands of a job in one order, ignores a repeat for 24 hours whatever process sent it.
The owner is given a hash of the request with each command: of the same PATCH another spec may come by the second time.

The limit: with several API processes the 409 is per process, and one key used for two *different jobs* at the same
moment through two processes is seen only once the first answer is kept. One key for one job is always safe.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import orjson
import structlog
from fastapi import Request
from starlette.responses import Response

from waterclock.model.errors import BackendDown
from waterclock.store.request_port import KeptAnswer

from .keyring import Caller
from .problems import Problem
from .services import Services

HEADER = "Idempotency-Key"
_KEY = re.compile(r"[\x21-\x7e]{1,200}\Z")
_KEPT_HEADERS = ("etag", "location", "content-type")
_NOT_KEPT = frozenset({202, 429})
_REQUEST_HASH_BYTES = 16
_log = structlog.get_logger()


class RepeatKey(NamedTuple):
    """An Idempotency-Key, "" where there is none, and a hash of the request that came under it."""

    text: str = ""
    request_hash: bytes = b""


async def once(
    services: Services,
    caller: Caller,
    request: Request,
    document: dict[str, Any],
    act: Callable[[RepeatKey], Awaitable[Response]],
) -> Response:
    """Do it, or give the answer of the first time. Raises Problem."""
    key = _key_of(request)
    if not key:
        return await act(RepeatKey())
    place = caller.tenant, key
    if place in services.in_flight:
        raise Problem("in-flight", "A request with this Idempotency-Key is being served", headers={"Retry-After": "1"})
    services.in_flight.add(place)
    try:
        request_key = hashlib.sha256(key.encode()).hexdigest()
        fingerprint = _fingerprint(request, document)
        kept = await services.call(services.store.kept_answer, caller.tenant, request_key)
        if kept is not None:
            return _replayed(kept, fingerprint)
        answer = await _answer_of(act, RepeatKey(key, fingerprint[:_REQUEST_HASH_BYTES]))
        if answer.status_code < 500 and answer.status_code not in _NOT_KEPT:
            now = services.clock.now()
            await _keep(services, _kept(caller.tenant, request_key, fingerprint, answer, now))
        return answer
    finally:
        services.in_flight.discard(place)


def wants_no_wait(request: Request) -> bool:
    """``Prefer: respond-async``."""
    return "respond-async" in request.headers.get("prefer", "").lower().replace(" ", "").replace(";", ",").split(",")


def _key_of(request: Request) -> str:
    key = request.headers.get(HEADER)
    if key is None:
        return ""
    if not _KEY.match(key):
        raise Problem(
            "bad-request", f"The {HEADER} cannot be used", hint="1 to 200 printable ASCII characters, without spaces"
        )
    return key


def _fingerprint(request: Request, document: dict[str, Any]) -> bytes:
    body = orjson.dumps(document, option=orjson.OPT_SORT_KEYS)
    match = request.headers.get("if-match", "")
    return hashlib.sha256(f"{request.method}\n{request.url.path}\n{match}\n".encode() + body).digest()


async def _answer_of(act: Callable[[RepeatKey], Awaitable[Response]], repeat_key: RepeatKey) -> Response:
    """A refusal by the dispatcher is an answer like any other: the repeat gets it again.

    But ``key-reused`` is raised, not to be kept: the key is that of another request, which must not get this answer.
    """
    try:
        return await act(repeat_key)
    except Problem as problem:
        if problem.slug == "key-reused":
            raise
        return problem.answer()


def _kept(tenant: str, request_key: str, fingerprint: bytes, answer: Response, now: int) -> KeptAnswer:
    headers = {name: answer.headers[name] for name in _KEPT_HEADERS if name in answer.headers}
    return KeptAnswer(
        tenant, request_key, fingerprint, answer.status_code, orjson.dumps(headers).decode(), bytes(answer.body), now
    )


async def _keep(services: Services, answer: KeptAnswer) -> None:
    """Without it the repeat goes to the shard owner, which knows it too: so the answer is given all the same."""
    try:
        await services.call(services.store.keep_answer, answer)
    except BackendDown as down:
        _log.warning("an answer was not kept", cause=str(down))


def _replayed(kept: KeptAnswer, fingerprint: bytes) -> Response:
    if kept.fingerprint != fingerprint:
        raise Problem(
            "key-reused",
            "This Idempotency-Key was used for another request",
            hint="A new request needs a new key",
        )
    return Response(kept.body, kept.status, {**orjson.loads(kept.headers), "Idempotency-Replayed": "true"})
