"""What a seed means: the people's commands and the troubles, with their times, drawn before anything runs.

Must hold: a plan is a value that follows from the seed alone. Not every kind of trouble comes in every seed: half of
them stay away, so that each also meets a system in which nothing else is wrong. Constants shrink in some seeds (rounds
of one fire, a short look-ahead), so that the borders between two rounds lie everywhere.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import NamedTuple

from waterclock.dispatcher.loop import Pace

from waterclock.model.ids import US_PER_S, Instant
from waterclock.model.job import CommandKind, Cron, Every, JobSpec, Once, Tier

from .dice import dice

SLOTS = ("dispatcher-1", "dispatcher-2", "worker-1", "worker-2", "recorder-1", "retry-router-1")
DISPATCHERS, WORKERS = SLOTS[:2], SLOTS[2:4]
POOLS = ("default", "side")
COMMITTING = (*DISPATCHERS, *DISPATCHERS, *WORKERS, "retry-router-1")
"""Slots that make rounds; dispatchers twice as often."""

_AUTUMN = round(datetime(2026, 11, 1, 5, 57, tzinfo=UTC).timestamp()) * US_PER_S
"""Three minutes before New York's clocks go back."""
_ANY_DAY = 1_795_000_020 * US_PER_S

LOG_OPERATIONS = ("init", "begin", "append", "send_offsets", "commit", "commit landed", "committed", "start", "poll")
STORE_OPERATIONS = ("apply:versions", "apply:due", "apply:jobs", "load_due", "write_due", "versions_below", "record")
TROUBLES = {
    "crash": 6,
    "pause": 6,
    "abort": 4,
    "doubt": 6,
    "store": 4,
    "away": 2,
    "markers": 2,
    "sleep": 1,
    "absence": 1,
    "jump": 1,
    "skew": 1,
    "deploy": 1,
    "compact": 1,
    "forget": 1,
}
"""Kinds of trouble, and how often each comes beside the others."""


_RESTART_US = (200_000, 1_000_000, 9_000_000)
"""A supervisor restarts within a second; now and then it takes longer than a session."""

_STANDSTILL_US = (2_000_000, 7_000_000, 11_000_000, 17_000_000)
"""Shorter than everything, longer than a session, than a transaction's time-out, than a lease."""

_ABSENCE_S = (20, 70, 200, 600, 600, 7_500)
"""Some beyond every grace, one so long that consumed buckets are disposed of."""


class Order(NamedTuple):
    """A command that people give at tick ``at``. One intention may be given several times, under one name."""

    at: int
    kind: CommandKind
    job_id: str
    spec: JobSpec | None
    command_id: str = ""
    key: str = ""
    wants_answer: bool = False


class Trouble(NamedTuple):
    """At tick ``at``: something is armed for ``slot``. It strikes at its ``calls``-th call of ``operation`` ("": any).

    ``us`` is how long it lasts, ``fate`` which kind of a doubt or of an unknown write it is, ``with_twin`` whether a
    replacement of the same name is started while the slot stands still.
    """

    at: int
    kind: str
    slot: str
    operation: str = ""
    calls: int = 1
    us: int = 0
    fate: str = ""
    with_twin: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """One seed, drawn out. Times are ticks: microseconds since the beginning."""

    seed: int
    start_at: Instant
    horizon: int
    partitions: int
    slots_per_slice: int
    pace: Pace
    skew_us: dict[str, int]
    step_us: dict[str, int]
    pool_of: dict[str, str]
    repeat_within_us: int
    orders: tuple[Order, ...]
    troubles: tuple[Trouble, ...]


