"""Data folders of servers that hold nothing but the tables: made once for many stacks, which begin with copies.

A Cassandra that makes its system's tables and ours takes five of its eleven core seconds for that, and formatting
Kafka's storage takes another one. Must hold: a copy is what a server put down when it was stopped in good order; a
stack looks all the same whether its tables are those of this release (``migrate``). ``python -m
tests.acceptance.empty_servers FOLDER`` makes the originals, each of which has its name only when it is whole.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from tests.free_ports import free_port
from waterclock.clock import SystemClock
from waterclock.stack.servers import find_kit, launch_cassandra, launch_kafka
from waterclock.store.migrate import migrate

ORIGINALS = "WATERCLOCK_TEST_EMPTY_SERVERS"
"""Names the folder of the originals; without it every server begins with nothing."""

_FORMATTED = ("meta.properties", "bootstrap.checkpoint")
_MAKING = "making"


def lay_out(server: str, folder: Path) -> None:
    """A copy for ``server`` below ``folder``, unless it has data there or there is no original."""
    original, copy = Path(os.environ.get(ORIGINALS, "/nowhere")) / server, folder / server
    if original.is_dir() and not copy.exists():
        shutil.copytree(original, copy)


def make(folder: Path) -> None:
    """Both originals, in ``folder``. Raises StackTrouble."""
    making, kit = folder / _MAKING, find_kit()._replace(quick=True)
    # Without a flush after each change of a table: all is put down at the end.
    cassandra = launch_cassandra(making / "cassandra", port=free_port(), kit=kit, unsafe_system=True)
    try:
        kafka = launch_kafka(making / "kafka", port=free_port(), kit=kit)
        kafka.kill()  # formatted before it was started, and nothing else is kept
        cassandra.wait_ready()
        migrate(["127.0.0.1"], cassandra.port, "waterclock", SystemClock(), replication=1)
    finally:
        cassandra.stop()
    for place in (making / "kafka" / "logs").iterdir():
        if place.is_dir():
            shutil.rmtree(place)
        elif place.name not in _FORMATTED:
            place.unlink()
    for server in ("cassandra", "kafka"):
        (making / server / f"{server}.log").unlink()
        (making / server).rename(folder / server)
    shutil.rmtree(making)


if __name__ == "__main__":
    make(Path(sys.argv[1]))
