"""People whose jobs fail, are paused for it and resumed, or make only so many runs: see ``people.py``."""

from __future__ import annotations

import random
from collections.abc import Iterator

from waterclock.model.concurrency import FREE, Concurrency, Overlap
from waterclock.model.failure_policy import FailurePolicy
from waterclock.model.ids import US_PER_S, Instant
from waterclock.model.job import CommandKind, Every, JobSpec, Tier
from waterclock.model.timing import Misfire, Timing

from .people import Order

COUNTED = "t:counted"
_SHARE = 0.4
_VERBS = (
    *[CommandKind.RESUME] * 6,
    *[CommandKind.UPDATE] * 3,
    *[CommandKind.TRIGGER] * 2,
    CommandKind.PAUSE,
    CommandKind.DELETE,
    CommandKind.CREATE,
)


def counted_orders(rng: random.Random, start_at: Instant, horizon: int) -> list[Order]:
    """One such job in some seeds: it fires every second, before the others, and fails often."""
    return [*_orders(rng, start_at, horizon)] if rng.random() < _SHARE else []


def _orders(rng: random.Random, start_at: Instant, horizon: int) -> Iterator[Order]:
    failures, runs = rng.choice([0, 1, 2, 2, 3]), rng.choice([0, 0, 0, 3, 10])
    yield Order(0, CommandKind.CREATE, COUNTED, _spec(rng, start_at, failures, runs), "n0")
    for number in range(1, rng.randint(2, 7)):
        at, kind = rng.randrange(4 * US_PER_S, horizon), rng.choice(_VERBS)
        spec = None
        if kind in (CommandKind.CREATE, CommandKind.UPDATE):
            asked = failures if rng.random() < 0.7 else rng.choice([0, 1, 2, 4])
            spec = _spec(rng, start_at, asked, runs and runs + rng.choice([0, 0, 3, -2]))
        yield Order(at, kind, COUNTED, spec, f"n{number}", wants_answer=rng.random() < 0.3)


def _spec(rng: random.Random, start_at: Instant, failures: int, runs: int) -> JobSpec:
    policies = [FREE, FREE, *(Concurrency(overlap) for overlap in Overlap if overlap is not Overlap.ALLOW)]
    return JobSpec(
        rng.choice(["sim.fails", "sim.flaky", "sim.flaky"]),
        Every(US_PER_S, start_at // US_PER_S * US_PER_S),
        Tier.HIGH,
        payload=rng.choice([b"", b"1", b"2"]),
        policy=FailurePolicy(max_attempts=1),
        timing=Timing(misfire=rng.choice([Misfire.LATEST, Misfire.ALL]), pause_after_failures=failures, max_runs=runs),
        concurrency=rng.choice(policies),
    )
