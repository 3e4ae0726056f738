"""``python -m waterclock.stack.archiving``: make the archives of classes from which the local servers start sooner."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from . import class_archive
from .jars import CASSANDRA, KAFKA, Distribution, jars_of
from .servers import Server, find_kit, launch_cassandra, launch_kafka

_STOP_GRACE_S = 60.0
"""An archive is written on the way out: some seconds of a busy machine."""

_LAUNCHERS: dict[Distribution, Callable[..., Server]] = {CASSANDRA: launch_cassandra, KAFKA: launch_kafka}


def make_archives() -> list[Path]:
    """Start both servers side by side, stop them, keep what they leave: the new archives, none where all are there.

    Raises StackTrouble where a server does not start, or leaves nothing behind.
    """
    kit = find_kit()._replace(writes_archive=True)
    lib = {each: jars_of(each, kit.jars) for each in (CASSANDRA, KAFKA)}
    missing = [each for each in lib if not class_archive.is_there(each, lib[each], kit.java)]
    with tempfile.TemporaryDirectory(prefix="waterclock-archive-") as scratch:
        servers = [_LAUNCHERS[each](Path(scratch) / each.name, kit=kit) for each in missing]
        try:
            for server in servers:
                server.wait_ready()
        finally:
            for server in servers:
                server.ask_to_stop()
            for server in servers:
                server.stop(_STOP_GRACE_S)
    return [class_archive.finish(each, lib[each], kit.java) for each in missing]


if __name__ == "__main__":
    for path in make_archives():
        sys.stdout.write(f"archive of classes: {path}\n")
