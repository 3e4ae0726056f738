"""How much the catch-up lane may take: a share of the dispatch while on-time work waits, and no more than its rate.

Where nothing that is on time waits the lane has all of a round. Its rate is a bound of its own, in runs and rows a
second of this process, for whoever works behind it: workers, and what they call. A job that brings more than was left
is paid for by later rounds.
"""

from __future__ import annotations

from typing import Protocol

_BURST_S = 1.0


class HasCredit(Protocol):
    """A lane: ``credit``, what it may take although work that is on time waits."""

    credit: float


class LaneShare:
    """Of one dispatcher. ``share``: from 0 to 1; ``per_s``: 0 is no bound. ``now_s`` is monotonic."""

    def __init__(self, share: float, per_s: float, now_s: float) -> None:
        self._share = share
        self._per_s = per_s
        self._tokens = per_s * _BURST_S
        self.spent_count = 0
        """How often a lane took something: the number of whoever did so last."""
        self._filled_at_s = now_s

    def kept_back(self, limit: int) -> int:
        """How much of a round that may take ``limit`` is not for what is on time; at least one is."""
        return min(int(limit * self._share), limit - 1)

    def allowed(self, lane: HasCredit, limit: int, taken: int, *, on_time_waits: bool, now_s: float) -> int:
        """How much the lane may take in this round, of which ``taken`` of ``limit`` are used."""
        if on_time_waits:
            lane.credit = min(lane.credit + limit * self._share, float(limit))
            room = int(max(0.0, lane.credit))
        else:
            lane.credit, room = 0.0, limit - taken
        return max(0, min(room, self._left(now_s)) if self._per_s else room)

    def spend(self, lane: HasCredit, taken: int, *, on_time_waits: bool) -> None:
        """The lane took so much."""
        if on_time_waits:
            lane.credit -= taken
        self._tokens -= taken
        self.spent_count += taken > 0

    def wait_s(self) -> float:
        """How long until the rate allows the next one; 0 where it does."""
        if not self._per_s or self._tokens >= 1.0:
            return 0.0
        return (1.0 - self._tokens) / self._per_s

    def _left(self, now_s: float) -> int:
        """Of the rate, by now."""
        earned = max(0.0, now_s - self._filled_at_s) * self._per_s
        self._tokens = min(self._tokens + earned, max(1.0, self._per_s * _BURST_S))
        self._filled_at_s = now_s
        return int(self._tokens)
