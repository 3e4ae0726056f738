"""People with a job in a zone that goes while the job stands, as by an upgrade of tzdata: see ``people.py``.

What they ask for afterwards has to be done all the same: the job is deleted, paused, or given another schedule, which
fires. Its own first fire would come in a month: which fires are owed just before a zone goes is a matter of moments,
and no promise.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from waterclock.model.ids import US_PER_S, Instant
from waterclock.model.job import CommandKind, Cron, Every, JobSpec, Schedule
from waterclock.model.timing import Timing

from .people import Order
from .troubles import Trouble

ABROAD = "t:abroad"
ZONE = "Antarctica/Troll"
_SHARE = 0.15
_MONTH_US = 30 * 86_400 * US_PER_S


def zone_orders(rng: random.Random, start_at: Instant, horizon: int) -> list[Order]:
    """One such job in some seeds."""
    orders = [*_orders(rng, start_at, horizon)] if rng.random() < _SHARE else []
    return [order._replace(command_id=f"z{number}") for number, order in enumerate(orders)]


def zone_troubles(rng: random.Random, slot: str, horizon: int) -> list[Trouble]:
    """When the zone goes: once the job stands, and before or after what else is asked of it."""
    return [Trouble(rng.randrange(3 * US_PER_S, horizon // 2), "zone", slot)]


def _orders(rng: random.Random, start_at: Instant, horizon: int) -> Iterator[Order]:
    timing = Timing(from_at=start_at // US_PER_S * US_PER_S + _MONTH_US)
    abroad = JobSpec("sim.ok", Cron(rng.choice(["* * * * *", "*/7 3 * * *"]), zone=ZONE), timing=timing)
    yield Order(rng.randrange(3 * US_PER_S), CommandKind.CREATE, ABROAD, abroad)
    for at in sorted(rng.randrange(4 * US_PER_S, horizon) for _ in range(rng.randint(0, 3))):
        kind = rng.choice([CommandKind.UPDATE, CommandKind.UPDATE, CommandKind.DELETE, CommandKind.PAUSE])
        has_spec = kind is CommandKind.UPDATE
        wants_answer = rng.random() < 0.3
        yield Order(at, kind, ABROAD, _another(rng) if has_spec else None, wants_answer=wants_answer)


def _another(rng: random.Random) -> JobSpec:
    schedules: list[Schedule] = [Every(2 * US_PER_S), Cron("* * * * *", zone="Europe/Berlin"), Cron("*/2 * * * *")]
    return JobSpec("sim.ok", rng.choice(schedules))
