"""A machine's clock that is off, for worlds in which several processes live."""

from __future__ import annotations

from waterclock.clock import Clock
from waterclock.model.ids import Instant


class SkewedClock:
    """It is off by ``skew_us``, which may change. The monotonic one is nobody's to shift."""

    def __init__(self, true: Clock, skew_us: int = 0) -> None:
        self._true = true
        self.skew_us = skew_us

    def now(self) -> Instant:
        return self._true.now() + self.skew_us

    def monotonic_s(self) -> float:
        return self._true.monotonic_s()
