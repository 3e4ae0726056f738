"""How often a process has its turn: soon where it was busy or something new waits for it, else after a rest.

A turn that finds nothing costs as much as ten that are left out, and while troubles last some of them are wanted: a
crash may strike at any call. Must hold: rests are short enough for beats, sessions, leases and watches of leases;
everything follows from the plan.
"""

from __future__ import annotations

from collections.abc import Mapping

from waterclock.model.ids import US_PER_S

from .api_process import ApiProcess
from .dice import dice
from .handlers import DrawnExecutors
from .plan import Plan
from .world import Life

_REST_US_MAX = 10 * US_PER_S
_REST_US_HEALED = {
    "dispatcher": 900_000,
    "recorder": 2_500_000,
    "retry-router": 1_800_000,
    "retry-ladder": 900_000,
    "dag-engine": 900_000,
    "intake": 2_500_000,
    "api": 1_800_000,
}
"""When nothing goes wrong any more, and nothing is new."""
_LOOK_US_HEALED, _BUSY_US_HEALED = 600_000, 400_000
"""Soon, for whoever waits; and late enough that what comes in a row is served in one turn."""
_REST_LEASES, _LOOK_LEASES = 1 / 4, 1 / 10
"""Of who beats, and of who listens: a keeper that looks away for half a lease judges nobody."""
_BY_THE_LEASE = ("worker", "lease-keeper")


class Pacing:
    """Of one play. ``executors``: of every worker that lives, by the name of its process."""

    def __init__(self, plan: Plan, executors: Mapping[str, DrawnExecutors]) -> None:
        self.has_healed = False
        self._executors = executors
        self._plan = plan
        self._dice = {slot: dice(plan.seed, f"pace/{slot}") for slot in plan.slots}

    def after_turn_us(self, life: Life, tick: int, *, busy: bool) -> int:
        """Until it looks again, after a turn that ended at ``tick``."""
        if busy:
            life.idle_turns, life.rests_until = 0, tick
            return self._about(life, _BUSY_US_HEALED if self.has_healed else self._plan.busy_us)
        if life.log is not None:
            life.log.end_turn()
        life.idle_turns += 1
        life.rests_until = tick + self._rest_us(life)
        return self.until_next_look_us(life)

    def until_next_look_us(self, life: Life) -> int:
        """Until it looks whether there is anything to do; looking is no port call."""
        step_us = self._plan.step_us[life.slot]
        if self.has_healed:
            step_us = min(step_us, _LOOK_US_HEALED)
        if life.role in _BY_THE_LEASE:
            step_us = min(step_us, round(self._plan.lease_us * _LOOK_LEASES))
        return self._about(life, step_us)

    def rests(self, life: Life, tick: int) -> bool:
        """Whether it has nothing to do, as far as can be told from outside."""
        if tick >= life.rests_until or life.log is None:
            return False
        if life.role == "lease-keeper":
            return True  # beats are always new, and may gather
        if life.log.has_news:
            return False
        core, executors = life.core, self._executors.get(life.client)
        return not (executors is not None and executors.is_due) and not (
            isinstance(core, ApiProcess) and core.is_called
        )

    def _rest_us(self, life: Life) -> int:
        longest_us = _REST_US_HEALED.get(life.role, _REST_US_MAX) if self.has_healed else _REST_US_MAX
        if life.role in _BY_THE_LEASE:
            longest_us = round(self._plan.lease_us * _REST_LEASES)
        if self.has_healed:
            return longest_us
        return min(self._plan.step_us[life.slot] * min(life.idle_turns, self._plan.patience), longest_us)

    def _about(self, life: Life, us: int) -> int:
        return round(us * (0.2 + 1.6 * self._dice[life.slot].random()))
