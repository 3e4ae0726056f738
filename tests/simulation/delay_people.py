"""People whose jobs wait for their own runs: fixed delays, edited, paused and deleted in flight; see ``people.py``."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

from waterclock.model.calendar import Calendar, side_of
from waterclock.model.failure_policy import FailurePolicy
from waterclock.model.ids import US_PER_S, Instant
from waterclock.model.job import CommandKind, Delay, Every, JobSpec, Once, Schedule, Tier
from waterclock.model.timing import PLAIN, CalendarUse, Timing

from .handlers import HANDLERS
from .people import Order, with_policies

DELAYED = ("t:after", "t:after-that")
_SHARE = 0.5
_VERBS = (
    *[CommandKind.UPDATE] * 4,
    *[CommandKind.PAUSE] * 2,
    *[CommandKind.RESUME] * 5,
    *[CommandKind.TRIGGER] * 2,
    CommandKind.ROLLBACK,
    CommandKind.CREATE,
    CommandKind.DELETE,
    CommandKind.BACKFILL,
)
_DELAYS_S = (1, 1, 2, 3, 5, 11)


def delay_orders(rng: random.Random, start_at: Instant, horizon: int) -> list[Order]:
    """One or two such jobs in some seeds."""
    if rng.random() >= _SHARE:
        return []
    orders = [order for job_id in DELAYED[: rng.choice([1, 1, 2])] for order in _orders(rng, job_id, start_at, horizon)]
    return [*with_policies(rng, orders)] if rng.random() < 0.5 else orders


def _orders(rng: random.Random, job_id: str, start_at: Instant, horizon: int) -> Iterator[Order]:
    begins = rng.randrange(3 * US_PER_S)
    name = f"{job_id[2:]}."
    freeze = _freeze(rng, start_at, horizon) if rng.random() < 0.3 else None
    yield Order(begins, CommandKind.CREATE, job_id, _spec(rng, start_at + begins, freeze), f"{name}0")
    if rng.random() < 0.6:  # so that it goes on after the heal, too
        yield Order(horizon - rng.randrange(1, 6 * US_PER_S), CommandKind.RESUME, job_id, None, f"{name}r")
    for number in range(1, rng.randint(1, 8)):
        at, kind = rng.randrange(4 * US_PER_S, horizon), rng.choice(_VERBS)
        spec = _spec(rng, start_at + at, freeze) if kind in (CommandKind.CREATE, CommandKind.UPDATE) else None
        order = Order(at, kind, job_id, spec, f"{name}{number}", wants_answer=rng.random() < 0.5)
        order = order._replace(pick=rng.randrange(1 << 16))
        if kind is CommandKind.PAUSE and rng.random() < 0.4:
            order = order._replace(resume_at=start_at + at + rng.randint(1, 15) * US_PER_S)
        if kind is CommandKind.BACKFILL:
            order = order._replace(back_us=rng.randint(1, 30) * US_PER_S, span_us=20 * US_PER_S)
        yield order
        if rng.random() < 0.15:
            yield order._replace(at=min(at + rng.randrange(9 * US_PER_S), horizon - 1))


def _spec(rng: random.Random, now: Instant, freeze: CalendarUse | None) -> JobSpec:
    schedule: Schedule = Delay(rng.choice(_DELAYS_S) * US_PER_S)
    if rng.random() < 0.15:
        schedule = rng.choice([Every(2 * US_PER_S), Once(now + 5 * US_PER_S)])
    timing = PLAIN
    if isinstance(schedule, Delay):
        timing = Timing(
            from_at=rng.choice([0, 0, 0, now + 4 * US_PER_S]),
            until_at=rng.choice([0, 0, 0, now + 25 * US_PER_S]),
            max_runs=rng.choice([0, 0, 0, 0, 3, 6]),
            pause_after_failures=rng.choice([0, 0, 0, 2]),
        )
    if freeze is not None and isinstance(schedule, Delay):
        timing = replace(timing, calendars=(freeze,))
    handler, policy = rng.choice([*HANDLERS, "sim.ok", "sim.ok", "sim.fails"]), FailurePolicy(max_attempts=1)
    return JobSpec(handler, schedule, rng.choice([Tier.HIGH, *Tier]), policy=policy, timing=timing)


def _freeze(rng: random.Random, start_at: Instant, horizon: int) -> CalendarUse:
    """Some seconds that are blocked."""
    begin = start_at // US_PER_S
    ranges = []
    for _ in range(rng.randint(1, 3)):
        at = begin + rng.randrange(horizon // US_PER_S)
        ranges.append((at, at + rng.choice([1, 3, 8, 20])))
    return CalendarUse("freeze", 1, Calendar(exclude=side_of((), (), ranges)).as_text())
