"""A TCP proxy that understands Kafka's request frames, to make doubt on a real broker.

The broker advertises the proxy's port, so every client goes through it. A frame is int32 size, then the header: int16
api key, int16 version, int32 correlation id, client id. A rule waits for the next EndTxn of one transactional id and

* ``LOSE_REQUEST``: drops it and closes the connection: not applied, no answer;
* ``LOSE_ANSWER``: passes it on, drops the answer, then closes: applied, no answer;
* ``DELAY``: closes towards the client but keeps the request until ``release()``: it arrives later, and may then end
  the transaction that is open at that time.

The client repeats an EndTxn by itself on a new connection. With ``persistent`` the rule swallows these too, until the
id is initialised again (InitProducerId): the caller of ``commit`` then gets no answer at all.
"""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from typing import NamedTuple

END_TXN = 26
INIT_PRODUCER_ID = 22

_FLEXIBLE_FROM = {END_TXN: 3, INIT_PRODUCER_ID: 2}
_FRAME_MAX = 200 * 1024 * 1024


class Fate(Enum):
    LOSE_REQUEST = "the request is lost"
    LOSE_ANSWER = "applied, the answer is lost"
    DELAY = "arrives later"


class Request(NamedTuple):
    """The part of a request that rules look at."""

    api_key: int
    version: int
    correlation_id: int
    transactional_id: str | None


class Rule:
    """What becomes of the next EndTxn of one id. ``met``: set when it happened; ``count``: how often."""

    def __init__(self, transactional_id: str, fate: Fate, *, persistent: bool) -> None:
        self.transactional_id = transactional_id
        self.fate = fate
        self.persistent = persistent
        self.met = threading.Event()
        self.count = 0
        self._delayed: list[tuple[socket.socket, bytes]] = []

    def keep(self, upstream: socket.socket, frame: bytes) -> None:
        self._delayed.append((upstream, frame))

    def release(self) -> None:
        """Let the delayed requests arrive, and wait for the broker's answer to each."""
        for upstream, frame in self._delayed:
            upstream.settimeout(10)
            upstream.sendall(frame)
            _read_frame(upstream)
            upstream.close()
        self._delayed.clear()


