"""Who lets others have the processors first: a whole process, with all of its threads.

On Linux the niceness of a process is that of each of its threads, and a thread has it from the one that started it.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def give_way(pid: int, niceness: int) -> None:
    """Let a process be at least as nice, from now on; where that cannot be had, nothing happens."""
    for number in _threads_of(pid):
        with suppress(OSError):  # it may have ended meanwhile
            os.setpriority(os.PRIO_PROCESS, number, max(niceness, os.getpriority(os.PRIO_PROCESS, number)))


def _threads_of(pid: int) -> list[int]:
    try:
        return [int(thread.name) for thread in Path(f"/proc/{pid}/task").iterdir()]
    except OSError:
        return [pid]  # not on Linux, where it stands for all of them
