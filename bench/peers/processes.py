"""The processes of one round: started, weighed through /proc, and ended by their ids."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

MARK = "WATERCLOCK_PEERS"
"""A variable in the environment of all that a round starts: an earlier round's processes are known by it."""

PROC = Path("/proc")
_TICKS = os.sysconf("SC_CLK_TCK")
_SUBREAPER = 36
_OUR_SERVERS = ("kafka.Kafka", "CassandraDaemon")


def adopt_orphans() -> None:
    """Whatever a server leaves behind becomes a child of this process, so that it is counted and ended."""
    if ctypes.CDLL(None, use_errno=True).prctl(_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl: cannot become the parent of orphans")


def start(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    log: Path,
    talking: bool = False,
    user: str | None = None,
) -> subprocess.Popen[str]:
    """A process in a session of its own. With ``talking``, its input and output are lines to and from us."""
    with log.open("a") as out:
        pipe: IO[str] | int = subprocess.PIPE if talking else out
        return subprocess.Popen(
            argv,
            env=dict(env),
            cwd=log.parent,
            stdin=subprocess.PIPE if talking else subprocess.DEVNULL,
            stdout=pipe,
            stderr=out,
            text=True,
            user=user,
            start_new_session=True,
        )


def descendants(root: int) -> list[int]:
    """All living processes below ``root``."""
    children: dict[int, list[int]] = {}
    for pid in _pids():
        with contextlib.suppress(OSError):
            children.setdefault(int(_stat(pid)[1]), []).append(pid)
    found, open_ends = [], [root]
    while open_ends:
        below = children.get(open_ends.pop(), [])
        found += below
        open_ends += below
    return found


def cpu_s() -> float:
    """Seconds of CPU used so far by all processes below this one: those that live, and those that ended."""
    own = _stat(os.getpid())
    ticks = int(own[13]) + int(own[14])
    for pid in descendants(os.getpid()):
        with contextlib.suppress(OSError):
            ticks += sum(int(field) for field in _stat(pid)[11:15])
    return ticks / _TICKS


def machine_cpu_s() -> float:
    """Seconds of CPU used so far by everything on this machine."""
    fields = (PROC / "stat").read_text().split("\n", 1)[0].split()
    user, nice, system, _idle, _waiting, *interrupts = (int(field) for field in fields[1:8])
    return (user + nice + system + sum(interrupts)) / _TICKS


def resident_mb() -> float:
    """Resident memory of all processes below this one, in MB; a page that several share counts once (PSS)."""
    kilobytes = 0
    for pid in descendants(os.getpid()):
        with contextlib.suppress(OSError):
            lines = (PROC / str(pid) / "smaps_rollup").read_text().splitlines()
            kilobytes += next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)
    return kilobytes / 1024


def end(process: subprocess.Popen[str], *, within_s: float = 10.0) -> None:
    """Ask it to end, then end it and all below it by their ids."""
    below = descendants(process.pid)
    if process.poll() is None:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(within_s)
    _kill([*below, process.pid])
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(within_s)


def end_all(*, within_s: float = 10.0) -> None:
    """End whatever still lives below this process.

    Raises:
        TimeoutError: some of it does not end.
    """
    until = time.monotonic() + within_s
    while living := [pid for pid in descendants(os.getpid()) if not _reaped(pid)]:
        if time.monotonic() > until:
            raise TimeoutError(f"these processes do not end: {living}")
        _kill(living)
        time.sleep(0.05)  # a killed process takes a moment to go, and who it started may come after it


def in_the_way() -> list[str]:
    """Who would spoil a measurement: what an earlier round left, and our own servers; a line for each."""
    found = []
    for pid in set(_pids()) - {os.getpid(), os.getppid(), *descendants(os.getpid())}:
        with contextlib.suppress(OSError):
            words = (PROC / str(pid) / "cmdline").read_bytes().decode(errors="replace").split("\0")
            if any(name in word for word in words for name in _OUR_SERVERS):
                found.append(f"{pid}: a server of our own ({Path(words[0]).name})")
            elif f"{MARK}=".encode() in (PROC / str(pid) / "environ").read_bytes() or any(
                FOLDER in word for word in words
            ):
                found.append(f"{pid}: left by an earlier round ({Path(words[0]).name})")
    return sorted(found)


FOLDER = "waterclock-peers-"
"""How the folder of a round begins: PostgreSQL overwrites its environment, but its arguments name that folder."""


def _kill(pids: Sequence[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _reaped(pid: int) -> bool:
    with contextlib.suppress(ChildProcessError):
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    return not (PROC / str(pid)).exists()


def _pids() -> list[int]:
    return [int(path.name) for path in PROC.iterdir() if path.name.isdigit()]


def _stat(pid: int) -> list[str]:
    """The fields after the name, which may hold blanks itself: [0] the state, [1] the parent, [11..14] CPU."""
    return (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
