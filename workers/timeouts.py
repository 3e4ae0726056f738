"""Whose time is over: the attempts that a job's policy gives a time-out, in the order in which they run out.

What must hold: an attempt is told once, and only where it is still held; attempts without a time-out cost nothing. What
has ended stays in the heap until it is cleaned, which is done before it holds more than twice what can be held.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop, heappush
from itertools import count

from waterclock.clock import Clock
from waterclock.model.ids import US_PER_S

from .executors.port import Attempt
from .slots import Slots


class Timeouts:
    """Time-outs of what ``slots`` hold, on the monotonic clock."""

    def __init__(self, clock: Clock, slots: Slots) -> None:
        self._clock = clock
        self._slots = slots
        self._heap: list[tuple[float, int, Attempt]] = []
        self._numbers = count()

    def watch(self, attempts: Iterable[Attempt]) -> None:
        """These begin now."""
        for attempt in attempts:
            if attempt.work.policy and attempt.timeout_us:
                over_at_s = self._clock.monotonic_s() + attempt.timeout_us / US_PER_S
                heappush(self._heap, (over_at_s, next(self._numbers), attempt))
        if len(self._heap) > 2 * self._slots.capacity:
            self._heap = [entry for entry in self._heap if self._slots.holds(entry[2])]
            heapify(self._heap)

    def over(self) -> list[Attempt]:
        """Those whose time has run out since the last call, if they are still held."""
        found: list[Attempt] = []
        while self._heap and self._heap[0][0] <= self._clock.monotonic_s():
            attempt = heappop(self._heap)[2]
            if self._slots.holds(attempt):
                found.append(attempt)
        return found

    def clear(self) -> None:
        """Forget all."""
        self._heap.clear()
