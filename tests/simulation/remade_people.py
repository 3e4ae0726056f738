"""People who delete a job and make it again in the same breath: see ``people.py``.

What the old one has decided stays decided: the new one names the same fires, most under another jitter, so that each
is due later, and nothing in the new one itself tells that there was an older one. Most come shortly before a fire, and
some are applied after it: by an owner whose clock is ahead, or whose store was away.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from waterclock.model.ids import US_PER_S, Instant
from waterclock.model.job import CommandKind, Every, JobSpec, Tier
from waterclock.model.timing import Misfire, Timing

from .people import Order

REMADE = "t:remade"
_SHARE = 0.35
_BREATH_US = (0, 300_000, 1_000_000, 2_500_000)
_BEFORE_US = (50_000, 1_000_000, 2_000_000, 3_000_000)
"""How long before a fire the first of them comes."""


def remade_orders(rng: random.Random, start_at: Instant, horizon: int) -> list[Order]:
    """One such job in some seeds."""
    orders = [*_orders(rng, start_at, horizon)] if rng.random() < _SHARE else []
    return [order._replace(command_id=f"m{number}") for number, order in enumerate(orders)]


def _orders(rng: random.Random, start_at: Instant, horizon: int) -> Iterator[Order]:
    first_s = rng.randint(6, 12)
    schedule = Every(rng.choice([6, 20, 60]) * US_PER_S, (start_at // US_PER_S + first_s) * US_PER_S)
    most = rng.choice([0, 0, 0, 4, 12])
    plain = JobSpec("sim.ok", schedule, timing=Timing(max_runs=most))
    yield Order(rng.randrange(4 * US_PER_S), CommandKind.CREATE, REMADE, plain)
    for _ in range(rng.randint(1, 4)):
        fire_at = first_s * US_PER_S + rng.randrange(horizon) // schedule.every_us * schedule.every_us
        at = fire_at - rng.choice(_BEFORE_US)
        for kind in (CommandKind.DELETE, CommandKind.CREATE, *_afterwards(rng)):
            has_spec = kind in (CommandKind.CREATE, CommandKind.UPDATE)
            yield Order(min(at, horizon - 1), kind, REMADE, _spec(rng, schedule, most) if has_spec else None)
            at += rng.choice(_BREATH_US)


def owners_ahead(rng: random.Random, dispatchers: Sequence[str]) -> dict[str, int]:
    """By how much the clocks of owners are ahead, in half of the seeds with such a job: a fire of theirs may come
    before commands that are stamped sooner."""
    if rng.random() < 0.5:
        return {}
    return {slot: rng.randrange(US_PER_S, 3 * US_PER_S) for slot in dispatchers}


def _afterwards(rng: random.Random) -> tuple[CommandKind, ...]:
    """What is done to the new one at once."""
    update, delete, create = CommandKind.UPDATE, CommandKind.DELETE, CommandKind.CREATE
    return rng.choice([(), (update,), (update,), (update, update), (delete,), (delete, create), (CommandKind.PAUSE,)])


def _spec(rng: random.Random, schedule: Every, most: int) -> JobSpec:
    widest_s = schedule.every_us // 2 // US_PER_S  # wider ones are refused: they would mix its fires up
    jitter_us = rng.choice([0, widest_s, rng.randint(1, widest_s)]) * US_PER_S
    misfire = rng.choice([Misfire.LATEST, Misfire.ALL])
    timing = Timing(misfire=misfire, jitter_us=jitter_us, max_runs=most)
    return JobSpec("sim.ok", schedule, rng.choice(list(Tier)), timing=timing)
