"""A TCP proxy that understands Kafka's request frames and breaks connections at the worst moment.

This one cuts: then the client sends the EndTxn again by itself, on a new connection, and the commit returns as if
nothing had been (``log/doubt_proxy.py`` loses answers and keeps connections, ``late_proxy.py`` chooses when what was
kept back arrives). A rule waits for the next EndTxn of one transactional id and

* ``LOSE_REQUEST``: drops it and cuts: not applied until the client repeats it;
* ``LOSE_ANSWER``: passes it on, drops the answer and cuts: applied, and repeated;
* ``DELAY``: cuts towards the client, but keeps the request until ``release()``: a copy of it arrives late, and may
  then end the transaction that is open at that time.

A frame is int32 size, then the header: int16 api key, int16 version, int32 correlation id, client id. The broker's
address in answers is replaced by the proxy's, so that clients come back through it. One broker only.
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

_METADATA, _FIND_COORDINATOR, END_TXN = 3, 10, 26
_FRAME_MAX = 200 * 1024 * 1024
_ANSWER_TIMEOUT_S = 10.0
_LOOK_UP_S = 0.1


class Fate(Enum):
    """What becomes of an EndTxn."""

    LOSE_REQUEST = "lost, and the connection cut"
    LOSE_ANSWER = "applied, and the connection cut"
    DELAY = "kept back, and the connection cut"


class Way(Enum):
    """Where a request goes that no rule holds back."""

    ON = "to the broker"
    LOST = "nowhere, and the connection stays"
    CUT = "nowhere, and the connection is cut"


class Request(NamedTuple):
    """One frame of a client. ``connection`` and ``correlation_id`` tell its answer."""

    api_key: int
    version: int
    correlation_id: int
    frame: bytes
    connection: object


class Rule:
    """For the next EndTxn of one id. ``met`` is set when it came."""

    def __init__(self, transactional_id: str, fate: Fate) -> None:
        self.transactional_id = transactional_id
        self.fate = fate
        self.met = threading.Event()
        self._kept: list[tuple[socket.socket, bytes]] = []

    def keep(self, upstream: socket.socket, frame: bytes) -> None:
        self._kept.append((upstream, frame))

    def release(self) -> int | None:
        """Let the request that was kept back arrive, and wait for the broker's answer: its error code, 0 for done.

        None: nothing was kept back, or the connection to the broker has ended meanwhile.
        """
        error = None
        for upstream, frame in self._kept:
            upstream.settimeout(_ANSWER_TIMEOUT_S)
            with contextlib.suppress(OSError):
                upstream.sendall(frame)
                answer = _read_frame(upstream)
                if answer is not None:  # size, correlation id, throttle time, error code
                    (error,) = struct.unpack_from(">h", answer, 12)
            upstream.close()
        self._kept.clear()
        return error

    def drop(self) -> None:
        """Lose for good what was kept back."""
        for upstream, _ in self._kept:
            upstream.close()
        self._kept.clear()


class CuttingProxy:
    """Listens on 127.0.0.1:``port`` in front of the broker at ``host:broker_port``."""

    def __init__(self, host: str, broker_port: int) -> None:
        self._broker = (host, broker_port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._is_refusing = False
        self._lock = threading.Lock()
        self._rules: list[Rule] = []
        self._at_close: list[Rule] = []
        self._sockets: set[socket.socket] = set()
        threading.Thread(target=self._accept, name="proxy accept", daemon=True).start()

    def rule(self, transactional_id: str, fate: Fate) -> Rule:
        """For the next EndTxn of ``transactional_id``, a commit or an abort."""
        rule = Rule(transactional_id, fate)
        with self._lock:
            self._rules.append(rule)
            self._at_close.append(rule)
        return rule

    def cut(self, *, for_good: bool = False) -> None:
        """Cut every connection; ``for_good``: and take no new one."""
        self._is_refusing = self._is_refusing or for_good
        with self._lock:
            sockets = list(self._sockets)
        for each in sockets:
            _shut(each)

    def close(self) -> None:
        _shut(self._listener)
        self._listener.close()
        self.cut(for_good=True)
        for rule in self._at_close:
            rule.drop()

    def take_rule(self, transactional_id: str) -> Rule | None:
        """The rule for this id, once."""
        with self._lock:
            rule = next((each for each in self._rules if each.transactional_id == transactional_id), None)
            if rule is not None:
                self._rules.remove(rule)
                rule.met.set()
            return rule

    def way_of(self, request: Request) -> Way:
        """Where this request goes, which no rule holds back; it waits for the answer."""
        return Way.ON

    def reaches(self, connection: object, answer: bytes) -> bool:
        """Whether the client gets this answer."""
        return True

    def led_through(self, frame: bytes) -> bytes:
        """The answer with the broker's address replaced by ours: the port is four bytes behind the host's text."""
        host, port = self._broker
        return frame.replace(host.encode() + struct.pack(">i", port), host.encode() + struct.pack(">i", self.port))

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self._is_refusing:
                client.close()
                continue
            threading.Thread(target=self._serve, args=(client,), name="proxy", daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        try:
            upstream = socket.create_connection(self._broker)
        except OSError:
            client.close()
            return
        connection = _Connection(self, client, upstream)
        with self._tracked(client, upstream):
            down = threading.Thread(target=connection.pump_answers, name="proxy answers", daemon=True)
            down.start()
            connection.pump_requests()
            down.join()
        connection.close()

    @contextmanager
    def _tracked(self, *sockets: socket.socket) -> Iterator[None]:
        with self._lock:
            self._sockets.update(sockets)
        yield
        with self._lock:
            self._sockets.difference_update(sockets)


class _Connection:
    """One client's connection and its counterpart to the broker."""

    def __init__(self, proxy: CuttingProxy, client: socket.socket, upstream: socket.socket) -> None:
        self._proxy = proxy
        self._client = client
        self._upstream = upstream
        self._rewritten: set[int] = set()
        self._swallow: int | None = None
        self._is_detached = False
        for each in (client, upstream):
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def pump_requests(self) -> None:
        with contextlib.suppress(OSError):
            while (frame := _read_frame(self._client)) is not None and (way := self._way_of(frame)) is not Way.CUT:
                if way is Way.ON:
                    self._upstream.sendall(frame)
        if self._swallow is None:
            _shut(self._client)
            if not self._is_detached:
                _shut(self._upstream)

    def pump_answers(self) -> None:
        with contextlib.suppress(OSError):
            while (frame := self._next_answer()) is not None:
                (correlation_id,) = struct.unpack_from(">i", frame, 4)
                if correlation_id == self._swallow:
                    break
                if correlation_id in self._rewritten:
                    self._rewritten.discard(correlation_id)
                    frame = self._proxy.led_through(frame)
                if self._proxy.reaches(self, frame):
                    self._client.sendall(frame)
        _shut(self._client)

    def close(self) -> None:
        self._client.close()
        if not self._is_detached:
            self._upstream.close()

    def _way_of(self, frame: bytes) -> Way:
        """Whether the broker gets this request now."""
        api_key, version, correlation_id = struct.unpack_from(">hhi", frame, 4)
        if api_key in {_METADATA, _FIND_COORDINATOR}:
            self._rewritten.add(correlation_id)
        rule = self._proxy.take_rule(transactional_id_of(frame, version)) if api_key == END_TXN else None
        if rule is None:
            return self._proxy.way_of(Request(api_key, version, correlation_id, frame, self))
        if rule.fate is Fate.LOSE_ANSWER:
            self._swallow = correlation_id
            return Way.ON
        if rule.fate is Fate.DELAY:
            self._is_detached = True
            rule.keep(self._upstream, frame)
        return Way.CUT

    def _next_answer(self) -> bytes | None:
        """The next frame; looks up now and then, because a detached connection is not ours to read any more."""
        while not self._is_detached:
            readable, _, _ = select.select([self._upstream], [], [], _LOOK_UP_S)
            if readable and not self._is_detached:
                return _read_frame(self._upstream)
        return None


def transactional_id_of(frame: bytes, version: int) -> str:
    """Header v1 and body v0-v2 of EndTxn, AddPartitionsToTxn and AddOffsetsToTxn, which is what the client speaks."""
    if version > 2:
        raise RuntimeError(f"v{version} of a request about a transaction: this proxy knows v0 to v2")
    (client_length,) = struct.unpack_from(">h", frame, 12)
    at = 14 + max(0, client_length)
    (length,) = struct.unpack_from(">h", frame, at)
    return frame[at + 2 : at + 2 + length].decode()


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
