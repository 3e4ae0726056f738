"""The executor of gRPC calls: the job's payload as the request's bytes, the status as the outcome.

What must hold: as for HTTP callbacks, in metadata: ``idempotency-key`` is the run id, ``waterclock-fence`` the fencing
token; nothing that a job says replaces them. How it fails: ``grpc-<status>``, ``throttled`` (RESOURCE_EXHAUSTED),
``executor-missing`` without the extra, and what ``waterclock/egress`` raises.
"""

from __future__ import annotations

import binascii
import re
from functools import lru_cache
from typing import Any

from waterclock.egress.grpc_client import GrpcClient, GrpcRequest
from waterclock.model.errors import AttemptError
from waterclock.model.executor import GrpcCall, Pairs, is_set_by_us
from waterclock.model.time_text import format_rfc3339

from . import ending
from .kept import fitting
from .port import Attempt, EndedAttempt

_NAME = re.compile(r"[a-z0-9_.-]{1,100}\Z")
_VALUE = re.compile(r"[\x20-\x7e]*\Z")
_KEPT_BYTES = 4 * 1024


class GrpcCalls:
    """Makes the calls of one worker."""

    def __init__(self, client: GrpcClient) -> None:
        self._client = client

    async def serve(self, attempt: Attempt, call: GrpcCall) -> EndedAttempt:
        """Call, and tell how it ended. Raises AttemptError where the status is not OK or no answer came."""
        work = attempt.work
        metadata = (
            *_checked(call.metadata),
            ("idempotency-key", work.run_id),
            ("waterclock-run-id", work.run_id),
            ("waterclock-attempt", str(work.attempt)),
            ("waterclock-fence", str(attempt.token)),
            ("waterclock-fire-time", format_rfc3339(work.fire_at)),
            *((("waterclock-backfill", work.backfill),) if work.backfill else ()),
            *((("waterclock-triggered-by", work.triggered_by),) if work.triggered_by else ()),
        )
        request = GrpcRequest(call.target, call.method, metadata, work.payload, call.timeout_s, call.tls)
        return ending.succeeded(attempt, _result(await self._client.send(request)))

    async def close(self) -> None:
        """Close every channel."""
        await self._client.close()


@lru_cache(maxsize=4_096)
def _checked(metadata: Pairs) -> Pairs:
    for name, value in metadata:
        if not _NAME.match(name) or not _VALUE.match(value) or name.endswith("-bin"):
            raise AttemptError(f"metadata {name[:40]!a} is not one line of plain text", error_class="executor-refused")
        if is_set_by_us(name):
            raise AttemptError(f"metadata {name[:40]!a} is set by us: leave it out", error_class="executor-refused")
    return metadata


def _result(answer: bytes) -> dict[str, Any] | None:
    """The answer's bytes as base64, where they are few; how many there were in any case."""
    if not answer:
        return None
    result: dict[str, Any] = {"bytes": len(answer)}
    if len(answer) <= _KEPT_BYTES:
        result["body_base64"] = binascii.b2a_base64(answer, newline=False).decode()
    return fitting(result)
