"""Who lets others have the processors first: a whole process, with all of its threads.

On Linux the niceness of a process is that of each of its threads, and a thread has it from the one that started it.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def give_way(pid: int, niceness: int) -> None:
    """Set the niceness of a process, from now on; where that cannot be had, nothing happens."""
    threads = Path(f"/proc/{pid}/task")
    with suppress(OSError):
        for number in [int(thread.name) for thread in threads.iterdir()] if threads.exists() else [pid]:
            os.setpriority(os.PRIO_PROCESS, number, niceness)
