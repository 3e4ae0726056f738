"""People who want fires of the past run: of new jobs, of what a pause or an outage has left. See ``people.py``.

Ranges are short and end before they are asked for: a play lasts half a minute. Some are paused and go on, some are
cancelled; which one that is, whoever asks sees on run-events then.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from waterclock.model.calendar import Calendar, side_of
from waterclock.model.concurrency import FREE, Concurrency, Overlap
from waterclock.model.ids import US_PER_MINUTE, US_PER_S, Instant
from waterclock.model.job import CommandKind, Cron, JobSpec, Tier
from waterclock.model.timing import PLAIN, CalendarUse, Timing

from .people import STEADY, Order, with_policies

PAST = "t:past"
_HANDLERS = ("sim.ok", "sim.ok", "sim.emits", "sim.fails", "sim.flaky", "sim.slow")
_SHARE = 0.6
_OTHERS = ("t:cal0", "t:beside0")
"""Jobs of other people: there in some seeds, with calendars, policies and limits of their own."""


def backfill_orders(rng: random.Random, jobs: Sequence[str], start_at: Instant, horizon: int) -> list[Order]:
    """In most seeds one or two jobs of their own, and ranges of these and of ``jobs``."""
    if rng.random() > _SHARE:
        return []
    return [*with_policies(rng, _orders(rng, jobs, start_at, horizon))]


def _orders(rng: random.Random, jobs: Sequence[str], start_at: Instant, horizon: int) -> Iterator[Order]:
    mine = [f"{PAST}{number}" for number in range(rng.randint(1, 2))]
    for job_id in mine:
        yield Order(rng.randrange(3 * US_PER_S), CommandKind.CREATE, job_id, _spec(rng, start_at), f"f{job_id}")
        if rng.random() < 0.2:
            gone = rng.choice([CommandKind.UPDATE, CommandKind.DELETE, CommandKind.PAUSE])
            spec = _spec(rng, start_at) if gone is CommandKind.UPDATE else None
            yield Order(rng.randrange(8 * US_PER_S, horizon), gone, job_id, spec, f"f{job_id}.g")
    for number in range(rng.randint(1, 5)):
        at = rng.randrange(4 * US_PER_S, horizon)
        job_id = rng.choice([*mine, *mine, *mine, *jobs, *STEADY, *_OTHERS])
        yield _asked(rng, at, job_id, f"f{number}", is_past=job_id in mine)
        if rng.random() < 0.25:  # once more, the same
            again_at = min(at + rng.randrange(4 * US_PER_S), horizon - 1)
            yield _asked(rng, again_at, job_id, f"f{number}.2", is_past=job_id in mine)
    for number in range(rng.choice([0, 0, 1, 3])):
        at, pick = rng.randrange(6 * US_PER_S, horizon), rng.randrange(1 << 16)
        kind = rng.choice([CommandKind.PAUSE_BACKFILL, CommandKind.PAUSE_BACKFILL, CommandKind.CANCEL_BACKFILL])
        yield Order(at, kind, "", None, f"f.t{number}", wants_answer=True, pick=pick)
        if kind is CommandKind.PAUSE_BACKFILL and rng.random() < 0.8:
            resumed_at = min(at + rng.randrange(12 * US_PER_S), horizon - 1)
            yield Order(resumed_at, CommandKind.RESUME_BACKFILL, "", None, f"f.r{number}", wants_answer=True, pick=pick)


def _asked(rng: random.Random, at: int, job_id: str, name: str, *, is_past: bool) -> Order:
    back_us = rng.choice([3, 6, 11] if is_past else [1, 1, 2]) * US_PER_MINUTE
    back_us += rng.choice([0, rng.randrange(40 * US_PER_S)])
    if not is_past and job_id in STEADY:
        back_us = rng.randint(1, 25) * US_PER_S
    span_us = rng.choice([back_us, back_us, rng.randint(US_PER_S, back_us), back_us + US_PER_MINUTE // 2])
    order = Order(at, CommandKind.BACKFILL, job_id, None, name, wants_answer=rng.random() < 0.5)
    order = order._replace(key=rng.choice(["", f"k{name}"]), back_us=back_us, span_us=span_us)
    return order._replace(concurrency=rng.choice([0, 1, 2, 2, 5]), tier=rng.choice(["", "", "HIGH", "MEDIUM"]))


def _spec(rng: random.Random, start_at: Instant) -> JobSpec:
    concurrency = FREE
    if rng.random() < 0.4:
        overlap = rng.choice([Overlap.ALLOW, Overlap.SKIP, Overlap.BUFFER_ALL, Overlap.CANCEL_OTHER])
        concurrency = Concurrency(overlap, max_concurrent=rng.choice([1, 2]))
    cron = Cron(rng.choice(["* * * * *", "* * * * *", "*/2 * * * *"]))
    timing = Timing(calendars=(_freeze(rng, start_at),)) if rng.random() < 0.3 else PLAIN
    return JobSpec(rng.choice(_HANDLERS), cron, rng.choice(list(Tier)), timing=timing, concurrency=concurrency)


def _freeze(rng: random.Random, start_at: Instant) -> CalendarUse:
    """Some minutes before the play are blocked."""
    begin = start_at // US_PER_MINUTE * 60 - 60 * rng.randint(1, 8)
    ranges = [(begin, begin + 60 * rng.randint(1, 3))]
    return CalendarUse("past", 1, Calendar(exclude=side_of((), (), ranges)).as_text())


def asked_range(order: Order, now: Instant) -> tuple[Instant, Instant]:
    """What the order means at this instant."""
    from_at = (now - order.back_us) // US_PER_S * US_PER_S
    return from_at, from_at + order.span_us // US_PER_S * US_PER_S
