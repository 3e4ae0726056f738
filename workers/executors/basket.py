"""Where ended attempts wait for the round thread: filled by any thread, emptied by one.

What must hold: what was put in is taken out once, or dropped by ``clear``; a waiting round thread wakes as soon as
there is enough to be worth a round, and not for every single end.
"""

from __future__ import annotations

import threading
from collections import deque

from .port import EndedAttempt

_NOBODY_WAITS = 1 << 60


class Basket:
    """Ended attempts, at most as many as there are worker slots."""

    def __init__(self) -> None:
        self._ended: deque[EndedAttempt] = deque()
        self._wake_at_count = _NOBODY_WAITS
        self._woken = threading.Event()

    def put(self, ended: EndedAttempt) -> None:
        """From any thread."""
        self._ended.append(ended)
        if len(self._ended) >= self._wake_at_count:
            self._woken.set()

    def take(self) -> list[EndedAttempt]:
        """Everything that is there now."""
        # Others put in while we take: only as many as are there now, or this would not end.
        return [self._ended.popleft() for _ in range(len(self._ended))]

    def wait(self, enough: int, timeout_s: float) -> None:
        """Return when ``enough`` are there, or after ``timeout_s``."""
        self._woken.clear()
        self._wake_at_count = enough
        if len(self._ended) < enough:
            self._woken.wait(timeout_s)
        self._wake_at_count = _NOBODY_WAITS

    def clear(self) -> None:
        """Drop what is there."""
        self._ended.clear()
