"""How far a reader had come some time ago: what it has read of a quiet partition gets old without lying far back.

Whoever keeps what it knows elsewhere, before retention takes the events that told it, needs a bound by time beside
the one by offsets. What must hold: it counts from when *this* reader was there, so whoever takes over begins anew; an
offset is called old after ``after_s`` at the earliest, and at most a twelfth of that later than it could be.
"""

from __future__ import annotations

from collections import deque

_MARKS = 12


class Aged:
    """The marks of one partition, a dozen. ``below``: what lies there was read ``after_s`` ago, or longer."""

    __slots__ = ("_after_s", "_marks", "below")

    def __init__(self, after_s: float) -> None:
        self._after_s = after_s
        self._marks: deque[tuple[float, int]] = deque()
        self.below = 0

    def note(self, position: int, now_s: float) -> None:
        """The reader stands at ``position`` now, by the monotonic clock."""
        if not self._marks or now_s >= self._marks[-1][0] + self._after_s / _MARKS:
            self._marks.append((now_s, position))
        while self._marks and self._marks[0][0] <= now_s - self._after_s:
            self.below = self._marks.popleft()[1]
