"""A server of the local stack is ready when it answers itself, and never because somebody else does."""

from __future__ import annotations

import socket
import sys

import pytest

from tests.free_ports import free_port
from waterclock.stack.child import Child
from waterclock.stack.jars import KAFKA
from waterclock.stack.ports import PickedPort
from waterclock.stack.server import Server
from waterclock.stack.trouble import StackTrouble

LISTEN = (
    "import socket, sys, time; s = socket.socket(); s.bind(('127.0.0.1', int(sys.argv[1]))); s.listen(); time.sleep(60)"
)


@pytest.fixture
def children():
    started = []
    yield started
    for child in started:
        child.kill()


def connects(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def server(children, tmp_path, port: int, *program: str) -> Server:
    child = Child("kafka", [sys.executable, "-c", *program], tmp_path / "log")
    children.append(child)
    return Server(KAFKA, child, PickedPort(port, port, None), lambda: "an answer" if connects(port) else None)


def test_a_server_that_answers_on_its_port_is_ready(children, tmp_path):
    port = free_port()
    server(children, tmp_path, port, LISTEN, str(port)).wait_ready(20)


def test_a_server_is_not_ready_while_another_process_answers_on_its_port(children, tmp_path):
    port = free_port()
    with socket.socket() as other:
        other.bind(("127.0.0.1", port))
        other.listen()
        waiting = server(children, tmp_path, port, "import time; time.sleep(60)")
        assert connects(port)
        assert not waiting.is_ready()


def test_a_server_that_lost_its_port_to_another_ends_with_that_cause(children, tmp_path):
    port = free_port()
    with socket.socket() as other:
        other.bind(("127.0.0.1", port))
        other.listen()
        late = server(children, tmp_path, port, LISTEN, str(port))
        with pytest.raises(StackTrouble, match="Address already in use") as trouble:
            late.wait_ready(20)
    assert "Something took its port" in trouble.value.hint
