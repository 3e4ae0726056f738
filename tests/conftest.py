"""Real servers for tests, one of each per session.

Where they come from, in this order: servers that run already (``WATERCLOCK_TEST_KAFKA=host:port``,
``WATERCLOCK_TEST_CASSANDRA=host:port``), a local JVM, containers (where testcontainers is installed). A missing server
fails when ``CI=true`` and skips at home, saying what is missing. Both start side by side when both are asked for.

Tests share the servers and never their names: ``fresh_prefix`` (topics, groups, transactional ids) and
``fresh_keyspace`` are new for each test module.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import socket
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from waterclock.stack.servers import Server, launch_cassandra, launch_kafka
from waterclock.stack.trouble import StackTrouble


@dataclass(frozen=True)
class Running:
    """A server that answers. ``server`` is the child process where it is ours, else None."""

    host: str
    port: int
    server: Server | None = None

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"


def _free_port() -> int:
    """Any free port: several test sessions may run on one machine."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class _Launched:
    """The servers of this session, started when the first test asks."""

    def __init__(self, folder: Path, wanted: set[str]) -> None:
        self._folder = folder
        self._wanted = wanted
        self._trouble: dict[str, StackTrouble] = {}
        self._servers: dict[str, Server] | None = None
        self.closing = ExitStack()

    def get(self, name: str) -> Running:
        external = os.environ.get(f"WATERCLOCK_TEST_{name.upper()}")
        if external:
            host, _, port = external.rpartition(":")
            return Running(host, int(port))
        if self._servers is None:
            self._launch()
        server = (self._servers or {}).get(name)
        try:
            if server is None:
                raise self._trouble[name]
            server.wait_ready()
        except StackTrouble as trouble:
            return self._from_container(name) or _missing(name, trouble)
        return Running("127.0.0.1", server.port, server)

    def _launch(self) -> None:
        """Side by side, Cassandra first: it takes longest."""
        self._servers = {}
        launchers: dict[str, Callable[[], Server]] = {
            "cassandra": lambda: launch_cassandra(self._folder / "cassandra", port=_free_port(), unsafe_system=True),
            "kafka": lambda: launch_kafka(self._folder / "kafka", port=_free_port()),
        }
        for name, launch in launchers.items():
            if name not in self._wanted or os.environ.get(f"WATERCLOCK_TEST_{name.upper()}"):
                continue
            try:
                self._servers[name] = launch()
            except StackTrouble as trouble:
                self._trouble[name] = trouble
            else:
                self.closing.callback(self._servers[name].kill)

    def _from_container(self, name: str) -> Running | None:
        if importlib.util.find_spec("testcontainers") is None:
            return None
        containers = importlib.import_module(f"testcontainers.{name}")
        container = containers.KafkaContainer() if name == "kafka" else containers.CassandraContainer("cassandra:5.0.9")
        self.closing.enter_context(container)
        port = 9093 if name == "kafka" else 9042
        return Running(container.get_container_host_ip(), int(container.get_exposed_port(port)))


def _missing(name: str, trouble: StackTrouble) -> Running:
    if os.environ.get("CI") == "true":
        pytest.fail(f"no {name} for the tests: {trouble}", pytrace=False)
    pytest.skip(f"NOT TESTED, no {name}: {trouble}")


@pytest.fixture(scope="session")
def _launched(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[_Launched]:
    asked = {name for item in request.session.items for name in getattr(item, "fixturenames", ())}
    launched = _Launched(
        tmp_path_factory.mktemp("servers"), {name for name in ("kafka", "cassandra") if f"{name}_server" in asked}
    )
    with launched.closing:
        yield launched


@pytest.fixture(scope="session")
def kafka_server(_launched: _Launched) -> Running:
    """A real Kafka: ``address`` is the bootstrap."""
    return _launched.get("kafka")


@pytest.fixture(scope="session")
def cassandra_server(_launched: _Launched) -> Running:
    """A real Cassandra: ``host`` and ``port``."""
    return _launched.get("cassandra")


def fresh_name(start: str) -> str:
    """A name that no other test has: for topics, groups, keyspaces, tenants."""
    return f"{start}{uuid.uuid4().hex[:10]}"


@pytest.fixture(scope="module")
def fresh_prefix() -> str:
    """A prefix of topics, groups and transactional ids for this test module alone."""
    return fresh_name("t")


@pytest.fixture(scope="module")
def fresh_keyspace() -> str:
    """The name of a keyspace for this test module alone; the schema's runner makes it."""
    return fresh_name("t")
