"""What people ask for of calendars in a seed: jobs that use them, new versions of them, and what comes in their way.

A play lasts half a minute, so most of what is blocked are freezes of seconds. Fires that calendars move come from the
day before: dates of yesterday, on a day that is not free, fall to the same time of today, where some meet other dates.
A new version reaches each job by a command of its own, some late, some twice, some after a newer one.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace

from waterclock.model.calendar import Calendar, side_of
from waterclock.model.concurrency import FREE, Concurrency, Overlap
from waterclock.model.ids import US_PER_S, Instant
from waterclock.model.job import CommandKind, Dates, Every, JobSpec, Tier
from waterclock.model.timing import CalendarUse, CatchUpOrder, Misfire, OnCalendar, Timing

from .handlers import HANDLERS
from .people import Order

_DAY_S = 86_400
_SHARE = 0.5
_CHANGES = {
    CommandKind.UPDATE: 4,
    CommandKind.PAUSE: 3,
    CommandKind.RESUME: 3,
    CommandKind.ROLLBACK: 2,
    CommandKind.DELETE: 1,
    CommandKind.CREATE: 1,
}
"""What else becomes of such a job, and how often."""


def calendar_orders(rng: random.Random, start_at: Instant, horizon: int) -> list[Order]:
    """In half of the seeds: one to three jobs with calendars, and what becomes of both."""
    if rng.random() > _SHARE:
        return []
    history = {name: [*_versions(rng, name, start_at, horizon)] for name in ("freeze", "days")}
    orders: list[Order] = []
    for number in range(rng.randint(1, 3)):
        orders += _of_job(rng, f"t:cal{number}", history, start_at, horizon)
    return [order._replace(command_id=f"k{number}") for number, order in enumerate(orders)]


def _of_job(
    rng: random.Random, job_id: str, history: dict[str, list[tuple[int, CalendarUse]]], start_at: Instant, horizon: int
) -> Iterator[Order]:
    moves = rng.random() < 0.35
    names = ["days"] if moves else ["freeze"]
    if rng.random() < 0.3:
        names = ["days", "freeze"]
    created_at = rng.randrange(6 * US_PER_S)
    spec = _spec(rng, start_at + created_at, moves=moves)

    def saved(at: int) -> JobSpec:
        """With the calendars as they stand, or stood a moment before."""
        seen = at - rng.choice([0, 0, 300_000, 2 * US_PER_S])
        uses = tuple(_stands(history[name], seen) for name in names)
        return replace(spec, timing=replace(spec.timing, calendars=uses))

    yield _order(rng, created_at, CommandKind.CREATE, job_id, saved(created_at))
    for name in names:
        for put_at, use in history[name][1:]:
            for _ in range(rng.choice([1, 1, 1, 2])):
                at = min(put_at + rng.choice([0, 0, rng.randrange(3 * US_PER_S)]), horizon - 1)
                yield _order(rng, at, CommandKind.CALENDAR, job_id, None)._replace(calendars=(use,))
    for kind in rng.choices([*_CHANGES], [*_CHANGES.values()], k=rng.randrange(4)):
        at = rng.randrange(5 * US_PER_S, horizon)
        has_spec = kind in (CommandKind.UPDATE, CommandKind.CREATE)
        yield _order(rng, at, kind, job_id, saved(at) if has_spec else None)._replace(pick=rng.randrange(1 << 16))


def _order(rng: random.Random, at: int, kind: CommandKind, job_id: str, spec: JobSpec | None) -> Order:
    return Order(at, kind, job_id, spec, wants_answer=rng.random() < 0.5)


def _stands(history: Sequence[tuple[int, CalendarUse]], at: int) -> CalendarUse:
    return next((use for put_at, use in reversed(history) if put_at <= at), history[0][1])


def _versions(rng: random.Random, name: str, start_at: Instant, horizon: int) -> Iterator[tuple[int, CalendarUse]]:
    """(when it is put, what it is) of each version of a calendar."""
    times = sorted({0, *(rng.randrange(2 * US_PER_S, horizon) for _ in range(rng.choice([0, 1, 2, 3])))})
    for number, at in enumerate(times, 1):
        calendar = _freezes(rng, start_at, horizon) if name == "freeze" else _days(rng, start_at)
        yield at, CalendarUse(name, number, calendar.as_text())


def _freezes(rng: random.Random, start_at: Instant, horizon: int) -> Calendar:
    """Seconds of the play that are blocked, or in one of four the only ones that are not."""
    begin, length = start_at // US_PER_S, horizon // US_PER_S
    ranges = []
    for _ in range(rng.choice([0, 1, 1, 2, 4])):
        at = begin + rng.randrange(-5, length)
        ranges.append((at, at + rng.choice([1, 2, 5, 9, 25, 90])))
    side = side_of((), (), ranges)
    if not side.is_empty and rng.random() < 0.25:
        return Calendar(include=side, exclude=side_of((), (), [(begin + length // 2, begin + length // 2 + 3)]))
    return Calendar(exclude=side)


def _days(rng: random.Random, start_at: Instant) -> Calendar:
    """Yesterday and its neighbours: the fires of what is blocked fall to the first free one."""
    today = start_at // US_PER_S // _DAY_S
    blocked = rng.choice([[-1], [-1], [-1], [-2, -1], [-2], [-1, 0], []])
    freeze = (start_at // US_PER_S + 10, start_at // US_PER_S + 13)
    return Calendar(exclude=side_of((), [today + day for day in blocked], [freeze] if rng.random() < 0.3 else []))


def _spec(rng: random.Random, now: Instant, *, moves: bool) -> JobSpec:
    second = now // US_PER_S
    timing = Timing(
        misfire=rng.choice(list(Misfire)),
        catch_up_max=rng.choice([1, 3, 100]),
        catch_up_window_us=rng.choice([10, 30, 86_400]) * US_PER_S,
        catch_up_order=rng.choice(list(CatchUpOrder)),
        on_calendar=OnCalendar.NEXT_ALLOWED if moves else OnCalendar.SKIP,
    )
    if moves:
        seconds = {
            second + rng.randrange(-5, 60) - _DAY_S * rng.choice([0, 1, 1, 2]) for _ in range(rng.randint(2, 15))
        }
        schedule: Dates | Every = Dates(tuple(at * US_PER_S for at in sorted(seconds)))
    else:
        schedule = Every(rng.choice([1, 1, 1, 2, 3, 7]) * US_PER_S)
    # Dates that are moved may come to stand side by side: no door can know that their jitter is too wide then.
    every_us = schedule.every_us if isinstance(schedule, Every) else rng.choice([2, 2, 6]) * US_PER_S
    if every_us > US_PER_S and rng.random() < 0.3:
        window_us = rng.randint(1, every_us // (2 * US_PER_S)) * US_PER_S
        timing = replace(timing, jitter_us=window_us, jitter_per_fire=rng.random() < 0.5)
        if not timing.jitter_per_fire and rng.random() < 0.5:
            placed_us = rng.randrange(window_us // US_PER_S) * US_PER_S
            timing = replace(timing, balanced=True, placed_us=placed_us)
    concurrency = _beside(rng) if rng.random() < 0.3 else FREE
    if concurrency.overlap is Overlap.SEQUENTIAL:
        timing = replace(timing, catch_up_order=CatchUpOrder.OLDEST)
    return JobSpec(rng.choice(HANDLERS), schedule, rng.choice(list(Tier)), timing=timing, concurrency=concurrency)


def _beside(rng: random.Random) -> Concurrency:
    """What is blocked is skipped before anybody asks whether it may run beside others; what waits is released later,
    whatever its calendars say by then."""
    overlap = rng.choice(list(Overlap))
    limits = [0, 1] if overlap is Overlap.SEQUENTIAL else [0, 1, 2]
    return Concurrency(overlap, max_concurrent=rng.choice(limits))
