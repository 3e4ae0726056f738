"""What the API remembers of requests, so that a repeat gets the same answer, and a late one is found."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from waterclock.model.ids import Instant


class KeptAnswer(NamedTuple):
    """The answer to a request with an Idempotency-Key, kept for two days. ``headers``: as JSON."""

    tenant: str
    request_key: str
    fingerprint: bytes
    status: int
    headers: str
    body: bytes
    at: Instant


class Operation(NamedTuple):
    """A command that outlasted its request, kept for two days; its id is the command's. ``at``: when it was sent."""

    tenant: str
    operation_id: str
    job_id: str
    action: str
    at: Instant


class Requests(Protocol):
    """What the API remembers of requests, for two days."""

    def keep_answer(self, answer: KeptAnswer) -> None: ...

    def kept_answer(self, tenant: str, request_key: str) -> KeptAnswer | None: ...

    def keep_operation(self, operation: Operation) -> None: ...

    def operation(self, tenant: str, operation_id: str) -> Operation | None: ...
