"""How often somebody may ask: one token bucket per key, refilled by the clock.

What must hold: the memory is bounded; a full table forgets whoever is rested (their bucket is full again anyway).
"""

from __future__ import annotations

from waterclock.clock import Clock

_BUCKETS_MAX = 10_000


class Rates:
    """``rate_per_s`` on average, ``burst`` at once. Belongs to the event loop."""

    def __init__(self, clock: Clock, rate_per_s: float, burst: int) -> None:
        self._clock = clock
        self._rate_per_s = rate_per_s
        self._burst = float(burst)
        self._buckets: dict[str, tuple[float, float]] = {}

    def take(self, who: str) -> float:
        """0.0: go on. Else how many seconds to wait before the next try."""
        now_s = self._clock.monotonic_s()
        left, seen_s = self._buckets.get(who, (self._burst, now_s))
        left = min(self._burst, left + (now_s - seen_s) * self._rate_per_s)
        if left < 1.0:
            self._buckets[who] = left, now_s
            return (1.0 - left) / self._rate_per_s
        if len(self._buckets) >= _BUCKETS_MAX and who not in self._buckets:
            self._forget_the_rested(now_s)
        self._buckets[who] = left - 1.0, now_s
        return 0.0

    def _forget_the_rested(self, now_s: float) -> None:
        full_after_s = self._burst / self._rate_per_s
        self._buckets = {who: kept for who, kept in self._buckets.items() if now_s - kept[1] < full_after_s}
        if len(self._buckets) >= _BUCKETS_MAX:
            self._buckets.clear()
