"""Cancels aimed at the instant of a fire, while everything breaks: some claims cross them.

Whose claim crosses a cancel runs without a right to it, and its outcome is ignored: that is to happen, and be judged.
"""

from __future__ import annotations

import time
from random import Random

from tests.acceptance.scene import Scene
from tests.oracle import owed as judge
from waterclock.model.ids import US_PER_S
from waterclock.model.job import CommandKind, Every

_PER_S = 1.5
_BEFORE_S, _AFTER_S = 0.05, 0.25
"""From so long before a fire to so long after it: between the run's PENDING and the end of its first attempt."""


class Cancels:
    """``go_on`` sends what is due by now; what a long absence missed is left out."""

    def __init__(self, scene: Scene, dice: Random) -> None:
        self._scene = scene
        self._dice = dice
        self._at_s = time.time()
        self._run: tuple[str, str] | None = None

    def go_on(self) -> None:
        if time.time() < self._at_s:
            return
        if self._run is not None:
            job_id, run_id = self._run
            self._scene.orders.send(CommandKind.CANCEL, job_id, run_id=run_id)
        self._run, self._at_s = self._draw()

    def _draw(self) -> tuple[tuple[str, str], float]:
        """The next run to cancel, and when."""
        job_id = self._dice.choice(sorted(self._scene.specs))
        schedule = self._scene.specs[job_id].schedule
        assert isinstance(schedule, Every)
        assert schedule.start_at is not None
        soonest = time.time_ns() // 1_000 + int(self._dice.expovariate(_PER_S) * US_PER_S)
        fires = max(0, -(-(soonest - schedule.start_at) // schedule.every_us))
        fire_at = schedule.start_at + fires * schedule.every_us
        at_s = fire_at / US_PER_S + self._dice.uniform(-_BEFORE_S, _AFTER_S)
        return (job_id, judge.run_id(job_id, fire_at)), at_s
