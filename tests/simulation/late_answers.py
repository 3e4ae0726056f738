"""Answers of the store to a dispatcher's errands that come some turns later, where nobody waits for them.

The call itself is made as it is given, so what it read may be old by the time of its answer, and what it wrote stands.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from waterclock.dispatcher.errands import Call, Made

from waterclock.clock import Clock
from waterclock.model.ids import Instant


class LateAnswers:
    """Makes calls at once; ``late_us`` draws how long each answer takes."""

    def __init__(self, clock: Clock, late_us: Callable[[], int]) -> None:
        self._clock = clock
        self._late_us = late_us

    def begin(self, call: Call) -> _Late:
        made = Made(call)
        return _Late(made, self._clock, self._clock.now() + self._late_us())

    def close(self) -> None:
        """Nothing is left."""


class _Late:
    def __init__(self, made: Made, clock: Clock, answers_at: Instant) -> None:
        self._made = made
        self._clock = clock
        self._answers_at = answers_at

    @property
    def is_done(self) -> bool:
        return self._clock.now() >= self._answers_at

    def result(self) -> Any:
        return self._made.result()
