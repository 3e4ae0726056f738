"""The HTTP client for foreign systems: one request, one answer, bounded in time and size, no step aside.

What must hold: aiohttp never sees a name. It is given the literal address of a checked passage, with the Host header
and the TLS server name of the destination, so connections are reused per address and server name; its own resolver
refuses to work, and every socket is judged once more when it is made. No redirects, no proxies of the environment, no
cookies, no decompression (a small bomb stays small), no second try: whatever we sent, we sent once. No error tells the
query: it may hold a token, and errors are kept with the run's history.

How it fails: EgressRefused, Unreachable and NotSent before anything is sent, NoAnswer after. A status is never an error
here. Belongs to one event loop.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from waterclock.model.errors import AttemptError, RequestError

from .destination import Destination, of_url
from .guard import Guard, Passage
from .refusals import EgressRefused, NoAnswer, NotSent, Unreachable

READ_MAX_BYTES = 64 * 1024
KEPT_MAX_BYTES = 8 * 1024
_ADDRESSES_TRIED_MAX = 3
# Shorter than what common servers allow (5 s): a request on a connection that the other side is closing is lost.
_KEEP_ALIVE_S = 4.0
_HEADER_MAX = 8_190
_HEADERS_MAX = 64
_NO_TIME_S = 0.05
"""What a kept address costs at most: the limits of a call that has lost no more are those that it has always."""
_QUERY_CUT_MIN = 4
"""Of a shorter query the letters may stand in any word: it is cut where its question mark stands before it."""


class HttpRequest(NamedTuple):
    """What to send. ``headers`` are checked by the caller, who names User-Agent and Accept-Encoding too, and
    Content-Type where there is a body. Host and Content-Length are ours.
    """

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

    ``ca_file``: authorities to believe instead of the system's. Raises RequestError where it holds none.
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
        self._turns = asyncio.Semaphore(connections_max)
        """Before the pool, whose own wait for a connection ends no other way than that for an answer."""
        self._connect_timeout_s = connect_timeout_s
        self._tls = _believing(ca_file)
        self._session: aiohttp.ClientSession | None = None

    async def send(self, request: HttpRequest) -> HttpAnswer:
        """Send once and read the answer. Raises EgressRefused, Unreachable, NoAnswer; NotSent, where it was cancelled
        while it waited for a connection."""
        destination, path = of_url(request.url)
        began_s = time.monotonic()
        passage = await self._passage(destination, request.timeout_s)
        if self._turns.locked():
            await self._wait_for_turn(destination, request.timeout_s, began_s)
        else:
            await self._turns.acquire()
        trouble: Unreachable | None = None
        left_s = request.timeout_s
        try:
            for address in passage.addresses[:_ADDRESSES_TRIED_MAX]:
                spent_s = time.monotonic() - began_s
                if spent_s > _NO_TIME_S:
                    left_s = request.timeout_s - spent_s
                if left_s <= 0:
                    break
                try:
                    return await self._send_to(request, destination, address, path, left_s)
                except Unreachable as unreachable:  # nobody there: nothing was sent, the next address may do
                    trouble = unreachable
        finally:
            self._turns.release()
        if trouble is None:
            what = f"{destination.place}: the time of {request.timeout_s:g} s was over before it could be called"
            trouble = Unreachable(what, error_class="timed-out")
        raise trouble

    async def close(self) -> None:
        """Close every connection."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _passage(self, destination: Destination, timeout_s: float) -> Passage:
        try:
            return await self._guard.passage(destination, within_s=timeout_s)
        except TimeoutError:
            what = f"{destination.place}: the time of {timeout_s:g} s was over before its address was known"
            raise Unreachable(what, error_class="timed-out") from None

    async def _wait_for_turn(self, destination: Destination, timeout_s: float, began_s: float) -> None:
        try:
            async with asyncio.timeout(timeout_s - (time.monotonic() - began_s)):
                await self._turns.acquire()
        except TimeoutError:
            what = f"{destination.place}: none of the {self._connections_max} connections was free in {timeout_s:g} s"
            raise Unreachable(f"{what}; see egress.connections", error_class="timed-out") from None
        except asyncio.CancelledError:
            raise NotSent(f"{destination.place}: it was stopped while it waited for a connection") from None

    async def _send_to(
        self, request: HttpRequest, destination: Destination, address: str, path: str, left_s: float
    ) -> HttpAnswer:
        session = self._session or self._open()
        headers = request.headers
        headers["Host"] = destination.authority
        try:
            async with session.request(
                request.method,
                _literal_url("https" if destination.tls else "http", address, destination.port, path),
                headers=headers,
                data=request.body or None,
                allow_redirects=False,
                server_hostname=destination.host if destination.tls else None,
                timeout=_limits(left_s, self._connect_timeout_s),
            ) as response:
                return await _read(response)
        except EgressRefused:
            raise
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise _trouble(destination, path, request.timeout_s, error) from None

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
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            auto_decompress=False,
            read_bufsize=READ_MAX_BYTES,
            max_line_size=_HEADER_MAX,
            max_field_size=_HEADER_MAX,
            max_headers=_HEADERS_MAX,
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


