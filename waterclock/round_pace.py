"""How far apart a role's rounds are: a round costs the broker about the same for one record as for hundreds.

Where they are quick, as near as they may be; where they are slow, because the brokers or the processors are busy, twice
as far as one takes: so what little there is to gain by more rounds is not paid for by everybody else. Must hold: the
distance is bounded on both sides, and nothing is decided by it but when to look again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from waterclock.clock import Clock

LEAST_S = 0.010
MOST_S = 0.040
_TIMES = 2.0
_WEIGHT = 0.1
_EMPTY_S = 0.0005


class RoundPace:
    """Of one role; ``least_s``: between the beginnings of two rounds."""

    def __init__(self, clock: Clock, least_s: float = LEAST_S) -> None:
        self._clock = clock
        self._least_s = least_s
        self._took_s = 0.0
        self._began_at_s = float("-inf")

    def began(self) -> None:
        """A round that says something begins now."""
        self._began_at_s = self._clock.monotonic_s()

    @property
    def rest_s(self) -> float:
        """Seconds until the next round may begin, where there is little to do."""
        return max(0.0, self._began_at_s + self.distance_s - self._clock.monotonic_s())

    @contextmanager
    def committing(self) -> Iterator[None]:
        """Within, a round is committed; how long that takes counts where it lands, and where there was one."""
        began_s = self._clock.monotonic_s()
        yield
        took_s = self._clock.monotonic_s() - began_s
        if took_s > _EMPTY_S:
            self._took_s += _WEIGHT * (took_s - self._took_s)

    @property
    def distance_s(self) -> float:
        """Between the beginnings of two rounds, where there is little to do."""
        return max(self._least_s, min(MOST_S, _TIMES * self._took_s))
