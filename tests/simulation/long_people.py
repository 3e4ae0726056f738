"""People whose jobs fire every few minutes to hours, and who change them shortly before a fire; see ``people.py``.

A row then stands for long before anybody loads it, further ahead than one owner looks and within what another one does:
whoever applies a change must know which rows there may be, also those that it has not written.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace

from waterclock.model.concurrency import FREE, Concurrency, Overlap
from waterclock.model.failure_policy import DEFAULT, Backoff, FailurePolicy
from waterclock.model.ids import US_PER_S, Instant
from waterclock.model.job import CommandKind, Cron, Dates, Delay, Every, JobSpec, Once, Schedule, Tier
from waterclock.model.timing import CatchUpOrder, Misfire, Timing

from .handlers import HANDLERS
from .people import Order, is_sound

_MINUTE = 60 * US_PER_S
_HOUR = 60 * _MINUTE
_PERIODS_MIN = (5, 20, 60, 61, 61, 61, 62, 62, 65, 65, 90, 26 * 60)
_CRONS = ("*/7 * * * *", "17 * * * *", "3,4 * * * *", "59 */2 * * *", "0 0-23 * * *")
_ZONES = ("UTC", "UTC", "Asia/Kathmandu", "America/New_York")
_BEFORE_S = (0, 1, 5, 45, 70, 100, 150, 200, 250, 320, 400, 450, 580, 605, 900, 3_300)
"""How long before a fire a change comes: on both sides of what owners look ahead."""
_BREATH_US = (0, 300_000, 2_000_000, 40_000_000)
_WAITS_S = (1, 20, 100, 400, 1_500, 3_500, 4_000)
_VERBS = (
    *[CommandKind.UPDATE] * 5,
    *[CommandKind.DELETE] * 3,
    *[CommandKind.PAUSE] * 3,
    *[CommandKind.RESUME] * 3,
    CommandKind.CREATE,
    CommandKind.ROLLBACK,
    CommandKind.TRIGGER,
    CommandKind.BACKFILL,
)


def long_orders(rng: random.Random, start_at: Instant, horizon: int) -> list[Order]:
    """Some such jobs, and what becomes of each; beside them one that nobody changes."""
    steady = JobSpec("sim.ok", Every(7 * _MINUTE), Tier.HIGH)
    orders = [Order(0, CommandKind.CREATE, "t:minutes", steady, "minutes.0")]
    for number in range(rng.randint(6, 14)):
        job_id = f"t:long{number}"
        orders += _orders(rng, job_id, start_at, horizon)
    return orders


def _orders(rng: random.Random, job_id: str, start_at: Instant, horizon: int) -> Iterator[Order]:
    """In the order of time, each change some time before a fire of the schedule that the last one of ours has left."""
    begins = rng.choice([rng.randrange(_MINUTE), rng.randrange(_MINUTE), rng.randrange(horizon)])
    spec = _spec(rng, start_at + begins)
    name = f"{job_id[2:]}."
    yield Order(begins, CommandKind.CREATE, job_id, spec, f"{name}0")
    about = sorted(rng.randrange(begins, max(begins + 1, horizon - _HOUR)) for _ in range(rng.randint(1, 7)))
    at = begins
    for number, tick in enumerate(about, 1):
        at = _some_time_before_a_fire(rng, _fires(spec.schedule, start_at, horizon), tick, at)
        for each, kind in enumerate(_in_a_breath(rng)):
            if kind in (CommandKind.CREATE, CommandKind.UPDATE):
                spec = _changed(rng, spec, start_at + at)
            yield _order(rng, at, kind, job_id, spec, start_at)._replace(command_id=f"{name}{number}.{each}")
            at = min(at + rng.choice(_BREATH_US), horizon - 1)


def _order(rng: random.Random, at: int, kind: CommandKind, job_id: str, spec: JobSpec, start_at: Instant) -> Order:
    has_spec = kind in (CommandKind.CREATE, CommandKind.UPDATE)
    order = Order(at, kind, job_id, spec if has_spec else None, pick=rng.randrange(1 << 16))
    if kind is CommandKind.PAUSE and rng.random() < 0.4:
        return order._replace(resume_at=start_at + at + rng.choice([20, 400, 3_900]) * US_PER_S)
    if kind is CommandKind.BACKFILL:
        order = order._replace(back_us=rng.randint(1, 5) * _HOUR, span_us=rng.randint(1, 4) * _HOUR)
        return order._replace(concurrency=rng.choice([0, 1, 5]), wants_answer=True)
    return order


def _in_a_breath(rng: random.Random) -> Sequence[CommandKind]:
    update, delete, create = CommandKind.UPDATE, CommandKind.DELETE, CommandKind.CREATE
    if rng.random() < 0.3:
        return rng.choice([(delete, create), (delete, create, update), (update, update), (CommandKind.PAUSE, update)])
    return (rng.choice(_VERBS),)


def _some_time_before_a_fire(rng: random.Random, fires: Sequence[int], about: int, earliest: int) -> int:
    """Before the first of ``fires`` behind ``about``, else before the last one; ``about`` where all are over."""
    ahead = [fire for fire in fires if fire > earliest]
    if not ahead:
        return max(earliest, about)
    fire = next((fire for fire in ahead if fire > about), ahead[-1])
    return max(earliest, fire - rng.choice(_BEFORE_S) * US_PER_S - rng.randrange(US_PER_S))


def _fires(schedule: Schedule, start_at: Instant, horizon: int) -> Sequence[int]:
    """Ticks of fires, as far as people know them by heart: of interval jobs from their first fire on."""
    if isinstance(schedule, Every) and schedule.start_at is not None:
        return range(schedule.start_at - start_at, horizon, schedule.every_us)
    times = (schedule.at,) if isinstance(schedule, Once) else schedule.times if isinstance(schedule, Dates) else ()
    return [at - start_at for at in times if at < start_at + horizon]


def _spec(rng: random.Random, now: Instant) -> JobSpec:
    on_a_second = now // US_PER_S * US_PER_S
    period = rng.choice(_PERIODS_MIN) * _MINUTE
    some_time = on_a_second + rng.choice([rng.randint(90, 3_600), rng.randint(90, 9_000)]) * US_PER_S
    every = Every(period, some_time)
    drawn = rng.random()
    schedule: Schedule = every
    if drawn < 0.12:
        schedule = Cron(rng.choice(_CRONS), zone=rng.choice(_ZONES))
    elif drawn < 0.20:
        schedule = rng.choice([Once(some_time), Dates((some_time, some_time + 70 * _MINUTE)), Delay(13 * _MINUTE)])
    spec = JobSpec(rng.choice([*HANDLERS, "sim.ok", "sim.ok"]), schedule, rng.choice(list(Tier)))
    return _timed(rng, spec, on_a_second)


def _changed(rng: random.Random, spec: JobSpec, now: Instant) -> JobSpec:
    """Mostly the same schedule, with another jitter or another payload."""
    if rng.random() < 0.3:
        return _spec(rng, now)
    same = replace(spec, tier=rng.choice(list(Tier)), payload=rng.choice([b"", b"1"]))
    return _timed(rng, same, now // US_PER_S * US_PER_S)


def _timed(rng: random.Random, spec: JobSpec, on_a_second: Instant) -> JobSpec:
    if isinstance(spec.schedule, Delay):
        return spec
    timing = Timing(
        from_at=rng.choice([0] * 9 + [on_a_second + 50 * _MINUTE]),
        until_at=rng.choice([0] * 9 + [on_a_second + 2 * _HOUR]),
        misfire=rng.choice(list(Misfire)),
        catch_up_max=rng.choice([1, 3, 10]),
        catch_up_order=rng.choice(list(CatchUpOrder)),
        jitter_us=rng.choice([0, 0, rng.randint(0, _widest_jitter_s(spec.schedule))]) * US_PER_S,
        jitter_per_fire=rng.random() < 0.5,
        max_runs=rng.choice([0, 0, 0, 0, 2, 4]),
    )
    timed = replace(spec, timing=timing, policy=_policy(rng), concurrency=_limits(rng))
    return timed if is_sound(timed) else spec


def _policy(rng: random.Random) -> FailurePolicy:
    """Waits of every rung, and beyond the ladder."""
    if rng.random() < 0.4:
        return DEFAULT
    return FailurePolicy(
        max_attempts=rng.choice([2, 3]),
        backoff=Backoff.LIST,
        delays_us=tuple(rng.choice(_WAITS_S) * US_PER_S for _ in range(2)),
        max_delay_us=2 * _HOUR,
        jitter=rng.random() < 0.5,
        queue_timeout_us=rng.choice([0, 0, 0, 5 * _MINUTE]),
        run_timeout_us=rng.choice([0, 0, 0, 30 * _MINUTE]),
    )


def _limits(rng: random.Random) -> Concurrency:
    """A run that waits for its retry holds up the next ones."""
    if rng.random() < 0.75:
        return FREE
    return Concurrency(rng.choice(list(Overlap)), max_concurrent=rng.choice([0, 1]))


def _widest_jitter_s(schedule: Schedule) -> int:
    """Half the distance of two fires, and no more than half an hour."""
    return min(1_800, schedule.every_us // 2 // US_PER_S) if isinstance(schedule, Every) else 30
