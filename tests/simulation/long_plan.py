"""Hours of a system in which little happens: the plan of a *long seed*. See ``plan.py``, which draws the usual ones.

A usual play lasts half a minute, and what stands further ahead is decided in its end or never. Here jobs fire every few
minutes to hours, owners of different look-aheads follow one another, and people change jobs shortly before they fire.
Must hold: as there; processes rest as long as their sessions allow, so that an hour costs a second.
"""

from __future__ import annotations

import random

from waterclock.dispatcher.pace import Pace

from waterclock.model.ids import US_PER_S
from waterclock.store.tabular import DUE_KEPT_US

from .buggify import SITES, SMALL, draw_some
from .dice import dice
from .long_people import long_orders
from .people import run_orders
from .plan import ALWAYS, CATCH_UP_PER_S, DISPATCHERS, HERD_FIRES, Plan
from .troubles import Trouble, troubles

_HOUR_US = 3_600 * US_PER_S
_HOURS = (2.0, 3.0, 3.0, 4.0)
_LOOKS_S = ((10.0, 600.0), (10.0, 60.0, 600.0), (60.0, 90.0), (600.0,))
_LEASE_S = 30.0
_SHORT_LIFE_US = 2_400 * US_PER_S
"""Four times as long as the furthest looks ahead: or what is loaded would hide that rows are gone."""
_TOO_SLOW = frozenset({"events of open runs at a time", "followed when nothing is open"})
"""Constants that stay as they are: made small, they cost turns that an hour does not have."""
_AWAY_US = (200_000, 1_000_000, 9_000_000, 40_000_000)
_LONG_AWAY_US = (120 * US_PER_S, 600 * US_PER_S, 1_800 * US_PER_S)
_OTHERS = tuple(slot for slot in ALWAYS if slot not in DISPATCHERS)


def draw_long(seed: int) -> Plan:
    """The plan of a long seed: hours, and few processes."""
    rng = dice(seed, "long plan")
    horizon = round(rng.choice(_HOURS) * _HOUR_US)
    start_at = 1_795_000_020 * US_PER_S + rng.randrange(_HOUR_US)
    orders = long_orders(dice(seed, "long people"), start_at, horizon)
    orders += run_orders(dice(seed, "long runs"), horizon, races=False)
    changes = sorted({order.at for order in orders if order.job_id})
    struck = [*troubles(dice(seed, "long troubles"), ALWAYS, horizon, races=False)]
    struck += _rotations(dice(seed, "long rotations"), changes, horizon)
    struck += _absences(dice(seed, "long absences"), horizon)
    forgets = dice(seed, "long retention")
    struck += [Trouble(forgets.randrange(horizon), "retention", "") for _ in range(forgets.choice([0, 4, 12]))]
    small = draw_some(dice(seed, "long small"), tuple(sorted(SMALL.keys() - _TOO_SLOW)))
    return Plan(
        seed=seed,
        start_at=start_at,
        horizon=horizon,
        partitions=rng.choice([1, 1, 2]),
        slots=ALWAYS,
        slots_per_slice=rng.choice([256, 1_024]),
        pace=Pace(
            grace_s=rng.choice([20.0, 60.0, 60.0]),
            round_records=rng.choice([1, 3, 2_000, 2_000]),
            idle_commit_s=5.0,
            catch_up_per_s=rng.choice(CATCH_UP_PER_S),
            herd_fires=rng.choice(HERD_FIRES),
        ),
        looks_s=rng.choice(_LOOKS_S),
        lease_s=_LEASE_S,
        worker_slots=rng.choice([2, 8]),
        drain_grace_s=3.0,
        cancel_grace_s=2.0,
        skew_us={slot: rng.choice([0, 0, rng.randrange(-3 * US_PER_S, 3 * US_PER_S)]) for slot in ALWAYS},
        step_us={slot: _step_us(rng, slot) for slot in ALWAYS},
        pool_of={},
        repeat_within_us=24 * _HOUR_US,
        patience=4,
        busy_us=500_000,
        orders=tuple(sorted(orders, key=lambda order: order.at)),
        garbage=(),
        sites=draw_some(dice(seed, "long sites"), SITES),
        small=small,
        kept_behind=rng.choice([3, 20, 100_000]),
        api_wait_s=1.0,
        troubles=tuple(sorted(struck)),
        heals_anew=rng.random() < 0.5,
        rows_kept_us=rng.choice([_SHORT_LIFE_US, DUE_KEPT_US, DUE_KEPT_US]),
        loses_rows=rng.random() < 0.2,
    )


def _rotations(rng: random.Random, changes: list[int], horizon: int) -> list[Trouble]:
    """Owners go, and others with another look-ahead come: some time before people change something, or any time."""
    found: list[Trouble] = []
    for _ in range(rng.randint(10, 30)):
        at = rng.randrange(horizon)
        if changes and rng.random() < 0.8:
            at = max(0, rng.choice(changes) - rng.randrange(30, 300) * US_PER_S)
        us = rng.choice(_AWAY_US)
        gone = DISPATCHERS if rng.random() < 0.6 else (rng.choice(DISPATCHERS),)
        found += [Trouble(at, "crash", slot, calls=rng.randint(1, 9), us=us) for slot in gone]
    return found


def _absences(rng: random.Random, horizon: int) -> list[Trouble]:
    """Others are gone for minutes: whoever waits for them waits, and does not do their work once more."""
    return [
        Trouble(rng.randrange(horizon), "crash", rng.choice(_OTHERS), us=rng.choice(_LONG_AWAY_US))
        for _ in range(rng.randint(0, 6))
    ]


def _step_us(rng: random.Random, slot: str) -> int:
    """Four of them are a rest. Some are too slow for their sessions, and lose their partitions again and again."""
    seconds = rng.choice([1.0] * 9 + [2.0]) if slot in DISPATCHERS else rng.choice([1.4] * 5 + [3.0])
    return round(seconds * US_PER_S)
