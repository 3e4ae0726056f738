"""People who edit a job while a fire of it is still to come, because of its jitter: see ``people.py``.

Two or three versions of the job then have a fire due in one instant, of one tier or of several; or the newest fires
every second, in a time that its calendar blocks, while one of an older version is due. Some pause, delete or change the
job about that instant. Others give it a narrower jitter moments before a fire that the wider one then holds back, of a
paused one-off even: where that is applied a moment late the fire is over by the new jitter.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from waterclock.model.calendar import Calendar, side_of
from waterclock.model.ids import US_PER_S, Instant
from waterclock.model.job import CommandKind, Every, JobSpec, Once, Tier
from waterclock.model.timing import CalendarUse, Misfire, Timing

from .people import Order

_SHARE = 0.35
_BLOCKED_SHARE = 0.35
_NEVER_AGAIN_S = 3_600
_JITTER_US = 600 * US_PER_S
_NARROWED_SHARE = 0.3
_ABOUT_US = (-700_000, -100_000, 100_000, 500_000, 2_000_000)
"""When somebody changes the job again, counted from the instant."""


def narrowed_orders(rng: random.Random, start_at: Instant, horizon: int) -> list[Order]:
    """One or two jobs whose jitter is narrowed again and again, in some seeds."""
    count = rng.randint(1, 2) if rng.random() < _NARROWED_SHARE else 0
    orders = [order for number in range(count) for order in _narrow_ones(rng, f"t:narrowed{number}", start_at, horizon)]
    return [order._replace(command_id=f"n{number}") for number, order in enumerate(orders)]


def instant_orders(rng: random.Random, start_at: Instant, horizon: int) -> list[Order]:
    """One to three such jobs in some seeds."""
    count = rng.randint(1, 3) if rng.random() < _SHARE else 0
    orders = [order for number in range(count) for order in _orders(rng, f"t:instant{number}", start_at, horizon)]
    return [order._replace(command_id=f"e{number}") for number, order in enumerate(orders)]


def _orders(rng: random.Random, job_id: str, start_at: Instant, horizon: int) -> Iterator[Order]:
    begin_s = start_at // US_PER_S
    free_s = 1
    while free_s < horizon // US_PER_S:
        due_s = free_s + rng.randint(6, 12)
        for ordered_at, fire_s in _times(rng, free_s, due_s):
            spec = _spec(rng, begin_s, fire_s, due_s)
            yield Order(min(ordered_at, horizon - 1), CommandKind.CREATE, job_id, spec)
        at = due_s * US_PER_S + rng.choice(_ABOUT_US)
        for kind in rng.choice([(), (), (CommandKind.PAUSE, CommandKind.RESUME), (CommandKind.DELETE,)]):
            yield Order(min(at, horizon - 1), kind, job_id, None)
            at += rng.randrange(US_PER_S, 3 * US_PER_S)
        free_s = due_s + rng.randint(3, 9)


def _narrow_ones(rng: random.Random, job_id: str, start_at: Instant, horizon: int) -> Iterator[Order]:
    free_s, last_s = 1, horizon // US_PER_S
    while free_s < last_s:
        due_s = free_s + rng.randint(6, 12)
        yield from _narrowed(rng, job_id, start_at // US_PER_S, (free_s + 3, due_s), horizon)
        free_s = due_s + rng.randint(3, 9)


def _narrowed(
    rng: random.Random, job_id: str, begin_s: int, between_s: tuple[int, int], horizon: int
) -> Iterator[Order]:
    """A fire at the first instant that is due at the second, and moments before the first one an edit of its jitter."""
    fire_s, due_s = between_s
    is_once, is_paused = rng.random() < 0.3, rng.random() < 0.4
    at = fire_s * US_PER_S
    yield Order(min(at - 2 * US_PER_S, horizon - 1), CommandKind.CREATE, job_id, _held(begin_s, fire_s, due_s, is_once))
    if is_paused:
        yield Order(min(at - US_PER_S, horizon - 1), CommandKind.PAUSE, job_id, None)
    narrow = _held(begin_s, fire_s, rng.choice([fire_s, fire_s, fire_s + 1]), is_once)
    yield Order(min(at - rng.randrange(1_000, 60_000), horizon - 1), CommandKind.CREATE, job_id, narrow)
    if is_paused:
        yield Order(min(at + 2 * US_PER_S, horizon - 1), CommandKind.RESUME, job_id, None)


def _held(begin_s: int, fire_s: int, due_s: int, is_once: bool) -> JobSpec:
    placed_us = (due_s - fire_s) * US_PER_S
    timing = Timing(jitter_us=_JITTER_US, balanced=True, placed_us=placed_us) if placed_us else Timing()
    at = (begin_s + fire_s) * US_PER_S
    return JobSpec("sim.ok", Once(at) if is_once else Every(_NEVER_AGAIN_S * US_PER_S, at), timing=timing)


def _times(rng: random.Random, free_s: int, due_s: int) -> Iterator[tuple[int, int]]:
    """(when a version comes, its fire time in seconds) of those that have a fire due at ``due_s``: each comes between
    the fire of the one before and its own."""
    before_s = free_s
    earlier = rng.sample(range(free_s + 1, due_s), rng.choice([1, 1, 2]))
    for fire_s in (*sorted(earlier), due_s):
        yield before_s * US_PER_S + rng.randrange(50_000, (fire_s - before_s) * US_PER_S - 50_000), fire_s
        before_s = fire_s


def _spec(rng: random.Random, begin_s: int, fire_s: int, due_s: int) -> JobSpec:
    tier = rng.choice([Tier.MEDIUM, Tier.MEDIUM, *Tier])
    timing = Timing(misfire=rng.choice([Misfire.LATEST, Misfire.ALL]))
    if fire_s == due_s and rng.random() < _BLOCKED_SHARE:
        first_s = begin_s + due_s - rng.randrange(6)
        side = side_of((), (), [(first_s, begin_s + due_s + rng.choice([3, 20, 60]))])
        timing = Timing(misfire=timing.misfire, calendars=(CalendarUse("freeze", 1, Calendar(exclude=side).as_text()),))
        return JobSpec("sim.ok", Every(US_PER_S, begin_s * US_PER_S), tier, timing=timing)
    if fire_s < due_s:
        placed_us = (due_s - fire_s) * US_PER_S
        timing = Timing(misfire=timing.misfire, jitter_us=_JITTER_US, balanced=True, placed_us=placed_us)
    return JobSpec("sim.ok", Every(_NEVER_AGAIN_S * US_PER_S, (begin_s + fire_s) * US_PER_S), tier, timing=timing)
