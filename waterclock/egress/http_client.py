"""The HTTP client for foreign systems: one request, one answer, bounded in time and size, no step aside.

What must hold: aiohttp never sees a name. It is given the literal address of a checked passage, with the Host header
and the TLS server name of the destination, so connections are reused per address and server name; its own resolver
refuses to work, and every socket is judged once more when it is made. No redirects, no proxies of the environment, no
cookies, no decompression (a small bomb stays small), no second try: whatever we sent, we sent once.

How it fails: EgressRefused and Unreachable before anything is sent, NoAnswer after. A status is never an error here.
Belongs to one event loop.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from waterclock.model.errors import AttemptError

from .destination import Destination, of_url
from .guard import Guard, Passage
from .refusals import EgressRefused, NoAnswer, Unreachable

READ_MAX_BYTES = 64 * 1024
KEPT_MAX_BYTES = 8 * 1024
_ADDRESSES_TRIED_MAX = 3
# Shorter than what common servers allow (5 s): a request on a connection that the other side is closing is lost.
_KEEP_ALIVE_S = 4.0
_HEADER_MAX = 8_190
_HEADERS_MAX = 64


class HttpRequest(NamedTuple):
    """What to send. ``headers`` are checked by the caller; Host and Content-Length are ours."""

    url: str
    method: str
    headers: dict[str, str]
    body: bytes
    timeout_s: float


class HttpAnswer(NamedTuple):
    """``body`` is the beginning, at most 8 KiB; ``size`` how much was read (at most 64 KiB), ``whole`` whether all."""

    status: int
    reason: str
    content_type: str
    retry_after: str
    body: bytes
    size: int
    whole: bool


class HttpClient:
    """``connections_max`` bounds the pool: a call beyond it waits, within its own time.

    ``ca_file``: authorities to believe instead of the system's.
    """

    def __init__(
        self,
        guard: Guard,
        *,
        connections_max: int = 256,
        connect_timeout_s: float = 5.0,
        ca_file: Path | None = None,
    ) -> None:
        self._guard = guard
        self._connections_max = connections_max
        self._connect = aiohttp.ClientTimeout(total=None, sock_connect=connect_timeout_s)
        self._tls = ssl.create_default_context(cafile=ca_file)
        self._session: aiohttp.ClientSession | None = None

    async def send(self, request: HttpRequest) -> HttpAnswer:
        """Send once and read the answer. Raises EgressRefused, Unreachable, NoAnswer."""
        destination, path = of_url(request.url)
        began = _Progress()
        try:
            async with asyncio.timeout(request.timeout_s):
                passage = await self._guard.passage(destination)
                return await self._send(request, passage, path, began)
        except TimeoutError:
            raise _timed_out(destination, request.timeout_s, began) from None

    async def close(self) -> None:
        """Close every connection."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _send(self, request: HttpRequest, passage: Passage, path: str, began: _Progress) -> HttpAnswer:
        trouble = Unreachable("nothing was tried")
        for address in passage.addresses[:_ADDRESSES_TRIED_MAX]:
            try:
                return await self._send_to(request, passage.destination, address, path, began)
            except aiohttp.ClientConnectorError as error:  # nobody there: nothing was sent, the next address may do
                trouble = _unreachable(passage.destination, error)
        raise trouble

    async def _send_to(
        self, request: HttpRequest, destination: Destination, address: str, path: str, began: _Progress
    ) -> HttpAnswer:
        session = self._session or self._open()
        try:
            async with session.request(
                request.method,
                _literal_url("https" if destination.tls else "http", address, destination.port, path),
                headers={"Host": destination.authority, **request.headers},
                data=request.body or None,
                allow_redirects=False,
                server_hostname=destination.host if destination.tls else None,
                trace_request_ctx=began,
            ) as response:
                return await _read(response)
        except (aiohttp.ClientConnectorError, TimeoutError, EgressRefused):
            raise
        except (aiohttp.ClientError, ValueError) as error:
            raise _broken(destination, error, began) from None

    def _open(self) -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(
            limit=self._connections_max,
            ssl=self._tls,
            resolver=_NoResolver(),
            use_dns_cache=False,
            happy_eyeballs_delay=None,
            keepalive_timeout=_KEEP_ALIVE_S,
            socket_factory=self._socket,
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            timeout=self._connect,
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            auto_decompress=False,
            skip_auto_headers=("User-Agent", "Accept-Encoding", "Content-Type"),
            read_bufsize=READ_MAX_BYTES,
            max_line_size=_HEADER_MAX,
            max_field_size=_HEADER_MAX,
            max_headers=_HEADERS_MAX,
            trace_configs=[_tracing()],
        )
        # Else it would send a GET, PUT or DELETE a second time when the connection is lost: no way to say so in public.
        self._session._retry_connection = False
        return self._session

    def _socket(self, info: tuple[Any, ...]) -> socket.socket:
        family, kind, protocol, _, place = info
        self._guard.check_socket(place[0], place[1])
        made = socket.socket(family, kind, protocol)
        made.setblocking(False)
        return made


