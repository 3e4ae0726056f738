"""A TCP proxy in front of one server, in a process of its own: it cuts, delays, stops one way, makes EndTxn late.

``python -m tests.chaos.proxy PORT UPSTREAM_PORT NOTES [kafka]``; orders come as JSON lines on its standard input, what
it obeyed, and what befell an EndTxn, goes to NOTES as JSON lines. Bytes are never lost within a connection that lives
on, as TCP would not: a way that is stopped keeps them, and either delivers them later or the connection is cut. Only
for Kafka are frames understood (int32 size, int16 api key): a late EndTxn is taken off its connection, the client's
end of that is cut, and the request reaches the broker some time later, when the client has long sent it again. What
the broker answers then is noted: only one that it accepts (error 0) can have ended another transaction.
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import sys
import time
from collections import deque
from pathlib import Path
from typing import Any

_END_TXN = 26
_FRAME_MAX = 200 * 1024 * 1024
_HELD_MAX = 4 << 20
"""Bytes kept back on one way of one connection before its sender is made to wait."""

_ANSWER_WITHIN_S = 10.0
_ANSWER_SIZES = {10: 8, 12: 9, 22: 9}
"""Of an answer to EndTxn, by version: the size that it names, and where behind that its error stands."""


class Weather:
    """What happens to all connections just now, and to the next EndTxn."""

    def __init__(self, notes: Path) -> None:
        self.delay_s = 0.0
        self.stopped: set[str] = set()
        self.late_s: list[float] = []
        self.ways: set[Way] = set()
        self._notes = notes.open("a", buffering=1)

    def obey(self, order: dict[str, Any]) -> None:
        """``{"delay": s}``, ``{"stop": way}``, ``{"go": way, "cut": bool}``, ``{"cut": true}``, ``{"late": s}``."""
        if "delay" in order:
            self.delay_s = float(order["delay"])
        if "late" in order:
            self.late_s.append(float(order["late"]))
        if "stop" in order:
            self.stopped.add(order["stop"])
        if "go" in order:
            self.stopped.discard(order["go"])
        # What has no connection to happen to has not happened: two ways make one.
        connections = sum(way.transport is not None and not way.transport.is_closing() for way in self.ways) // 2
        if order.get("cut"):
            for way in list(self.ways):
                way.cut()
        for way in list(self.ways):
            way.flush()
        self.note(obeyed=order, connections=connections)

    def note(self, **what: object) -> None:
        self._notes.write(json.dumps({"at": time.time_ns() // 1_000, **what}) + "\n")


class Way(asyncio.Protocol):
    """One direction of one connection: what this end's transport receives goes out at the peer's."""

    def __init__(self, weather: Weather, name: str, framed: bool) -> None:
        self._weather = weather
        self._name = name
        self._framed = framed
        self._partial = bytearray()
        self._held: deque[tuple[float, bytes]] = deque()
        self._held_bytes = 0
        self._timer: asyncio.TimerHandle | None = None
        self._is_over = False
        self.is_detached = False
        self.answer: LateAnswer | None = None
        self.peer: Way | None = None
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self._weather.ways.add(self)

    def data_received(self, data: bytes) -> None:
        if self.is_detached:
            self._hear(data)
            return
        if self._framed:
            data = self._whole_frames(data)
        if data:
            self._pass(data)

    def _pass(self, data: bytes) -> None:
        self._held.append((time.monotonic() + self._weather.delay_s, data))
        self._held_bytes += len(data)
        if self._held_bytes > _HELD_MAX and self.transport is not None:
            self.transport.pause_reading()
        self.flush()

    def flush(self) -> None:
        """Send on what is due by now."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._name in self._weather.stopped:
            return
        now_s = time.monotonic()
        out = self.peer.transport if self.peer is not None else None
        while self._held and out is not None and self._held[0][0] <= now_s:
            _, data = self._held.popleft()
            self._held_bytes -= len(data)
            out.write(data)
        if self._held and out is not None:
            self._timer = asyncio.get_running_loop().call_later(self._held[0][0] - now_s, self.flush)
        elif self._is_over and out is not None:
            self._weather.ways.discard(self)
            out.close()
        if self._held_bytes <= _HELD_MAX and self.transport is not None and not self.transport.is_closing():
            self.transport.resume_reading()

    def pause_writing(self) -> None:
        """Our own end takes no more: the other end has to wait."""
        if self.peer is not None and self.peer.transport is not None:
            self.peer.transport.pause_reading()

    def resume_writing(self) -> None:
        if self.peer is not None and self.peer.transport is not None:
            self.peer.transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        """What is held still goes out, later where its way is stopped; then the other end is closed, too."""
        self._is_over = True
        if not self._held or self.is_detached:
            self._weather.ways.discard(self)
        if not self.is_detached:
            self.flush()

    def cut(self) -> None:
        """A reset, both ends, and what is held is lost with it."""
        self._held.clear()
        if self._is_over:
            self._weather.ways.discard(self)
        for way in (self, self.peer):
            if way is not None and not way.is_detached:
                _reset(way.transport)

    # -- frames

    def _whole_frames(self, data: bytes) -> bytes:
        """The whole frames that have come by now, without an EndTxn that is to be late."""
        self._partial += data
        end = 0
        while len(self._partial) - end >= 6:
            size, api_key = struct.unpack_from(">ih", self._partial, end)
            if not 0 <= size <= _FRAME_MAX:
                raise OSError(f"a frame of {size} bytes")
            if len(self._partial) - end < 4 + size:
                break
            if api_key == _END_TXN and self._weather.late_s:
                self._make_late(bytes(self._partial[end : end + 4 + size]), self._weather.late_s.pop(0))
                return b""
            end += 4 + size
        whole = bytes(self._partial[:end])
        del self._partial[:end]
        return whole

    def _make_late(self, frame: bytes, late_s: float) -> None:
        """Cut the client; the broker's end stays, and gets the request later."""
        peer = self.peer
        assert peer is not None
        self.is_detached = peer.is_detached = True
        _reset(self.transport)
        peer.answer = LateAnswer(frame)
        self._weather.note(kept=_transactional_id_of(frame), commit=bool(frame[-1]), late_s=late_s)
        loop = asyncio.get_running_loop()
        loop.call_later(late_s, self._arrive, peer, frame)

    def _arrive(self, peer: Way, frame: bytes) -> None:
        out = peer.transport
        gone = out is None or out.is_closing()
        self._weather.note(arrived=_transactional_id_of(frame), broker_gone=gone)
        if out is not None and not gone:
            out.write(frame)
            asyncio.get_running_loop().call_later(_ANSWER_WITHIN_S, out.abort)

    def _hear(self, data: bytes) -> None:
        """The broker's answer to what came late."""
        if self.answer is not None:
            error = self.answer.take(data)
            if error is not None:
                self._weather.note(landed=self.answer.transactional_id, error=error)
                self.answer = None


