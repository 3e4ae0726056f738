"""One question to the API and its answer: a kept connection, bounded tries, refusals as errors of ours.

What must hold: a change is tried again only under one ``Idempotency-Key``, so that it is done once however often it
is sent; every wait has an end (of the network ``timeout_s``, four tries, pauses of at most 5 s); a redirect is never
followed, and a key goes to no other host and into no message. How it fails: RequestError (with the API's pointer and
hint), NotFound, Conflict, AccessRefused (401, 403), BackendDown for everything else, its bound reached.
"""

from __future__ import annotations

import http.client
import random
import ssl
import threading
import time
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import SplitResult, urlsplit

import orjson

from waterclock.model.errors import AccessRefused, BackendDown, Conflict, NotFound, RequestError, WaterclockError
from waterclock.model.plain_json import NotJson, to_json

TRIES = 4
_PAUSE_S = 0.1
_PAUSE_S_MAX = 5.0
_ANSWER_MAX = 8 * 1024 * 1024
_AGAIN = frozenset({408, 429, 502, 503, 504})
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
_BACKEND = "the API"


class Answer(NamedTuple):
    """A status below 400, the JSON of the body (None without one), and the headers by lower-case name."""

    status: int
    body: Any
    headers: Mapping[str, str]


class Exchange:
    """Talks to one API. Any thread may call it; questions go one after the other."""

    def __init__(self, url: str, key: str, *, timeout_s: float, allow_plain_http: bool) -> None:
        parts = _address(url)
        key = key.strip()  # as it is read from a file
        if key and not _is_header_text(key):
            raise RequestError("The key has characters that no key has", hint="Give it as `waterclock key create` did")
        if key and parts.scheme == "http" and parts.hostname not in _LOOPBACK and not allow_plain_http:
            raise RequestError(
                "A key would go over plain HTTP to another machine",
                hint="Use https, or allow_plain_http=True where the network is yours",
            )
        self._host, self._port, self._secure = str(parts.hostname), parts.port, parts.scheme == "https"
        self._prefix = f"{parts.path.rstrip('/').removesuffix('/api/v1')}/api/v1"
        self._key = key
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._connection: http.client.HTTPConnection | None = None

    def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        headers: Mapping[str, str] | None = None,
        *,
        has_body: bool = False,
    ) -> Answer:
        """Ask, and again where that may help. ``path`` follows ``/api/v1``."""
        given = {"Accept": "application/json", **(headers or {})}
        for name, value in given.items():
            if not _is_header_text(value):
                raise RequestError(f"{name} has characters that no header takes", hint="Printable ASCII, no spaces")
        if self._key:
            given["Authorization"] = f"Bearer {self._key}"
        data = None
        if has_body:
            data = _document(body)
            given["Content-Type"] = "application/json"
        with self._lock:
            return self._tried(method, self._prefix + path, data, given)

    def close(self) -> None:
        """Give the connection up."""
        with self._lock:
            self._drop()

    def _tried(self, method: str, path: str, data: bytes | None, headers: Mapping[str, str]) -> Answer:
        trouble: WaterclockError = BackendDown(_BACKEND, "not asked")
        for number in range(TRIES):
            try:
                answer = self._once(method, path, data, headers)
            except (OSError, http.client.HTTPException) as error:
                self._drop()
                trouble = BackendDown(_BACKEND, f"{method} {path}: {type(error).__name__}: {str(error)[:200]}")
                pause_s = _PAUSE_S * 2**number
            else:
                if answer.status < 300:
                    return _checked(answer, f"{method} {path}")
                trouble = _refusal(answer)
                if not _worth_another_try(answer):
                    raise trouble
                pause_s = _retry_after_s(answer, _PAUSE_S * 2**number)
            if number + 1 < TRIES:
                time.sleep(min(pause_s, _PAUSE_S_MAX) * (0.5 + random.random()))
        raise trouble

    def _once(self, method: str, path: str, data: bytes | None, headers: Mapping[str, str]) -> Answer:
        connection = self._connected()
        connection.request(method, path, data, dict(headers))
        response = connection.getresponse()
        raw = response.read(_ANSWER_MAX + 1)
        if len(raw) > _ANSWER_MAX:
            self._drop()
            raise BackendDown(_BACKEND, f"an answer of more than {_ANSWER_MAX} bytes")
        if response.length:  # of a bounded read nobody else says it
            raise http.client.IncompleteRead(b"", response.length)
        named = {name.lower(): value for name, value in response.getheaders()}
        if response.will_close:
            self._drop()
        return Answer(response.status, _read(raw, named.get("content-type", "")), named)

    def _connected(self) -> http.client.HTTPConnection:
        if self._connection is None:
            if self._secure:
                self._connection = http.client.HTTPSConnection(
                    self._host, self._port, timeout=self._timeout_s, context=ssl.create_default_context()
                )
            else:
                self._connection = http.client.HTTPConnection(self._host, self._port, timeout=self._timeout_s)
        return self._connection

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _address(url: str) -> SplitResult:
    """Raises RequestError."""
    try:
        parts = urlsplit(url)
        is_one = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        is_one &= _is_header_text(parts.path) and " " not in parts.netloc  # a host may have other letters
        str(parts.hostname).encode("idna")  # as the network will: empty and long labels are none
    except ValueError:  # brackets, ports, labels
        is_one = False
    if not is_one or parts.username is not None or parts.query or parts.fragment:
        raise RequestError(f"{url[:200]!r} is no address of an API", hint="Such as https://waterclock.example")
    return parts


