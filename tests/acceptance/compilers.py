"""How much of a core the just-in-time compilers of servers take: what was started just now compiles what it serves.

On two cores that are nearly full it shows in every latency, for a minute or for two: as fast as the machine is.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

_NAMES = ("C1 CompilerThre", "C2 CompilerThre")
"""As Linux cuts them, after 15 characters."""

_NS_PER_S = 1_000_000_000


class Compilers:
    """Those of the Java processes with these pids. Raises RuntimeError where none of their threads is one."""

    def __init__(self, pids: Sequence[int]) -> None:
        self._pids = pids
        self._used_ns, self._at_s = self._read(), time.monotonic()

    def share(self) -> float:
        """The cores that they took since the last call. The time of a thread that has ended meanwhile is not known."""
        before, since_s = self._used_ns, self._at_s
        self._used_ns, self._at_s = self._read(), time.monotonic()
        took_ns = sum(used - before.get(thread, 0) for thread, used in self._used_ns.items())
        return took_ns / _NS_PER_S / (self._at_s - since_s)

    def _read(self) -> dict[str, int]:
        """By thread what it has used of a processor, in nanoseconds."""
        threads = [thread for pid in self._pids for thread in Path(f"/proc/{pid}/task").iterdir()]
        used = {thread.name: _used_ns(thread) for thread in threads if _name(thread) in _NAMES}
        if not used:
            raise RuntimeError("no thread of a compiler was found: whether they rest cannot be told")
        return used


def _name(thread: Path) -> str:
    try:
        return (thread / "comm").read_text().strip()
    except OSError:  # it has ended
        return ""


def _used_ns(thread: Path) -> int:
    try:
        return int((thread / "schedstat").read_text().split()[0])
    except OSError:
        return 0
