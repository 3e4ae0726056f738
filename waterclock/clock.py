"""The Clock port: the only way in which a role learns the time."""

from __future__ import annotations

import time
from typing import Protocol

from waterclock.model.ids import US_PER_S, Instant


class Clock(Protocol):
    """Wall time decides eligibility and nothing else; leases, timeouts and back-off use the monotonic clock."""

    def now(self) -> Instant:
        """The wall clock: microseconds since the epoch, UTC. May jump, both ways."""
        ...

    def monotonic_s(self) -> float:
        """Seconds on a clock that never goes back. Comparable within this process alone."""
        ...


class SystemClock:
    """The machine's clocks."""

    def now(self) -> Instant:
        return time.time_ns() // 1_000

    def monotonic_s(self) -> float:
        return time.monotonic()


class ManualClock:
    """A clock that tests and the simulation move by hand."""

    def __init__(self, now: Instant = 1_795_000_000 * US_PER_S) -> None:
        self._now = now
        self._monotonic_us = 0

    def now(self) -> Instant:
        return self._now

    def monotonic_s(self) -> float:
        return self._monotonic_us / US_PER_S

    def advance(self, us: int) -> None:
        """Both clocks go on by ``us`` microseconds."""
        if us < 0:
            raise ValueError("time goes forward; use jump() to step the wall clock")
        self._now += us
        self._monotonic_us += us

    def jump(self, us: int) -> None:
        """Only the wall clock steps, forward or back."""
        self._now += us