def _believing(ca_file: Path | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca_file)
    except OSError as error:  # SSLError is one
        raise RequestError(
            f"egress.ca_file cannot be used: {ca_file}: {error.strerror or error}",
            pointer="/egress/ca_file",
            hint="Name a PEM file of certificates that this process may read",
        ) from None


class _NoResolver(AbstractResolver):
    """The client connects to addresses; whoever asks for a name has gone round the guard."""

    async def resolve(self, host: str, *_: object, **__: object) -> list[ResolveResult]:
        raise EgressRefused(f"{host} was to be resolved behind the guard's back")

    async def close(self) -> None:
        return


@lru_cache(maxsize=256)
def _limits(total_s: float, connect_s: float) -> aiohttp.ClientTimeout:
    """aiohttp's own clock, because it is there anyway: one more around it costs a tenth of the call."""
    return aiohttp.ClientTimeout(total=total_s, sock_connect=min(total_s, connect_s))


@lru_cache(maxsize=4_096)
def _literal_url(scheme: str, address: str, port: int, path: str) -> URL:
    host = f"[{address}]" if ":" in address else address
    return URL(f"{scheme}://{host}:{port}{path}", encoded=True)


async def _read(response: aiohttp.ClientResponse) -> HttpAnswer:
    """The answer, and of its body as much as we are ready to look at. What is left unread closes the connection."""
    length = response.content_length
    body = await response.read() if length is not None and length <= READ_MAX_BYTES else await _beginning(response)
    whole = response.content.at_eof()
    if not whole:
        response.close()
    headers = response.headers
    return HttpAnswer(
        response.status,
        response.reason or "",
        headers.get("Content-Type", ""),
        headers.get("Retry-After", ""),
        body[:KEPT_MAX_BYTES],
        min(len(body), READ_MAX_BYTES),
        whole,
    )


async def _beginning(response: aiohttp.ClientResponse) -> bytes:
    """A little more than we look at, of a body whose length is great or unknown."""
    body = bytearray()
    while len(body) <= READ_MAX_BYTES:
        chunk = await response.content.read(READ_MAX_BYTES)
        if not chunk:
            break
        body += chunk
    return bytes(body)


def _trouble(destination: Destination, path: str, timeout_s: float, error: Exception) -> AttemptError:
    """What aiohttp raised, told apart by whether the request can have arrived."""
    place = destination.place
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return Unreachable(f"{place}: {error.certificate_error}", error_class="tls-failed")
    if isinstance(error, aiohttp.ClientConnectorError):
        tls = isinstance(error, aiohttp.ClientSSLError)
        return Unreachable(f"{place}: {error.os_error}", error_class="tls-failed" if tls else "connection-failed")
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return Unreachable(f"{place} took no connection in time", error_class="connection-failed")
    if isinstance(error, TimeoutError):
        return NoAnswer(f"{place} gave no whole answer within {timeout_s:g} s", error_class="timed-out")
    lost = isinstance(error, aiohttp.ClientConnectionError)
    what = f"{place}: {type(error).__name__}: {_said(error, path)}"
    return NoAnswer(what, error_class="connection-lost" if lost else "answer-broken")


def _said(error: Exception, path: str) -> str:
    """The error's own words, without the URL that aiohttp ends some of them with, and the query nowhere."""
    said = f"{error.status}, {error.message}" if isinstance(error, aiohttp.ClientResponseError) else str(error)
    query = path.partition("?")[2]
    if not query:
        return said
    return said.replace(query if len(query) >= _QUERY_CUT_MIN else f"?{query}", "...")