def draw(seed: int) -> Plan:
    """The plan of a seed."""
    rng = dice(seed, "plan")
    pools = dice(seed, "pools")
    has_side = pools.random() < 0.4
    in_autumn = rng.random() < 0.3
    start_at = (_AUTUMN if in_autumn else _ANY_DAY) + rng.randrange(60) * US_PER_S
    horizon = rng.choice([60, 90, 130, 220]) * US_PER_S
    return Plan(
        seed=seed,
        start_at=start_at,
        horizon=horizon,
        partitions=rng.choice([1, 2, 2, 4]),
        slots_per_slice=rng.choice([32, 128, 256]),
        pace=Pace(
            look_ahead_s=rng.choice([5.0, 20.0, 60.0]),
            grace_s=rng.choice([5.0, 60.0, 60.0]),
            round_records=rng.choice([1, 3, 2_000, 2_000]),
            idle_commit_s=rng.choice([1.0, 5.0]),
        ),
        skew_us={slot: _skew(rng) for slot in SLOTS},
        step_us={slot: _step(rng, slot) for slot in SLOTS},
        pool_of={WORKERS[1]: "side"} if has_side else {},
        repeat_within_us=pools.choice([24 * 3_600, 24 * 3_600, 15]) * US_PER_S,
        orders=tuple(
            _repeated(
                dice(seed, "repeats"),
                _in_pools(pools, _orders(dice(seed, "people"), start_at, horizon, in_autumn=in_autumn), has_side),
                horizon,
            )
        ),
        troubles=tuple(sorted(_troubles(dice(seed, "troubles"), horizon))),
    )


def _skew(rng: random.Random) -> int:
    return rng.choice([0, 0, 0, -40_000, 40_000, rng.randrange(-3 * US_PER_S, 3 * US_PER_S)])


def _step(rng: random.Random, slot: str) -> int:
    usual = (300, 1_000, 2_000) if slot in DISPATCHERS else (700, 1_500, 3_000)
    return rng.choice(usual) * 1_000


# The people ---------------------------------------------------------------------------------------------------------


def _orders(rng: random.Random, start_at: Instant, horizon: int, *, in_autumn: bool) -> list[Order]:
    jobs = [f"t:job{number}" for number in range(rng.randint(2, 4))]
    orders = [Order(rng.randrange(5 * US_PER_S), CommandKind.CREATE, job, _spec(rng, start_at)) for job in jobs]
    orders.append(Order(0, CommandKind.CREATE, "t:steady", JobSpec("sim.emits", Every(15 * US_PER_S))))
    if in_autumn:
        orders.append(Order(rng.randrange(5 * US_PER_S), CommandKind.CREATE, "t:autumn", _autumn_spec(rng)))
        jobs.append("t:autumn")
    for _ in range(rng.randint(2, 10)):
        at = rng.randrange(5 * US_PER_S, horizon)
        orders.append(_order(rng, at, rng.choice(jobs), start_at))
    return sorted(orders, key=lambda order: order.at)


def _order(rng: random.Random, at: int, job_id: str, start_at: Instant) -> Order:
    verbs = [kind for kind in CommandKind if kind is not CommandKind.UNKNOWN]
    kind = rng.choice([*verbs, CommandKind.UPDATE, CommandKind.CREATE, CommandKind.RESUME])
    has_spec = kind in (CommandKind.CREATE, CommandKind.UPDATE)
    return Order(at, kind, job_id, _spec(rng, start_at + at) if has_spec else None)


