"""How much of a processor slow work may take: after each part it rests in proportion to what the part took.

By the monotonic clock, so what the process itself waited for counts as well: on a busy machine it takes less.
"""

from __future__ import annotations

from waterclock.clock import Clock

REST_MAX_S = 5.0


class Share:
    """Of one work. ``share``: above 0, at most 1."""

    def __init__(self, clock: Clock, share: float) -> None:
        self._clock = clock
        self._share = share
        self._rests_until_s = 0.0
        self._began_s = 0.0

    def begin(self) -> bool:
        """Whether a part may be done now."""
        self._began_s = self._clock.monotonic_s()
        return self._began_s >= self._rests_until_s

    def end(self) -> None:
        """The part is done."""
        now_s = self._clock.monotonic_s()
        self.rest((now_s - self._began_s) * (1 / self._share - 1))

    def rest(self, rest_s: float) -> None:
        """Nothing more for so long."""
        self._rests_until_s = self._clock.monotonic_s() + min(rest_s, REST_MAX_S)
