"""Free ports on 127.0.0.1: the usual ones first, others when somebody has them, and who that is.

A port that is free now may be taken a moment later; the server that then cannot bind ends, and its start tells.
"""

from __future__ import annotations

import random
import socket
import sys
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

_LISTEN = "0A"
_HERE = f"{int.from_bytes(socket.inet_aton('127.0.0.1'), sys.byteorder):08X}"
_MAPPED = f"{0:016X}{int.from_bytes(bytes.fromhex('0000ffff'), sys.byteorder):08X}"
_REACHED = (_HERE, f"{_MAPPED}{_HERE}", f"{0:08X}", f"{0:032X}")
"""The addresses of whom a connection to 127.0.0.1 reaches, in the words of /proc: 127.0.0.1, or any; nearest first."""

_LOWEST = 10_000
_GUESSES = 100


class Holder(NamedTuple):
    """The process that listens on a port; pid 0 where the system does not say (another user's process)."""

    pid: int
    name: str

    def __str__(self) -> str:
        return f"{self.name} (pid {self.pid})" if self.pid else self.name


class PickedPort(NamedTuple):
    """``port`` to use. ``holder`` is set when the wanted port was taken, and names who has it."""

    port: int
    wanted: int
    holder: Holder | None


def is_free(port: int) -> bool:
    """Whether a server could listen on this port of 127.0.0.1 now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do: only a listener is in the way
        try:
            probe.bind(("127.0.0.1", port))
        except (OSError, OverflowError):  # OverflowError: beyond the last port
            return False
    return True


def pick_port(wanted: int, taken: Collection[int] = ()) -> PickedPort:
    """``wanted`` if it is free, else the same plus 10,000, 20,000 ... (9092 -> 19092), else any free one.

    ``taken``: ports given out a moment ago, on which nobody listens yet.
    """
    if wanted not in taken and is_free(wanted):
        return PickedPort(wanted, wanted, None)
    holder = holder_of(wanted)
    for candidate in range(wanted + 10_000, 60_000, 10_000):
        if candidate not in taken and is_free(candidate):
            return PickedPort(candidate, wanted, holder)
    return PickedPort(any_port(taken), wanted, holder)


def any_port(taken: Collection[int] = ()) -> int:
    """A free port that no outgoing connection is given while a server starts; see ``pick_port`` for ``taken``.

    A JVM binds seconds after its port was chosen. Of the ports that the system hands to clients, which are those that
    binding to 0 gives too, one is soon somebody's on a machine where thousands of connections are made.
    """
    low = _first_of_clients()
    for _ in range(_GUESSES):
        # Random, for two that start at once must differ. Where clients are given all there are, so is this.
        port = random.randrange(_LOWEST, low) if low > _LOWEST else _given_port()
        if port not in taken and is_free(port):
            return port
    return _given_port()


def _given_port() -> int:
    """Any that the system gives."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _first_of_clients() -> int:
    """The first port of those that outgoing connections are given (ip(7), ``ip_local_port_range``)."""
    try:
        return int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except OSError:
        return 32_768


def holder_of(port: int) -> Holder:
    """Who listens on ``port`` of 127.0.0.1, from /proc; a Holder with pid 0 where that cannot be known."""
    inodes = _listening_inodes(port)
    for process in Path("/proc").glob("[0-9]*"):
        if _open_files(process) & inodes:
            return Holder(int(process.name), _command_of(process))
    return Holder(0, "a process of another user" if inodes else "another process")


def _open_files(process: Path) -> set[str]:
    """What its descriptors stand for; nothing for a process that has gone meanwhile, or is another user's."""
    found = set()
    try:
        for descriptor in (process / "fd").iterdir():
            with suppress(FileNotFoundError):  # closed meanwhile
                found.add(str(descriptor.readlink()))
    except OSError:
        return set()
    return found


def _command_of(process: Path) -> str:
    """A name that a person recognises: the program, and for a JVM its main class."""
    try:
        words = (process / "cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return "a process that just ended"
    program = Path(words[0]).name or "unknown"
    mains = [word for word in words if word.endswith((".Kafka", ".CassandraDaemon"))]
    return f"{program} {mains[0]}" if mains else program


def _listening_inodes(port: int) -> set[str]:
    """Of those who would be reached. Others may have the same port of other addresses, and are in nobody's way."""
    found: dict[str, set[str]] = {}
    for table in (Path("/proc/net/tcp"), Path("/proc/net/tcp6")):
        try:
            lines = table.read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            address, _, number = fields[1].rpartition(":")
            if fields[3] == _LISTEN and int(number, 16) == port:
                found.setdefault(address, set()).add(f"socket:[{fields[9]}]")
    return next((found[address] for address in _REACHED if address in found), set())