class _Progress:
    """Whether a request has left: what decides between "nothing happened" and "nobody knows"."""

    __slots__ = ("sent",)

    def __init__(self) -> None:
        self.sent = False


class _NoResolver(AbstractResolver):
    """The client connects to addresses; whoever asks for a name has gone round the guard."""

    async def resolve(self, host: str, *_: object, **__: object) -> list[ResolveResult]:
        raise EgressRefused(f"{host} was to be resolved behind the guard's back")

    async def close(self) -> None:
        return


def _tracing() -> aiohttp.TraceConfig:
    trace = aiohttp.TraceConfig()

    async def sent(_session: object, context: Any, _headers: object) -> None:
        context.trace_request_ctx.sent = True

    trace.on_request_headers_sent.append(sent)
    return trace


@lru_cache(maxsize=4_096)
def _literal_url(scheme: str, address: str, port: int, path: str) -> URL:
    host = f"[{address}]" if ":" in address else address
    return URL(f"{scheme}://{host}:{port}{path}", encoded=True)


async def _read(response: aiohttp.ClientResponse) -> HttpAnswer:
    """The answer, and of its body as much as we are ready to look at. What is left unread closes the connection."""
    kept, size = b"", 0
    while size <= READ_MAX_BYTES:
        chunk = await response.content.read(READ_MAX_BYTES)
        if not chunk:
            break
        size += len(chunk)
        kept += chunk[: KEPT_MAX_BYTES - len(kept)]
    whole = response.content.at_eof()
    if not whole:
        response.close()
    return HttpAnswer(
        response.status,
        response.reason or "",
        response.headers.get("Content-Type", ""),
        response.headers.get("Retry-After", ""),
        kept,
        min(size, READ_MAX_BYTES),
        whole,
    )


def _timed_out(destination: Destination, timeout_s: float, began: _Progress) -> AttemptError:
    if began.sent:
        return NoAnswer(f"{destination.place} gave no whole answer within {timeout_s:g} s", error_class="timed-out")
    return Unreachable(f"no connection to {destination.place} within {timeout_s:g} s", error_class="connection-failed")


def _unreachable(destination: Destination, error: aiohttp.ClientConnectorError) -> Unreachable:
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return Unreachable(f"{destination.place}: {error.certificate_error}", error_class="tls-failed")
    what = f"{destination.place}: {error.os_error}"
    return Unreachable(
        what, error_class="tls-failed" if isinstance(error, aiohttp.ClientSSLError) else "connection-failed"
    )


def _broken(destination: Destination, error: Exception, began: _Progress) -> AttemptError:
    what = f"{destination.place}: {type(error).__name__}: {error}"
    if isinstance(error, aiohttp.ConnectionTimeoutError) or not began.sent:
        return Unreachable(what, error_class="connection-failed")
    lost = isinstance(error, aiohttp.ClientConnectionError)
    return NoAnswer(what, error_class="connection-lost" if lost else "answer-broken")
