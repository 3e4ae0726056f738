"""The proxy of real fire passes bytes on unchanged, and does to them what it is told, and nothing else."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.acceptance.real_stack import wait_for
from tests.chaos.proxy import LateAnswer
from tests.chaos.stage import Proxy
from tests.free_ports import free_port

END_TXN, OTHER = 26, 3


class Echo:
    """A server that sends back what it gets, or what it makes of it. ``left``: how many connections have ended."""

    def __init__(self, answer: Callable[[bytes], bytes] = lambda data: data) -> None:
        self._answer = answer
        self.left = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.heard: list[bytes] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            while data := connection.recv(65_536):
                self.heard.append(data)
                connection.sendall(self._answer(data))
        self.left += 1

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


@pytest.fixture
def echo() -> Iterator[Echo]:
    server = Echo()
    yield server
    server.close()


@pytest.fixture
def proxy(echo: Echo, tmp_path: Path) -> Iterator[Proxy]:
    made = Proxy(tmp_path, "kafka", free_port(), echo.port)
    yield made
    made.close()


def _frame(api_key: int, transactional_id: str = "worker-1", commit: int = 1) -> bytes:
    """A request as Kafka's clients write it: header v1, and the body of EndTxn v2."""
    name = transactional_id.encode()
    body = struct.pack(">hhih", api_key, 2, 5, 2) + b"me" + struct.pack(">h", len(name)) + name
    body += struct.pack(">qhb", 9, 1, commit)
    return struct.pack(">i", len(body)) + body


def _connect(proxy: Proxy) -> socket.socket:
    return socket.create_connection(("127.0.0.1", proxy.port), timeout=5)


def _receive(connection: socket.socket, size: int) -> bytes:
    got = b""
    while len(got) < size and (part := connection.recv(size - len(got))):
        got += part
    return got


def test_what_is_sent_in_pieces_arrives_whole(proxy: Proxy) -> None:
    frame = _frame(OTHER) + _frame(END_TXN)
    with _connect(proxy) as connection:
        for at in range(len(frame)):
            connection.sendall(frame[at : at + 1])
        assert _receive(connection, len(frame)) == frame


def test_a_way_that_is_stopped_keeps_its_bytes_and_delivers_them_later(proxy: Proxy, echo: Echo) -> None:
    with _connect(proxy) as connection:
        connection.sendall(_frame(OTHER))
        _receive(connection, len(_frame(OTHER)))
        proxy.order(stop="answers")
        connection.sendall(_frame(OTHER))
        wait_for(lambda: len(echo.heard) == 2, "the request at the server")
        connection.settimeout(0.2)
        with pytest.raises(TimeoutError):
            connection.recv(1)
        proxy.order(go="answers")
        connection.settimeout(5)
        assert _receive(connection, len(_frame(OTHER))) == _frame(OTHER)


def test_a_delay_is_added_on_both_ways(proxy: Proxy) -> None:
    with _connect(proxy) as connection:
        proxy.order(delay=0.2)
        connection.sendall(_frame(OTHER))
        _receive(connection, len(_frame(OTHER)))
        began_s = time.monotonic()
        connection.sendall(_frame(OTHER))
        _receive(connection, len(_frame(OTHER)))
        assert 0.4 <= time.monotonic() - began_s < 3.0


def test_a_cut_ends_the_connection_and_takes_a_new_one(proxy: Proxy) -> None:
    with _connect(proxy) as connection:
        connection.sendall(_frame(OTHER))
        _receive(connection, len(_frame(OTHER)))
        proxy.order(cut=True)
        with pytest.raises(ConnectionResetError):
            connection.recv(1)
    with _connect(proxy) as connection:
        connection.sendall(_frame(OTHER))
        assert _receive(connection, len(_frame(OTHER))) == _frame(OTHER)


