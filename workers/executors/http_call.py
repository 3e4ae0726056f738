"""The executor of HTTP callbacks: the job's payload as a signed request, and the answer's status as the outcome.

What must hold: a receiver can make the effect happen once. It gets the run id as ``Idempotency-Key`` and ``webhook-id``
(the same in every attempt) and the fencing token as ``Waterclock-Fence`` (which only grows); nothing that a job says
can replace one of these headers or smuggle in another. 2xx is success; a redirect is a failure and is not followed.

How it fails, as a failed attempt with a class: ``http-<status>``; ``throttled`` (429, 502, 503, 504), whose outcome
says for how long where the receiver asked for time (``Retry-After``); ``gone`` (410), which no retry will cure;
``timed-out``; and what ``waterclock/egress`` raises.
"""

from __future__ import annotations

import re
from datetime import UTC
from email.utils import parsedate_to_datetime
from functools import lru_cache
from math import ceil
from typing import Any

import orjson

from waterclock.clock import Clock
from waterclock.egress.http_client import HttpAnswer, HttpClient, HttpRequest
from waterclock.egress.signing import Secrets
from waterclock.model.errors import AttemptError
from waterclock.model.executor import HttpCall, Pairs, executor_label, is_set_by_us
from waterclock.model.ids import US_PER_S
from waterclock.model.time_text import format_rfc3339

from . import ending
from .kept import fitting
from .port import Attempt, EndedAttempt

_THROTTLED = frozenset({429, 502, 503, 504})
_GONE = 410
_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}\Z")
_VALUE = re.compile(r"[\x20-\x7e]*\Z")
_TRACE_BYTES = 1_024


class HttpCalls:
    """Makes the calls of one worker. ``version`` is what the receiver reads in ``User-Agent``."""

    def __init__(self, client: HttpClient, secrets: Secrets, clock: Clock, version: str = "") -> None:
        self._client = client
        self._secrets = secrets
        self._clock = clock
        self._agent = f"waterclock/{version}" if version else "waterclock"

    async def serve(self, attempt: Attempt, call: HttpCall) -> EndedAttempt:
        """Call, and tell how it ended. Raises AttemptError where no answer came."""
        body = attempt.work.payload
        headers = self._headers(attempt, call, body)
        answer = await self._client.send(HttpRequest(call.url, call.method, headers, body, call.timeout_s))
        if 200 <= answer.status < 300:
            return ending.succeeded(attempt, _result(answer))
        raise self._failure(call, answer)

    async def close(self) -> None:
        """Close every connection."""
        await self._client.close()

    def _headers(self, attempt: Attempt, call: HttpCall, body: bytes) -> dict[str, str]:
        work = attempt.work
        now_s = self._clock.now() // US_PER_S
        headers = {
            **_checked(call.headers),
            "User-Agent": self._agent,
            "Accept-Encoding": "identity",
            "Idempotency-Key": work.run_id,
            "Waterclock-Run-Id": work.run_id,
            "Waterclock-Attempt": str(work.attempt),
            "Waterclock-Fence": str(attempt.token),
            "Waterclock-Fire-Time": _fire_time(work.fire_at),
            "webhook-id": work.run_id,
            "webhook-timestamp": str(now_s),
        }
        if work.backfill:
            headers["Waterclock-Backfill"] = work.backfill
        if work.triggered_by:
            headers["Waterclock-Triggered-By"] = work.triggered_by
        signature = self._secrets.signature(call.secret, work.run_id, now_s, body)
        if signature:
            headers["webhook-signature"] = signature
        if body and not any(name.lower() == "content-type" for name, _ in call.headers):
            headers["Content-Type"] = _content_type(body)
        return headers

    def _failure(self, call: HttpCall, answer: HttpAnswer) -> AttemptError:
        message = f"{executor_label(call)} answered {answer.status} {ending.cut(answer.reason, 80)}".rstrip()
        if 300 <= answer.status < 400:
            message += ": redirects are not followed; give the job the final URL"
        error_class = f"http-{answer.status}"
        wait_s = 0
        if answer.status in _THROTTLED:
            error_class = "throttled"
            wait_s = self._retry_after_s(answer.retry_after)
            message += f", and wants to be left alone for {wait_s} s" if wait_s else ""
        elif answer.status == _GONE:
            error_class = "gone"
        return AttemptError(
            message,
            error_class=error_class,
            trace=answer.body[:_TRACE_BYTES].decode("utf-8", "replace"),
            retry_after_us=wait_s * US_PER_S,
        )

    def _retry_after_s(self, text: str) -> int:
        """Whole seconds from now; 0 where the header is missing or unreadable. Raised, so that none comes too early."""
        text = text.strip()[:64]
        if text.isascii() and text.isdecimal():
            return int(text)
        try:
            until = parsedate_to_datetime(text)
            if until.tzinfo is None:  # HTTP's older form names no zone, and means UTC; not this machine's
                until = until.replace(tzinfo=UTC)
            wait_s = until.timestamp() - self._clock.now() / US_PER_S
        except (TypeError, ValueError, OverflowError):
            return 0
        return max(0, ceil(wait_s))


_fire_time = lru_cache(maxsize=1_024)(format_rfc3339)
"""Thousands of runs are meant for the same instant."""


@lru_cache(maxsize=4_096)
def _checked(headers: Pairs) -> dict[str, str]:
    """The job's own headers, checked again: a work record is not the only way in that may ever exist."""
    for name, value in headers:
        if not _NAME.match(name) or not _VALUE.match(value):
            raise AttemptError(f"header {name[:40]!a} is not one line of plain text", error_class="executor-refused")
        if is_set_by_us(name):
            raise AttemptError(f"header {name[:40]!a} is set by us: leave it out", error_class="executor-refused")
    return dict(headers)


def _content_type(payload: bytes) -> str:
    try:
        orjson.loads(payload)
    except ValueError:
        return "application/octet-stream"
    return "application/json"


def _result(answer: HttpAnswer) -> dict[str, Any]:
    """What is kept of an answer: the status, and the body as JSON where it is that and whole, else as text."""
    result: dict[str, Any] = {"status": answer.status}
    if not answer.size:
        return result
    if answer.whole and answer.size == len(answer.body) and "json" in answer.content_type.lower():
        try:
            if (kept := fitting(result | {"body": orjson.loads(answer.body)})) is not None:
                return kept  # else it is too long for an outcome, by a little: its end is, as of any other text
        except ValueError:
            pass  # it only says that it is JSON
    text = answer.body.decode("utf-8", "replace")
    return fitting(result, body=text) or result
