"""No bench starts while a process of an earlier round lives: it would be measured, too.

Every process that a bench starts inherits a mark in its environment, and is found by it, whoever its parent is now.
"""

from __future__ import annotations

import os
from pathlib import Path

MARK = "WATERCLOCK_BENCH_ROUND"


class RoundStillLives(RuntimeError):
    """A process of an earlier round runs."""


def mark() -> None:
    """From now on whatever this process starts is known as its own."""
    os.environ[MARK] = str(os.getpid())


def living() -> dict[int, str]:
    """{pid: command line} of every process that bears the mark, but for this one."""
    found = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit() or int(folder.name) == os.getpid():
            continue
        try:
            environment = (folder / "environ").read_bytes()
            command = (folder / "cmdline").read_bytes()
        except OSError:  # it has ended meanwhile, or is somebody else's
            continue
        if command and any(each.startswith(f"{MARK}=".encode()) for each in environment.split(b"\0")):
            found[int(folder.name)] = command.replace(b"\0", b" ").decode(errors="replace").strip()
    return found


def refuse() -> None:
    """Mark what comes. Raises RoundStillLives where something of an earlier round is still there."""
    mark()
    left = living()
    if left:
        shown = "; ".join(f"{pid} {command[:100]}" for pid, command in left.items())
        raise RoundStillLives(f"{len(left)} processes of an earlier round live: {shown}. End them, then measure")
