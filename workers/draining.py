"""Shutting down within a grace: what is left alone, asked, forced, and handed back.

The stages, as parts of the grace: what was claimed and has not begun is handed back at once; what runs is left alone
for the first half, asked to stop then, and forced when a fifth is left, which is the time to record how it ended. What
has stopped is handed back: failed, with the class ``drained``, which costs no attempt; its run goes on elsewhere at
once. What does not stop (a sync handler that does not look) is left open: the log says so when the worker says HELLO
again, or when its lease runs out.
"""

from __future__ import annotations

import structlog

from waterclock.clock import Clock

from .attempts import Attempts
from .slots import Slots

_ASK_AT, _FORCE_AT = 0.5, 0.8

logger = structlog.get_logger()


class Drain:
    """One shutting down; begins when it is made. ``grace_s``: all of it."""

    def __init__(self, clock: Clock, attempts: Attempts, slots: Slots, grace_s: float, worker: str) -> None:
        self._clock = clock
        self._attempts = attempts
        self._slots = slots
        self._grace_s = grace_s
        self._worker = worker
        self._began_at_s = clock.monotonic_s()
        self._is_asked = False
        self.has_left = False
        """The groups of the tiers were left."""
        attempts.hand_back_unbegun()

    def is_over(self) -> bool:
        """Whether the grace is used up; what is held then stays open in the log."""
        if self._clock.monotonic_s() < self._began_at_s + self._grace_s:
            return False
        if self._slots.held_count:
            logger.warning("attempts_left_open", worker=self._worker, attempts=self._slots.held_count)
        return True

    def tend(self) -> None:
        """Ask and force when it is time."""
        if not self._is_asked and self._clock.monotonic_s() >= self._began_at_s + _ASK_AT * self._grace_s:
            self._is_asked = True
            self._attempts.stop_all((_FORCE_AT - _ASK_AT) * self._grace_s)
