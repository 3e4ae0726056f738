"""Start a real Kafka or Cassandra in one call, for tests, demo and supervisor.

``start_*`` returns when the server answers; ``launch_*`` returns at once, so that both can start side by side (launch
both, then ``wait_ready`` of each). Call them from a thread that lives as long as the server should (``leash.py``).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from . import cassandra_server, kafka_server
from .jars import JarSource
from .java import find_java
from .kit import Kit
from .memory import choose_heaps
from .server import Server

__all__ = ["Kit", "Server", "find_kit", "launch_cassandra", "launch_kafka", "start_cassandra", "start_kafka"]


def find_kit() -> Kit:
    """Java from the path, the jars of the checkout, heaps that fit this machine. Raises StackTrouble."""
    return Kit(find_java(), choose_heaps(), JarSource())


def launch_kafka(
    data_dir: Path,
    *,
    port: int | None = None,
    kit: Kit | None = None,
    log_path: Path | None = None,
    doors: kafka_server.Doors = kafka_server.OPEN,
) -> Server:
    """A Kafka on its way. ``port``: wanted (9092); another one where it is taken, see ``Server.picked``.

    ``doors``: a broker that is not open to all. Raises StackTrouble.
    """
    data_dir = data_dir.resolve()
    return kafka_server.launch_kafka(
        data_dir,
        kit or find_kit(),
        port=port or kafka_server.DEFAULT_PORT,
        log_path=log_path or data_dir / "kafka.log",
        doors=doors,
    )


def launch_cassandra(
    data_dir: Path,
    *,
    port: int | None = None,
    unsafe_system: bool = False,
    kit: Kit | None = None,
    log_path: Path | None = None,
    overrides: Mapping[str, object] = MappingProxyType({}),
) -> Server:
    """A Cassandra on its way. ``port``: wanted (9042). ``unsafe_system``: quick schema changes, for tests only.

    ``overrides``: keys of cassandra.yaml.
    """
    data_dir = data_dir.resolve()
    return cassandra_server.launch_cassandra(
        data_dir,
        kit or find_kit(),
        port=port or cassandra_server.DEFAULT_PORT,
        unsafe_system=unsafe_system,
        log_path=log_path or data_dir / "cassandra.log",
        overrides=overrides,
    )


def start_kafka(data_dir: Path, *, port: int | None = None) -> Server:
    """A Kafka that answers metadata requests. Raises StackTrouble."""
    server = launch_kafka(data_dir, port=port)
    server.wait_ready()
    return server


def start_cassandra(data_dir: Path, *, port: int | None = None, unsafe_system: bool = False) -> Server:
    """A Cassandra that answers queries. Raises StackTrouble."""
    server = launch_cassandra(data_dir, port=port, unsafe_system=unsafe_system)
    server.wait_ready()
    return server
