"""The gRPC client for foreign systems: unary calls of plain bytes, to the addresses of a checked passage.

What must hold: as in ``http_client.py``. A channel is given literal addresses (``ipv4:192.0.2.1:443``) and the
authority and TLS name of the destination, so gRPC resolves nothing, also when it connects again; no proxies of the
environment, no service configuration from DNS, no retries of gRPC's own.

grpcio is an extra (``pip install 'waterclock[grpc]'``) and is imported at the first call. How it fails: EgressRefused
and Unreachable before anything is sent; NoAnswer; AttemptError of class ``grpc-<status>`` for what the server answered,
``executor-missing`` without the extra. Belongs to one event loop; gRPC's own threads do the rest.
"""

from __future__ import annotations

import asyncio
import importlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

from waterclock.model.errors import AttemptError

from .destination import of_target
from .guard import Guard, Passage
from .refusals import NoAnswer, Unreachable

READ_MAX_BYTES = 64 * 1024
_ADDRESSES_TRIED_MAX = 3
_CHANNELS_MAX = 64
_BACKOFF_MS_MIN, _BACKOFF_MS_MAX = 500, 5_000
_UNREACHED = re.compile(r"failed to connect to all addresses; last error: \w+: ipv[46]:(\S+): (.*)", re.DOTALL)
"""What gRPC says where no connection came about: the address that it tried last, and why."""


class GrpcRequest(NamedTuple):
    """What to send: ``method`` is ``package.Service/Method``, ``metadata`` checked by the caller."""

    target: str
    method: str
    metadata: tuple[tuple[str, str], ...]
    body: bytes
    timeout_s: float
    tls: bool


@dataclass(slots=True)
class _Channel:
    """One channel, and how many calls are on it: a busy one is never closed."""

    channel: Any
    calls_count: int = 0


class GrpcClient:
    """``ca_file``: authorities to believe instead of gRPC's own."""

    def __init__(self, guard: Guard, *, ca_file: Path | None = None) -> None:
        self._guard = guard
        self._ca_file = ca_file
        self._channels: dict[Passage, _Channel] = {}

    async def send(self, request: GrpcRequest) -> bytes:
        """Send once; the answer's bytes. Raises AttemptError and its heirs in ``refusals.py``."""
        grpc = _grpc()
        try:
            async with asyncio.timeout(request.timeout_s):
                passage = await self._guard.passage(of_target(request.target, tls=request.tls))
                return await self._send(grpc, request, passage)
        except TimeoutError:
            what = f"{request.target} gave no answer within {request.timeout_s:g} s"
            raise NoAnswer(what, error_class="timed-out") from None

    async def close(self) -> None:
        """Close every channel."""
        for each in self._channels.values():
            each.channel.close()
        self._channels.clear()

    async def _send(self, grpc: Any, request: GrpcRequest, passage: Passage) -> bytes:
        kept = self._channel(grpc, passage)
        kept.calls_count += 1
        try:
            call = kept.channel.unary_unary(f"/{request.method}").future(
                request.body, timeout=request.timeout_s, metadata=request.metadata
            )
            await _end_of(call)
            if call.code() is not grpc.StatusCode.OK:
                raise _failure(request, passage, call.code().name, call.details() or "")
            return bytes(call.result())
        finally:
            kept.calls_count -= 1

    def _channel(self, grpc: Any, passage: Passage) -> _Channel:
        kept = self._channels.pop(passage, None)
        if kept is None:
            self._make_room()
            kept = _Channel(_open(grpc, passage, self._ca_file))
        self._channels[passage] = kept  # at the end: the one at the front was used longest ago
        return kept

    def _make_room(self) -> None:
        over = len(self._channels) + 1 - _CHANNELS_MAX
        if over > 0:  # by many, where as many were busy at once
            idle = [passage for passage, each in self._channels.items() if not each.calls_count]
            for passage in idle[:over]:
                self._channels.pop(passage).channel.close()


def _grpc() -> Any:
    try:
        return importlib.import_module("grpc")
    except ImportError:
        raise AttemptError(
            "this worker cannot make gRPC calls: install waterclock[grpc] there", error_class="executor-missing"
        ) from None


async def _end_of(call: Any) -> None:
    """Wait for the call on the loop, not in a thread; a wait that is cancelled cancels the call."""
    loop = asyncio.get_running_loop()
    ended = loop.create_future()

    def tell() -> None:
        if not ended.done():
            ended.set_result(None)

    def from_its_thread(_: object) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(tell)

    call.add_done_callback(from_its_thread)
    try:
        await ended
    except asyncio.CancelledError:
        call.cancel()
        raise


def _open(grpc: Any, passage: Passage, ca_file: Path | None) -> Any:
    destination = passage.destination
    options = [
        ("grpc.default_authority", destination.authority),
        ("grpc.enable_http_proxy", 0),
        ("grpc.service_config_disable_resolution", 1),
        ("grpc.enable_retries", 0),
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.max_receive_message_length", READ_MAX_BYTES),
        ("grpc.initial_reconnect_backoff_ms", _BACKOFF_MS_MIN),
        ("grpc.max_reconnect_backoff_ms", _BACKOFF_MS_MAX),
    ]
    target = _literal_target(passage)
    if not destination.tls:
        return grpc.insecure_channel(target, options)
    roots = ca_file.read_bytes() if ca_file is not None else None
    options.append(("grpc.ssl_target_name_override", destination.host))
    return grpc.secure_channel(target, grpc.ssl_channel_credentials(roots), options)


def _literal_target(passage: Passage) -> str:
    """gRPC's own writing for addresses that need no resolver; all of one kind, so those like the first."""
    six = ":" in passage.addresses[0]
    alike = [address for address in passage.addresses if (":" in address) is six][:_ADDRESSES_TRIED_MAX]
    port = passage.destination.port
    return (
        "ipv6:" + ",".join(f"[{each}]:{port}" for each in alike)
        if six
        else "ipv4:" + ",".join(f"{each}:{port}" for each in alike)
    )


def _failure(request: GrpcRequest, passage: Passage, status: str, details: str) -> AttemptError:
    what = f"{request.target}/{request.method} answered {status}: {details[:1_000]}"
    if status == "DEADLINE_EXCEEDED":
        return NoAnswer(what, error_class="timed-out")
    if status == "RESOURCE_EXHAUSTED":
        too_long = "larger than max" in details
        return NoAnswer(what, error_class="answer-broken") if too_long else AttemptError(what, error_class="throttled")
    if status == "UNAVAILABLE" and (unreached := _unreached(passage, details)):
        in_tls = "handshake failed" in unreached
        error_class = "tls-failed" if in_tls else "connection-failed"
        return Unreachable(f"{passage.destination.place}: {unreached[:1_000]}", error_class=error_class)
    return AttemptError(what, error_class=f"grpc-{status.lower().replace('_', '-')}")


def _unreached(passage: Passage, details: str) -> str:
    """Why nobody was reached; empty where somebody was.

    A receiver that passes on what a call of its own met answers in the same words: they count for an address of ours.
    """
    found = _UNREACHED.match(details)
    ours = _literal_target(passage).partition(":")[2].split(",")
    return found[2] if found and unquote(found[1]) in ours else ""
