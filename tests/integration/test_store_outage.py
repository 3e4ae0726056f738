"""A server that falls silent, or goes away and comes back: the store says so in time, and the same write mends it."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from waterclock.clock import SystemClock
from waterclock.model.errors import BackendDown, WriteUnknown
from waterclock.model.ids import US_PER_MINUTE
from waterclock.model.job import Tier
from waterclock.store.cassandra import CassandraStore
from waterclock.store.migrate import migrate
from waterclock.store.port import DueRow
from waterclock.store.session import REQUEST_TIMEOUT_S

pytestmark = pytest.mark.servers
CLOCK = SystemClock()


class Wire:
    """A TCP relay that can hold back what clients send, or cut everybody off."""

    def __init__(self, host: str, port: int) -> None:
        self._target = host, port
        self._flowing = threading.Event()
        self._flowing.set()
        self._open: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.refusing = False
        threading.Thread(target=self._accept, daemon=True).start()

    def hold(self) -> None:
        self._flowing.clear()

    def flow(self) -> None:
        self._flowing.set()

    def cut(self) -> None:
        for each in self._open:
            _end(each)
        self._open.clear()

    def close(self) -> None:
        self.flow()
        self.refusing = True
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self.refusing:
                client.close()
                continue
            server = socket.create_connection(self._target)
            self._open += [client, server]
            threading.Thread(target=self._relay, args=(client, server, True), daemon=True).start()
            threading.Thread(target=self._relay, args=(server, client, False), daemon=True).start()

    def _relay(self, source: socket.socket, sink: socket.socket, gated: bool) -> None:
        with source:
            try:
                while data := source.recv(65_536):
                    if gated:
                        self._flowing.wait(60.0)
                    sink.sendall(data)
            except OSError:
                pass
            _end(source)
            _end(sink)


def _end(connection: socket.socket) -> None:
    """Both relays of a connection wake up; each closes the side that it reads."""
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def wire(cassandra_server: Any) -> Iterator[Wire]:
    relay = Wire(cassandra_server.host, cassandra_server.port)
    yield relay
    relay.close()


@pytest.fixture
def store(cassandra_server: Any, wire: Wire) -> Iterator[CassandraStore]:
    keyspace = f"t{uuid.uuid4().hex[:12]}"
    migrate([cassandra_server.host], cassandra_server.port, keyspace, CLOCK)
    opened = CassandraStore(["127.0.0.1"], wire.port, keyspace, CLOCK)
    yield opened
    wire.flow()
    opened.close()


def rows() -> list[DueRow]:
    now = CLOCK.now()
    minute = now // US_PER_MINUTE + 5
    due_at = minute * US_PER_MINUTE
    return [DueRow(slot, minute, due_at, "a:b", 1, "", due_at, 1, Tier.LOW, "a", b"env", now) for slot in range(40)]


def eventually(action: Callable[[], object], within_s: float = 20.0) -> object:
    """Repeat ``action`` while the store has no server."""
    until = time.monotonic() + within_s
    while True:
        try:
            return action()
        except BackendDown:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)


def test_a_write_that_nobody_answers_is_unknown_in_time_and_its_repetition_lands(
    store: CassandraStore, wire: Wire
) -> None:
    due = rows()
    store.write_due(due[:1])
    wire.hold()
    began = time.monotonic()

    with pytest.raises(WriteUnknown):
        store.write_due(due)
    took_s = time.monotonic() - began
    wire.flow()

    assert REQUEST_TIMEOUT_S - 1 < took_s < REQUEST_TIMEOUT_S * 2
    eventually(lambda: store.write_due(due))
    assert store.load_due([row.slot for row in due], due[0].minute) == due


def test_while_the_server_is_away_every_call_says_so_and_afterwards_all_is_well(
    store: CassandraStore, wire: Wire
) -> None:
    due = rows()
    store.write_due(due)
    wire.refusing = True
    wire.cut()

    with pytest.raises(BackendDown):
        store.write_due(due)
    with pytest.raises(BackendDown):
        store.job("a:b")
    wire.refusing = False

    assert eventually(lambda: store.load_due([row.slot for row in due], due[0].minute)) == due