class Proxy:
    """Listens on 127.0.0.1; ``aim`` names the broker once it is known."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._upstream_port = 0
        self._lock = threading.Lock()
        self._rules: list[Rule] = []
        self._sockets: set[socket.socket] = set()
        threading.Thread(target=self._accept, name="proxy accept", daemon=True).start()

    def aim(self, upstream_port: int) -> None:
        """Forward to the broker on 127.0.0.1:``upstream_port``."""
        self._upstream_port = upstream_port

    def rule(self, transactional_id: str, fate: Fate, *, persistent: bool = True) -> Rule:
        """For the next EndTxn of ``transactional_id``."""
        rule = Rule(transactional_id, fate, persistent=persistent)
        with self._lock:
            self._rules.append(rule)
        return rule

    def cut(self) -> None:
        """Close every connection that is open now."""
        with self._lock:
            sockets = list(self._sockets)
        for each in sockets:
            _shut(each)

    def close(self) -> None:
        _shut(self._listener)
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), name="proxy up", daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        try:
            upstream = socket.create_connection(("127.0.0.1", self._upstream_port), timeout=5)
        except OSError:
            client.close()
            return
        upstream.settimeout(None)
        for each in (client, upstream):
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection = _Connection(client, upstream)
        with self._tracked(client, upstream):
            down = threading.Thread(target=connection.pump_answers, name="proxy down", daemon=True)
            down.start()
            self._pump_requests(connection)
            down.join()
        connection.close()

    def _pump_requests(self, connection: _Connection) -> None:
        try:
            while (frame := _read_frame(connection.client)) is not None:
                request = parse_request(frame)
                fate = self._fate_of(request, connection, frame)
                if fate is None:
                    connection.upstream.sendall(frame)
                elif fate is Fate.LOSE_ANSWER:
                    connection.swallow = request.correlation_id
                    connection.upstream.sendall(frame)
                else:
                    break
        except OSError:
            pass
        connection.end_client()

    def _fate_of(self, request: Request, connection: _Connection, frame: bytes) -> Fate | None:
        if request.transactional_id is None:
            return None
        with self._lock:
            rule = next((r for r in self._rules if r.transactional_id == request.transactional_id), None)
            if rule is None:
                return None
            if request.api_key == INIT_PRODUCER_ID:
                if rule.met.is_set():
                    self._rules.remove(rule)
                return None
            if not rule.persistent:
                self._rules.remove(rule)
            rule.count += 1
            first = not rule.met.is_set()
            rule.met.set()
        if rule.fate is Fate.DELAY and first:
            connection.is_detached = True
            rule.keep(connection.upstream, frame)
        if rule.fate is Fate.LOSE_ANSWER and not first:
            return Fate.LOSE_REQUEST  # it stands already
        return rule.fate

    @contextmanager
    def _tracked(self, *sockets: socket.socket) -> Iterator[None]:
        with self._lock:
            self._sockets.update(sockets)
        yield
        with self._lock:
            self._sockets.difference_update(sockets)


class _Connection:
    """One client's connection and its counterpart to the broker."""

    def __init__(self, client: socket.socket, upstream: socket.socket) -> None:
        self.client = client
        self.upstream = upstream
        self.swallow: int | None = None
        self.is_detached = False

    def pump_answers(self) -> None:
        try:
            while (frame := self._next_answer()) is not None:
                if self.swallow is not None and struct.unpack_from(">i", frame, 4)[0] == self.swallow:
                    break
                self.client.sendall(frame)
        except OSError:
            pass
        _shut(self.client)

    def end_client(self) -> None:
        _shut(self.client)
        if not self.is_detached:
            _shut(self.upstream)

    def close(self) -> None:
        self.client.close()
        if not self.is_detached:
            self.upstream.close()

    def _next_answer(self) -> bytes | None:
        """As ``_read_frame``, but looks up now and then: a detached connection is not ours to read any more."""
        while not self.is_detached:
            readable, _, _ = select.select([self.upstream], [], [], 0.1)
            if readable and not self.is_detached:
                return _read_frame(self.upstream)
        return None


def parse_request(frame: bytes) -> Request:
    """Reads the transactional id of EndTxn and InitProducerId; other requests have None."""
    api_key, version, correlation_id, client_length = struct.unpack_from(">hhih", frame, 4)
    at = 14 + max(0, client_length)
    transactional_id = None
    if api_key in _FLEXIBLE_FROM:
        if version >= _FLEXIBLE_FROM[api_key]:
            at += 1  # no tagged fields in the header
            length, at = _varint(frame, at)
            length -= 1
        else:
            (length,) = struct.unpack_from(">h", frame, at)
            at += 2
        if length >= 0:
            transactional_id = frame[at : at + length].decode()
    return Request(api_key, version, correlation_id, transactional_id)


def _varint(frame: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    for _ in range(5):
        byte = frame[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            return value, at
    raise ValueError("a varint of more than five bytes")


def _read_frame(source: socket.socket) -> bytes | None:
    """One frame with its size; None at the end of the stream."""
    head = _read_exactly(source, 4)
    if head is None:
        return None
    (size,) = struct.unpack(">i", head)
    if not 0 <= size <= _FRAME_MAX:
        raise OSError(f"a frame of {size} bytes")
    body = _read_exactly(source, size)
    return None if body is None else head + body


def _read_exactly(source: socket.socket, size: int) -> bytes | None:
    parts: list[bytes] = []
    left = size
    while left:
        part = source.recv(min(left, 1 << 20))
        if not part:
            return None
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def _shut(which: socket.socket) -> None:
    with contextlib.suppress(OSError):
        which.shutdown(socket.SHUT_RDWR)