class LateAnswer:
    """Waits for the answer to one EndTxn, on a connection whose stream it joins somewhere: found by its number."""

    def __init__(self, frame: bytes) -> None:
        self.transactional_id = _transactional_id_of(frame)
        self._number = frame[8:12]
        self._heard = b""

    def take(self, data: bytes) -> int | None:
        """The error code, once it has come."""
        self._heard += data
        at = self._heard.find(self._number, 4)
        while at >= 4:
            (size,) = struct.unpack_from(">i", self._heard, at - 4)
            where = at + _ANSWER_SIZES.get(size, -1)
            if size in _ANSWER_SIZES and where + 2 <= len(self._heard):
                return int(struct.unpack_from(">h", self._heard, where)[0])
            at = self._heard.find(self._number, at + 1)
        return None


def _reset(transport: asyncio.Transport | None) -> None:
    """End a connection as a crashed peer would: RST, not FIN."""
    if transport is not None:
        connection = transport.get_extra_info("socket")
        if connection is not None and not transport.is_closing():
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        transport.abort()


def _transactional_id_of(frame: bytes) -> str:
    """Header v1 and body v0 to v2 of EndTxn, which is what the client speaks."""
    (client_length,) = struct.unpack_from(">h", frame, 12)
    at = 14 + max(0, client_length)
    (length,) = struct.unpack_from(">h", frame, at)
    return frame[at + 2 : at + 2 + length].decode(errors="replace")


class Door:
    """Takes connections and joins each with one of its own to the server."""

    def __init__(self, weather: Weather, upstream_port: int, framed: bool) -> None:
        self._weather = weather
        self._port = upstream_port
        self._framed = framed
        self._joining: set[asyncio.Task[None]] = set()

    def client(self) -> Way:
        way = _Client(self._weather, "requests", self._framed)
        way.door = self
        return way

    def join(self, client: Way) -> None:
        task = asyncio.get_running_loop().create_task(self._join(client))
        self._joining.add(task)
        task.add_done_callback(self._joining.discard)

    async def _join(self, client: Way) -> None:
        loop = asyncio.get_running_loop()
        answers = Way(self._weather, "answers", framed=False)
        try:
            await loop.create_connection(lambda: answers, "127.0.0.1", self._port)
        except OSError:
            client.cut()
            return
        answers.peer, client.peer = client, answers
        client.flush()


class _Client(Way):
    """The client's end; its counterpart is still to come."""

    door: Door

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.door.join(self)


async def _serve(port: int, upstream_port: int, notes: Path, framed: bool) -> None:
    loop = asyncio.get_running_loop()
    weather = Weather(notes)
    door = Door(weather, upstream_port, framed)
    await loop.create_server(door.client, "127.0.0.1", port, backlog=1_024)
    orders = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(orders), sys.stdin)
    weather.note(listening=port)
    while line := await orders.readline():
        weather.obey(json.loads(line))


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]), "kafka" in sys.argv[4:]))