def test_an_end_txn_comes_late_on_its_own_connection_and_the_client_is_cut(proxy: Proxy, echo: Echo) -> None:
    with _connect(proxy) as connection:
        connection.sendall(_frame(OTHER))
        _receive(connection, len(_frame(OTHER)))
        proxy.order(late=0.3)
        wait_for(lambda: any("obeyed" in note for note in proxy.notes()), "the order obeyed")
        connection.sendall(_frame(END_TXN, "worker-7"))
        with pytest.raises(ConnectionResetError):
            connection.recv(1)
    assert _frame(END_TXN, "worker-7") not in echo.heard
    wait_for(lambda: _frame(END_TXN, "worker-7") in echo.heard, "the late request")
    kept = [note for note in proxy.notes() if "kept" in note]
    assert [(note["kept"], note["commit"]) for note in kept] == [("worker-7", True)]


def test_what_a_client_sent_before_it_left_goes_out_when_its_way_goes_on(proxy: Proxy, echo: Echo) -> None:
    with _connect(proxy) as connection:
        connection.sendall(_frame(OTHER))
        _receive(connection, len(_frame(OTHER)))
        proxy.order(stop="requests")
        wait_for(lambda: any("obeyed" in note for note in proxy.notes()), "the order obeyed")
        connection.sendall(_frame(OTHER))
    # Gone: nothing of it is left at this end, and the server has not heard the end of it.
    proxy.order(delay=0.0)
    wait_for(lambda: sum("obeyed" in note for note in proxy.notes()) == 2, "the next order obeyed")
    assert len(echo.heard) == 1
    proxy.order(go="requests")
    wait_for(lambda: len(echo.heard) == 2, "what it had sent")
    wait_for(lambda: echo.left == 1, "its end")


def test_an_order_says_how_many_connections_it_met(proxy: Proxy) -> None:
    proxy.order(cut=True)
    wait_for(lambda: sum("obeyed" in note for note in proxy.notes()) == 1, "the first order")
    with _connect(proxy) as connection:
        connection.sendall(_frame(OTHER))
        _receive(connection, len(_frame(OTHER)))
        proxy.order(cut=True)
        wait_for(lambda: sum("obeyed" in note for note in proxy.notes()) == 2, "the second order")
    assert [note["connections"] for note in proxy.notes() if "obeyed" in note] == [0, 1]


def _answer(number: int, error: int, size: int) -> bytes:
    """An answer of the broker: up to version 2, or with its tagged fields."""
    middle = struct.pack(">i", 0) if size == 10 else struct.pack(">bi", 0, 0)
    return struct.pack(">ii", size, number) + middle + struct.pack(">h", error) + bytes(size - 6 - len(middle))


@pytest.mark.parametrize("size", [10, 12, 22])
def test_the_answer_to_a_late_end_is_found_by_its_number(size: int) -> None:
    awaited = LateAnswer(_frame(END_TXN, "worker-7"))
    heard = b"the rest of another answer" + _answer(4, 0, 10) + _answer(5, 47, size)
    said = [awaited.take(heard[at : at + 1]) for at in range(len(heard))]
    assert awaited.transactional_id == "worker-7"
    assert [each for each in said if each is not None][:1] == [47]


def test_what_the_broker_says_to_a_late_end_is_noted(tmp_path: Path) -> None:
    server = Echo(lambda _: _answer(5, 90, 10))
    proxy = Proxy(tmp_path, "kafka", free_port(), server.port)
    try:
        with _connect(proxy) as connection:
            connection.sendall(_frame(OTHER))
            _receive(connection, 14)
            proxy.order(late=0.1)
            wait_for(lambda: any("obeyed" in note for note in proxy.notes()), "the order obeyed")
            connection.sendall(_frame(END_TXN, "worker-7"))
            wait_for(lambda: any("landed" in note for note in proxy.notes()), "the answer noted")
        landed = [(note["landed"], note["error"]) for note in proxy.notes() if "landed" in note]
        assert landed == [("worker-7", 90)]
    finally:
        proxy.close()
        server.close()
