"""Who acts when: a heap of (tick, number, call) that moves the clock by hand.

Must hold: one thread, and no order but that of ticks and of asking. ``run`` may be called from inside a call: that is
how a process stands still in the middle of a step while the others go on. Ticks are microseconds since the beginning;
a sleep of the whole machine moves the clock and no tick.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable

from waterclock.clock import ManualClock


class Schedule:
    """The order of all calls."""

    def __init__(self, clock: ManualClock) -> None:
        self.tick = 0
        self._clock = clock
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._asked_count = 0

    def after(self, us: int, call: Callable[[], None]) -> None:
        """Call ``call`` in ``us`` microseconds, or as soon as possible after that."""
        self._asked_count += 1
        heapq.heappush(self._heap, (self.tick + us, self._asked_count, call))

    def run(self, until: int) -> None:
        """Make all calls up to the tick ``until``; calls that those ask for are among them."""
        heap = self._heap
        while heap and heap[0][0] <= until:
            tick, _, call = heapq.heappop(heap)
            self._move(tick)
            call()
        self._move(until)

    def _move(self, tick: int) -> None:
        if tick > self.tick:
            self._clock.advance(tick - self.tick)
            self.tick = tick
