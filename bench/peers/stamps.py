"""The evidence of a run, from outside: each handler appends a stamp (index, instant) to a file of its process."""

from __future__ import annotations

import os
import struct
import time
from pathlib import Path

STAMP = struct.Struct("<Qd")
"""Index of the task, and seconds since the epoch; the Go and Java handlers write the same sixteen bytes."""


class Sink:
    """Where the handlers of a process write: one file for each process, opened at the first stamp after a fork."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._pid = 0
        self._file = -1

    def stamp(self, index: int) -> None:
        """Say that task ``index`` runs now."""
        if self._pid != os.getpid():
            # The file before the pid: another thread may come by between the two.
            path = self._folder / f"{os.getpid()}.stamps"
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            self._pid = os.getpid()
        os.write(self._file, STAMP.pack(index, time.time()))


def written(folder: Path) -> int:
    """How many stamps there are, told by the sizes of the files."""
    return sum(path.stat().st_size for path in folder.glob("*.stamps")) // STAMP.size


def read(folder: Path, first: int, count: int) -> list[float]:
    """The instants of the tasks ``first`` to ``first + count - 1``, in order of their index.

    Raises:
        ValueError: a task ran twice, or not at all.
    """
    at: dict[int, float] = {}
    doubled = 0
    for path in sorted(folder.glob("*.stamps")):
        data = path.read_bytes()
        for index, instant in STAMP.iter_unpack(data[: len(data) // STAMP.size * STAMP.size]):
            if first <= index < first + count:
                doubled += index in at
                at[index] = instant
    if doubled or len(at) != count:
        raise ValueError(f"of {count} tasks {count - len(at)} did not run, and {doubled} runs were doubles")
    return [at[index] for index in range(first, first + count)]
