"""Whether this worker is of no use to its groups: no slot of it can be taken, and none will be by an outcome.

Why: code that does not stop keeps its slot after all is said of its attempt. Where it has taken them all this worker
claims nothing more, perhaps until it is restarted; and as long as it is a member nobody else may take what waits in
its partitions, whatever room the others have. A worker whose attempts still run is no such case: they end.

What must hold: it is said only after ``AFTER_S`` in a row, so that threads which end soon move no partitions; and who
has left comes back when a slot is free, after as long at the earliest: the clients that were closed must have gone.
"""

from __future__ import annotations

import structlog

from waterclock.clock import Clock

from .slots import Slots

AFTER_S = 10.0

logger = structlog.get_logger()


class StandingAside:
    """Of one worker."""

    def __init__(self, clock: Clock, slots: Slots) -> None:
        self._clock = clock
        self._slots = slots
        self._since_s: float | None = None
        self._left_at_s = float("-inf")

    @property
    def is_due(self) -> bool:
        """Whether it is time to leave; ask at each turn."""
        if self._slots.held_count or self._slots.free > 0:
            self._since_s = None
            return False
        now_s = self._clock.monotonic_s()
        if self._since_s is None:
            self._since_s = now_s
        return now_s - self._since_s >= AFTER_S

    def left(self, worker: str) -> None:
        """The groups were left."""
        self._since_s, self._left_at_s = None, self._clock.monotonic_s()
        logger.warning("groups_left", worker=worker, slots_stuck=self._slots.capacity)

    @property
    def is_over(self) -> bool:
        """Whether one that has left may come back."""
        return self._slots.free > 0 and self._clock.monotonic_s() - self._left_at_s >= AFTER_S