def _is_header_text(value: str) -> bool:
    return value.isascii() and value.isprintable() and " " not in value


def _checked(answer: Answer, what: str) -> Answer:
    """An answer that is one of the API's, which always has an object. Raises BackendDown."""
    if isinstance(answer.body, dict):
        return answer
    kind = answer.headers.get("content-type") or "nothing"
    raise BackendDown(_BACKEND, f"{what}: status {answer.status}, and no JSON object but {kind}: is this its address?")


def _document(body: object) -> bytes:
    try:
        return to_json(body)
    except NotJson as error:
        raise RequestError(f"This is not JSON: {str(error)[:200]}", hint="Bytes go as payload_base64") from None


def _read(raw: bytes, content_type: str) -> Any:
    if not raw or "json" not in content_type:
        return None
    try:
        return orjson.loads(raw)
    except ValueError:
        return None


def _worth_another_try(answer: Answer) -> bool:
    # 409 with Retry-After: the first sending of this very request is still being served.
    return answer.status in _AGAIN or (answer.status == 409 and "retry-after" in answer.headers)


def _retry_after_s(answer: Answer, otherwise_s: float) -> float:
    text = answer.headers.get("retry-after", "")
    return float(text) if text.isdecimal() and len(text) < 6 else otherwise_s


def _refusal(answer: Answer) -> WaterclockError:
    """The error that a problem document stands for."""
    problem: dict[str, Any] = answer.body if isinstance(answer.body, dict) else {}
    moved = f"a redirect to {answer.headers.get('location', '?')[:200]}, which is not followed"
    otherwise = moved if answer.status < 400 else f"status {answer.status}"
    detail = str(problem.get("detail") or problem.get("title") or otherwise)
    hint = str(problem.get("hint") or "")
    errors = problem.get("errors") or [{}]
    pointer = str(errors[0].get("pointer", "")) if isinstance(errors, list) and isinstance(errors[0], dict) else ""
    match answer.status:
        case 401 | 403:
            return AccessRefused(_BACKEND, f"{detail}. {hint}" if hint else detail)
        case 404:
            return NotFound(detail, pointer=pointer, hint=hint)
        case 409 | 412 | 428:
            return Conflict(detail, pointer=pointer, hint=hint)
        case 400 | 413 | 415 | 422:
            return RequestError(detail, pointer=pointer, hint=hint)
    return BackendDown(_BACKEND, f"status {answer.status}: {detail}")
