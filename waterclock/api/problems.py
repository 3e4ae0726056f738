"""What is wrong with a request, as RFC 9457 problems: one form for every refusal, whoever refuses.

Why: a client branches on ``type``, a person reads ``detail`` and ``hint``. What must hold: ``type`` is stable (a slug
in a URN, listed in docs/api.md), ``errors`` point into the request (RFC 6901), no text quotes a secret or a trace. How
it fails: what nobody expected becomes a 500 with the slug ``bug``; its trace goes to the log alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
from starlette.responses import Response

from waterclock.model.errors import BackendDown, Conflict, NotFound, RequestError

TYPE_PREFIX = "urn:waterclock:problem:"
MEDIA_TYPE = "application/problem+json"

TITLES = {
    "bad-request": "The request cannot be read",
    "unauthorized": "A valid key is needed",
    "forbidden": "The key does not allow this",
    "not-found": "There is no such thing",
    "method-not-allowed": "This cannot be done here",
    "exists": "The name is taken by another job",
    "in-use": "Jobs use it",
    "wrong-state": "It does not stand so that this can be done",
    "in-flight": "The same request is being served right now",
    "stale": "The job has changed meanwhile",
    "too-large": "The request is too large",
    "media-type": "The body must be JSON",
    "invalid": "The request says something that cannot be",
    "key-reused": "The Idempotency-Key was used for another request",
    "precondition-required": "If-Match is needed",
    "rate": "Too many requests",
    "timeout": "The request took too long to arrive",
    "busy": "Too much is waiting already",
    "away": "A backend does not answer",
    "bug": "Something broke on our side",
}
"""Every kind of problem, by its slug."""

_STATUS = {
    "bad-request": 400,
    "unauthorized": 401,
    "forbidden": 403,
    "not-found": 404,
    "method-not-allowed": 405,
    "exists": 409,
    "in-use": 409,
    "wrong-state": 409,
    "in-flight": 409,
    "stale": 412,
    "too-large": 413,
    "media-type": 415,
    "invalid": 422,
    "key-reused": 422,
    "precondition-required": 428,
    "rate": 429,
    "timeout": 408,
    "busy": 503,
    "away": 503,
    "bug": 500,
}


class Problem(Exception):
    """Raised anywhere in a request; becomes its answer. ``pointer``: the place in the body, None where it is none."""

    def __init__(
        self,
        slug: str,
        detail: str,
        *,
        pointer: str | None = None,
        hint: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.slug = slug
        self.status = _STATUS[slug]
        self.detail = detail
        self.pointer = pointer
        self.hint = hint
        self.headers = dict(headers or {})

    def document(self) -> dict[str, Any]:
        """The body of the answer."""
        document: dict[str, Any] = {
            "type": TYPE_PREFIX + self.slug,
            "title": TITLES[self.slug],
            "status": self.status,
            "detail": self.detail,
        }
        if self.pointer is not None:
            document["errors"] = [{"pointer": self.pointer, "detail": self.detail}]
        if self.hint:
            document["hint"] = self.hint
        return document

    def answer(self) -> Response:
        """The answer itself."""
        return Response(orjson.dumps(self.document()), self.status, self.headers, MEDIA_TYPE)


def busy(detail: str, retry_after_s: int = 1) -> Problem:
    """503: we are at a bound of our own; the request was not begun."""
    hint = "Try again a little later"
    return Problem("busy", detail, hint=hint, headers={"Retry-After": str(retry_after_s)})


def away(down: BackendDown) -> Problem:
    """503: Kafka or Cassandra does not answer. Whether a command was taken is not known: so it says."""
    return Problem(
        "away",
        f"{down.backend} does not answer",
        hint="Try again; with the same Idempotency-Key what was accepted already is not done twice",
        headers={"Retry-After": "2"},
    )


def problem_of(error: RequestError) -> Problem:
    """An error of the domain as a problem."""
    if isinstance(error, NotFound):
        return Problem("not-found", error.message, hint=error.hint)
    if isinstance(error, Conflict):
        return Problem("stale", error.message, hint=error.hint)
    return Problem("invalid", error.message, pointer=error.pointer, hint=error.hint)
