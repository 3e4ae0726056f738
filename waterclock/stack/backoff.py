"""How long to wait before a dead process is started again: at once at first, longer when it keeps dying.

Pure. A process that lived for half a minute starts with a clean record; one that dies young again and again is in a
crash loop, which is told and never ends by itself (the reason may go away: a backend that comes back).
"""

from __future__ import annotations

_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 10.0
_GOOD_LIFE_S = 30.0
CRASH_LOOP_DEATHS = 4
"""So many short lives in a row are a crash loop."""


class Backoff:
    """The record of one process."""

    def __init__(self) -> None:
        self.short_lives = 0

    def pause_after(self, lived_s: float) -> float:
        """Seconds to wait after a life of ``lived_s``: 0.1, 0.2, 0.4 ... 10."""
        self.short_lives = 0 if lived_s >= _GOOD_LIFE_S else self.short_lives + 1
        return min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2.0 ** max(0, min(self.short_lives, 20) - 1))

    @property
    def crash_loops(self) -> bool:
        """Whether it is time to say so."""
        return self.short_lives >= CRASH_LOOP_DEATHS
