"""How long trouble may last, and how soon to try again.

What must hold: the first failure is tried again at once (most are a rebalance); after that ever more slowly, at most a
second apart, so that a broker which is away is not hammered; and the time since the first failure of a row is known,
because three quarters of a lease without a round end the incarnation.
"""

from __future__ import annotations

from waterclock.clock import Clock

_FIRST_REST_S = 0.04
_REST_S_MAX = 1.0
_DOUBLINGS_MAX = 10


class Patience:
    """Counts failures in a row, on the monotonic clock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failing_since_s: float | None = None
        self._rest_until_s = float("-inf")
        self.failure_count = 0

    @property
    def failing_s(self) -> float:
        """Seconds since the first failure of the row, 0.0 without one."""
        return 0.0 if self._failing_since_s is None else self._clock.monotonic_s() - self._failing_since_s

    @property
    def rest_s(self) -> float:
        """Seconds still to wait before the next try; not above 0 when it may be made."""
        return self._rest_until_s - self._clock.monotonic_s()

    def failed(self) -> None:
        """A turn met trouble."""
        now_s = self._clock.monotonic_s()
        if self._failing_since_s is None:
            self._failing_since_s = now_s
        self.failure_count += 1
        if self.failure_count > 1:
            doublings = min(self.failure_count - 2, _DOUBLINGS_MAX)
            self._rest_until_s = now_s + min(_REST_S_MAX, _FIRST_REST_S * 2**doublings)

    def succeeded(self) -> None:
        """A turn met none: the row is over."""
        self._failing_since_s, self.failure_count = None, 0
