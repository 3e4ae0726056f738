"""Where a test's servers come from: servers that run already, else a local JVM, else containers.

External ones are named by ``WATERCLOCK_TEST_KAFKA=host:port`` and ``WATERCLOCK_TEST_CASSANDRA=host:port``. Containers
need the package testcontainers (extra ``containers``) and an engine; the images are those of the compose file. What is
ours is started side by side when the first test asks, and killed at the end of the session. A container has no process
that a test could stop: such tests skip there, as they do for external servers. The acceptance checks are no part of
this: they kill and restart servers of their own, which are local JVMs (``acceptance/real_stack.py``).

How it fails: nothing of the three: ``Missing``, with what the JVM lacked; the fixture fails in CI and skips at home.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.free_ports import free_port
from waterclock.stack.cql_probe import release_version
from waterclock.stack.kafka_server import cluster_id
from waterclock.stack.servers import Server, launch_cassandra, launch_kafka
from waterclock.stack.trouble import StackTrouble

NAMES = ("cassandra", "kafka")
"""Cassandra first: it takes longest."""

_COMPOSE = Path(__file__).parents[1] / "compose" / "docker-compose.yml"
_CONTAINER_READY_S = 180


class Missing(Exception):
    """No server to be had, from nowhere."""


@dataclass(frozen=True)
class Running:
    """A server that answers. ``server`` is the child process where it is ours, else None."""

    host: str
    port: int
    server: Server | None = None

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"


class Servers:
    """The servers of one session. ``wanted``: those that some test will ask for, started together."""

    def __init__(self, folder: Path, wanted: set[str], environment: Mapping[str, str] = os.environ) -> None:
        self._folder = folder
        self._external = {name: environment.get(f"WATERCLOCK_TEST_{name.upper()}", "") for name in NAMES}
        self._wanted = wanted
        self._trouble: dict[str, StackTrouble] = {}
        self._launched: dict[str, Server] | None = None
        self._found: dict[str, Running] = {}
        self.closing = ExitStack()

    def get(self, name: str) -> Running:
        """A server that answers, by the first way that leads to one. Raises Missing."""
        if name not in self._found:
            self._found[name] = self._from_outside(name) or self._from_jvm(name) or self._from_container(name)
        return self._found[name]

    def _from_outside(self, name: str) -> Running | None:
        if not self._external[name]:
            return None
        host, _, port = self._external[name].rpartition(":")
        return Running(host, int(port))

    def _from_jvm(self, name: str) -> Running | None:
        if self._launched is None:
            self._launched = {}
            for each in NAMES:
                if each in self._wanted | {name} and not self._external[each]:
                    self._launch(each, self._launched)
        server = self._launched.get(name)
        if server is None:
            return None
        try:
            server.wait_ready()
        except StackTrouble as trouble:
            self._trouble[name] = trouble
            return None
        return Running("127.0.0.1", server.port, server)

    def _launch(self, name: str, launched: dict[str, Server]) -> None:
        try:
            launched[name] = _LAUNCHERS[name](self._folder)
        except StackTrouble as trouble:
            self._trouble[name] = trouble
        else:
            self.closing.callback(launched[name].kill)

    def _from_container(self, name: str) -> Running:
        if importlib.util.find_spec("testcontainers") is None:
            raise Missing(f"{self._trouble.get(name, 'no JVM')} (nor is testcontainers installed)")
        try:
            container, host, port = _CONTAINERS[name]()
        except Exception as error:  # whatever an engine that is not there makes of itself
            raise Missing(f"{self._trouble.get(name, 'no JVM')}; containers: {error}") from error
        self.closing.callback(container.stop)
        return Running(host, port)


def _cassandra(folder: Path) -> Server:
    return launch_cassandra(folder / "cassandra", port=free_port(), unsafe_system=True)


def _kafka(folder: Path) -> Server:
    return launch_kafka(folder / "kafka", port=free_port())


_LAUNCHERS: dict[str, Callable[[Path], Server]] = {"cassandra": _cassandra, "kafka": _kafka}


def _started(container: Any, answers: Callable[[], object]) -> Any:
    """Start it, and wait until it answers its own protocol; raises TimeoutError where it does not."""
    container.start()
    give_up_at = time.monotonic() + _CONTAINER_READY_S
    while not answers():
        if time.monotonic() > give_up_at:
            container.stop()
            raise TimeoutError(f"{container.image} did not answer within {_CONTAINER_READY_S} s")
        time.sleep(1.0)
    return container


def _kafka_container() -> tuple[Any, str, int]:
    """The image of the compose file, on a port chosen beforehand: a broker must be told what clients call it."""
    core = importlib.import_module("testcontainers.core.container")
    service, port = _service("kafka"), free_port()
    container = core.DockerContainer(service["image"]).with_bind_ports(port, port)
    for key, value in service["environment"].items():
        container.with_env(key, value.replace("OUTSIDE://:9092", f"OUTSIDE://:{port}").replace("kafka:", "localhost:"))
    inside = f"INSIDE://localhost:19092,OUTSIDE://127.0.0.1:{port}"
    container.with_env("KAFKA_ADVERTISED_LISTENERS", inside)
    return _started(container, lambda: cluster_id(port)), "127.0.0.1", port


def _cassandra_container() -> tuple[Any, str, int]:
    core = importlib.import_module("testcontainers.core.container")
    service, port = _service("cassandra"), free_port()
    container = core.DockerContainer(service["image"]).with_bind_ports(9042, port)
    for key, value in service["environment"].items():
        container.with_env(key, value)
    return _started(container, lambda: release_version(port)), "127.0.0.1", port


_CONTAINERS: dict[str, Callable[[], tuple[Any, str, int]]] = {
    "cassandra": _cassandra_container,
    "kafka": _kafka_container,
}


def _service(name: str) -> dict[str, Any]:
    services: dict[str, dict[str, Any]] = yaml.safe_load(_COMPOSE.read_text())["services"]
    return services[name]