def _spec(rng: random.Random, now: Instant) -> JobSpec:
    on_a_second = now // US_PER_S * US_PER_S
    schedule = rng.choice(
        [
            Every(rng.choice([5, 7, 13, 30, 90]) * US_PER_S),
            Every(rng.choice([5, 10, 60]) * US_PER_S, on_a_second // (10 * US_PER_S) * (10 * US_PER_S)),
            Every(rng.choice([6, 20]) * US_PER_S, on_a_second + rng.randrange(-100, 60) * US_PER_S),
            Cron(rng.choice(["* * * * *", "*/2 * * * *", "1-59/3 * * * *"])),
            Cron("* * * * *", zone=rng.choice(["Europe/Berlin", "America/New_York", "Asia/Kathmandu"])),
            Once(on_a_second + rng.randrange(-90, 90) * US_PER_S),
        ]
    )
    handler = rng.choice(["sim.ok", "sim.emits", "sim.fails", "sim.flaky"])
    return JobSpec(handler, schedule, rng.choice(list(Tier)))


def _in_pools(rng: random.Random, orders: list[Order], has_side: bool) -> Iterator[Order]:
    """Some jobs go to the side pool, where somebody serves it, and some to one that does not exist."""
    for order in orders:
        draw = rng.random()
        pool = "nowhere" if draw > 0.97 else "side" if has_side and draw < 0.4 else "default"
        yield order if order.spec is None else order._replace(spec=replace(order.spec, pool=pool))


def _repeated(rng: random.Random, orders: Iterable[Order], horizon: int) -> list[Order]:
    """Every order gets its name; some are given again: under one key, with one id, or as another request."""
    found: list[Order] = []
    for number, plain in enumerate(orders):
        order = plain._replace(command_id=f"c{number}", wants_answer=rng.random() < 0.5)
        how = rng.choice(["", "", "key", "key", "id", "other"])
        if how in ("key", "other"):
            order = order._replace(key=f"k{number}")
        found.append(order)
        for time in range(rng.choice([1, 1, 2]) if how else 0):
            after = rng.choice([0, rng.randrange(US_PER_S), rng.randrange(60 * US_PER_S)])
            again = order._replace(at=min(order.at + after, horizon - 1), wants_answer=rng.random() < 0.5)
            if how != "id":
                again = again._replace(command_id=f"c{number}.{time}")
            if how == "other":
                again = again._replace(kind=CommandKind.PAUSE, spec=None)
            found.append(again)
    return sorted(found, key=lambda order: order.at)


def _autumn_spec(rng: random.Random) -> JobSpec:
    text = rng.choice(["0-59 1 * * *", "0-59/2 1 * * *", "1-59/2 0-2 * * *", "* 1 * * *"])
    return JobSpec("sim.ok", Cron(text, zone="America/New_York"), rng.choice(list(Tier)))


# The troubles -------------------------------------------------------------------------------------------------------


def _troubles(rng: random.Random, horizon: int) -> list[Trouble]:
    kinds = {kind: weight for kind, weight in TROUBLES.items() if rng.random() < 0.5}
    if not kinds:
        return []
    drawn = rng.choices(list(kinds), list(kinds.values()), k=rng.randint(4, 18))
    return [_trouble(rng, kind, rng.randrange(2 * US_PER_S, horizon)) for kind in drawn]


def _trouble(rng: random.Random, kind: str, at: int) -> Trouble:
    make = {"crash": _process, "pause": _process, "abort": _commit, "doubt": _commit, "store": _store}.get(kind, _other)
    return make(rng, kind, at)


def _process(rng: random.Random, kind: str, at: int) -> Trouble:
    """A kill or a standstill, at a call that a role makes, or at any."""
    operation = rng.choice(("", "", *LOG_OPERATIONS, *LOG_OPERATIONS, *STORE_OPERATIONS))
    calls = rng.choice([1, 2, rng.randint(1, 8), rng.randint(1, 60)])
    us = rng.choice(_RESTART_US if kind == "crash" else _STANDSTILL_US)
    return Trouble(at, kind, rng.choice([*DISPATCHERS, *SLOTS]), operation, calls, us, with_twin=rng.random() < 0.25)


def _commit(rng: random.Random, kind: str, at: int) -> Trouble:
    """``operation`` and ``calls`` of a doubt say when its delayed EndTxn arrives: also in a later round."""
    fate = rng.choice(["UNANSWERED", "LOST", "DELAYED", "DOUBLED", "DOUBLED"]) if kind == "doubt" else ""
    operation = rng.choice(["", "append", "append", "append", "send_offsets", "commit"])
    calls = rng.choice([1, 2, rng.randint(1, 25)]) if not operation else rng.randint(1, 4)
    return Trouble(at, kind, rng.choice(COMMITTING), operation, calls, fate=fate)


def _store(rng: random.Random, kind: str, at: int) -> Trouble:
    """``us``: how late a write lands that lands later."""
    slot = rng.choice([*DISPATCHERS, "recorder-1"])
    us = rng.choice([1, 10, 60]) * US_PER_S
    fate = rng.choice(["APPLIED", "LOST", "HALF", "LATER"])
    return Trouble(at, kind, slot, rng.choice(["", *STORE_OPERATIONS]), rng.randint(1, 4), us, fate)


def _other(rng: random.Random, kind: str, at: int) -> Trouble:
    us = {
        "skew": rng.randrange(-3 * US_PER_S, 3 * US_PER_S),
        "jump": rng.choice([5, 70, 400]) * US_PER_S,
        "sleep": rng.choice(_ABSENCE_S) * US_PER_S,
        "absence": rng.choice(_ABSENCE_S) * US_PER_S,
    }.get(kind, rng.choice([1, 5, 9]) * US_PER_S)
    return Trouble(at, kind, rng.choice(SLOTS), calls=rng.randint(2, 30), us=us)
