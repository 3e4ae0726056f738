"""A proxy between clients and one Kafka broker that can lose an EndTxn request, or only its answer.

It understands frames: requests by api key and correlation id, EndTxn v0-v2 by its transactional id. The broker's own
address in metadata and coordinator answers is replaced by the proxy's, so that clients come back through it (the port
is four bytes behind the host's text: no length changes). Connections are never cut: losing an answer and losing a
connection are two different faults.

Once a commit was chosen, every repetition of it (same id, producer id and epoch) meets the same fate: librdkafka sends
it again by itself, and a repetition that came through would end the doubt. One broker only.
"""

from __future__ import annotations

import asyncio
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

_METADATA, _FIND_COORDINATOR, _END_TXN = 3, 10, 26
_START_TIMEOUT_S = 10.0


class _Commit(NamedTuple):
    """An EndTxn(commit) request, and all its repetitions."""

    transactional_id: str
    producer_id: int
    epoch: int


class DoubtProxy:
    """Listens on 127.0.0.1:``port``, a port of its own."""

    def __init__(self, host: str, broker_port: int) -> None:
        self._host = host
        self._broker_port = broker_port
        self._armed: dict[str, bool] = {}
        self._chosen: dict[_Commit, bool] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._listening = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self.port = 0
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._serve(),), name="doubt proxy")
        self._thread.start()
        if not self._listening.wait(_START_TIMEOUT_S):
            raise RuntimeError(f"the proxy does not listen after {_START_TIMEOUT_S} s")

    def lose_commit(self, transactional_id: str, *, applied: bool) -> None:
        """The next commit of this id gets no answer; ``applied``: the broker gets the request all the same."""
        self._armed[transactional_id] = applied

    def close(self) -> None:
        """Cut every connection and stop."""
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        self._loop.close()

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._connect, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._listening.set()
        await self._stop.wait()
        server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connect(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            broker, to_broker = await asyncio.open_connection(self._host, self._broker_port)
            connection = _Connection(self)
            ways = [
                asyncio.ensure_future(_pass_on(client, to_broker, connection.request)),
                asyncio.ensure_future(_pass_on(broker, to_client, connection.answer)),
            ]
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for way in ways:
                    way.cancel()
                await asyncio.gather(*ways, return_exceptions=True)
                to_broker.close()
        to_client.close()

    def fate_of(self, commit: _Commit) -> bool | None:
        """None: let it pass. Otherwise whether the broker shall get it."""
        armed = self._armed.pop(commit.transactional_id, None)
        if armed is not None:
            self._chosen[commit] = armed
        return self._chosen.get(commit)

    def led_through(self, frame: bytes) -> bytes:
        """The answer with the broker's address replaced by ours."""
        host = self._host.encode()
        theirs, ours = (host + struct.pack(">i", port) for port in (self._broker_port, self.port))
        return frame.replace(theirs, ours)


class _Connection:
    """What is known of the requests under way on one connection."""

    def __init__(self, proxy: DoubtProxy) -> None:
        self._proxy = proxy
        self._rewritten: set[int] = set()
        self._lost: set[int] = set()

    def request(self, frame: bytes) -> bytes | None:
        """The frame to send to the broker; None loses it."""
        api_key, version, correlation_id = struct.unpack_from(">hhi", frame)
        if api_key in {_METADATA, _FIND_COORDINATOR}:
            self._rewritten.add(correlation_id)
        elif api_key == _END_TXN:
            commit = _commit_of(frame, version)
            fate = None if commit is None else self._proxy.fate_of(commit)
            if fate is False:
                return None
            if fate is True:
                self._lost.add(correlation_id)
        return frame

    def answer(self, frame: bytes) -> bytes | None:
        """The frame to send to the client; None loses it."""
        (correlation_id,) = struct.unpack_from(">i", frame)
        if correlation_id in self._lost:
            return None
        if correlation_id in self._rewritten:
            self._rewritten.discard(correlation_id)
            return self._proxy.led_through(frame)
        return frame


async def _pass_on(
    source: asyncio.StreamReader, target: asyncio.StreamWriter, judged: Callable[[bytes], bytes | None]
) -> None:
    while True:
        (size,) = struct.unpack(">i", await source.readexactly(4))
        frame = judged(await source.readexactly(size))
        if frame is not None:
            target.write(struct.pack(">i", len(frame)) + frame)
            await target.drain()


def _commit_of(frame: bytes, version: int) -> _Commit | None:
    """The commit that an EndTxn frame asks for; None where it asks for an abort. Header v1, body v0-v2."""
    if version > 2:
        raise RuntimeError(f"EndTxn v{version}: this proxy knows v0 to v2")
    (client_length,) = struct.unpack_from(">h", frame, 8)
    at = 10 + max(0, client_length)
    (id_length,) = struct.unpack_from(">h", frame, at)
    transactional_id = frame[at + 2 : at + 2 + id_length].decode()
    producer_id, epoch, is_commit = struct.unpack_from(">qh?", frame, at + 2 + id_length)
    return _Commit(transactional_id, producer_id, epoch) if is_commit else None
