"""People whose jobs are started by the ends of others: see ``people.py``."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import replace

from waterclock.model.concurrency import FREE, Concurrency, Overlap
from waterclock.model.failure_policy import FailurePolicy
from waterclock.model.ids import US_PER_S
from waterclock.model.job import NEVER, CommandKind, Every, JobSpec, Tier
from waterclock.model.triggers import CONDITIONS_MAX, Condition, Ended, RecordComes, RunEnds, Triggers

from .people import Order
from .senders import SHOP

FIRST, SECOND = "t:first-after", "t:second-after"
RING = ("t:ring-a", "t:ring-b")
JOINED = "t:joined"
_SHARE = 0.4
_RING_SHARE = 0.3
_JOINED_SHARE = 0.6
SHIPPED = "t:shipped"
_SHIPPED_SHARE = 0.5
_WITHIN_S = (1, 2, 5, 20)
_RECORDS_SHARE = 0.4
_FILTERS = ((("type", "placed"),), (("type", "returned"),), ())
_OTHERS_SHARE = 0.3
_SOURCES = ("steady", "second", "counted", "no-such-job")
_VERBS = (
    *[CommandKind.UPDATE] * 6,
    *[CommandKind.TRIGGER] * 2,
    CommandKind.PAUSE,
    CommandKind.RESUME,
    CommandKind.DELETE,
    CommandKind.CREATE,
)


def trigger_orders(rng: random.Random, horizon: int) -> list[Order]:
    """In some seeds a job that is started by those that fire every second, another that follows it, perhaps a ring."""
    if rng.random() >= _SHARE:
        return []
    ring = [*_ring(rng, horizon)] if rng.random() < _RING_SHARE else []
    followers = [*_followers(rng, horizon)]
    joined = [*_joined(rng, horizon)] if rng.random() < _JOINED_SHARE else []
    shipped = [*_shipped(rng, horizon)] if rng.random() < _SHIPPED_SHARE else []
    return [*followers, *ring, *joined, *shipped]


def waits_for_sales(orders: Iterable[Order]) -> bool:
    """Whether any job of these is started by what the shop sells."""
    specs = (order.spec for order in orders)
    return any(isinstance(each, RecordComes) for spec in specs if spec and spec.on for each in spec.on.conditions)


def _followers(rng: random.Random, horizon: int) -> Iterator[Order]:
    begun_at = rng.choice([0, rng.randrange(horizon)])
    said = {FIRST: _spec(rng, _SOURCES), SECOND: _spec(rng, ("first-after",))}
    for number, (job_id, spec) in enumerate(said.items()):
        yield Order(begun_at, CommandKind.CREATE, job_id, spec, f"e{number}")
    for number in range(2, rng.choice([3, 4, 7])):
        kind, job_id = rng.choice(_VERBS), rng.choice([FIRST, FIRST, SECOND])
        spec = None
        if kind in (CommandKind.CREATE, CommandKind.UPDATE):
            spec = said[job_id] = _with_more(rng, said[job_id])
            if rng.random() < _OTHERS_SHARE:
                spec = _spec(rng, _SOURCES if job_id == FIRST else ("first-after", "steady"))
        yield Order(rng.randrange(begun_at, horizon), kind, job_id, spec, f"e{number}", wants_answer=rng.random() < 0.3)


def _with_more(rng: random.Random, spec: JobSpec) -> JobSpec:
    """What it waited for, and perhaps something else."""
    assert spec.on is not None
    more = RunEnds(rng.choice(["steady", "second", "no-such-job"]), rng.choice([*Ended]))
    known = spec.on.conditions
    on = spec.on if more in known or len(known) >= CONDITIONS_MAX else replace(spec.on, conditions=(*known, more))
    return replace(spec, payload=rng.choice([b"", b"2", b"3"]), on=on)


def _shipped(rng: random.Random, horizon: int) -> Iterator[Order]:
    """A job that records of a shop start; it is edited, paused, deleted."""
    yield Order(0, CommandKind.CREATE, SHIPPED, _on_sales(rng), "h0")
    for number in range(1, rng.choice([1, 1, 3, 5])):
        kind = rng.choice(_VERBS)
        spec = _on_sales(rng) if kind in (CommandKind.CREATE, CommandKind.UPDATE) else None
        yield Order(rng.randrange(horizon), kind, SHIPPED, spec, f"h{number}")


def _on_sales(rng: random.Random) -> JobSpec:
    conditions = (RecordComes(SHOP, rng.choice(_FILTERS)), *rng.choice([(), (RunEnds("steady"),)]))
    return replace(_spec(rng, _SOURCES), on=Triggers(conditions))


def _joined(rng: random.Random, horizon: int) -> Iterator[Order]:
    """A job for which several have to come together, some of which seldom do; it is edited, paused, deleted."""
    begun_at = rng.choice([0, rng.randrange(horizon)])
    yield Order(begun_at, CommandKind.CREATE, JOINED, _with_window(rng), "g0")
    for number in range(1, rng.choice([1, 2, 4, 7])):
        kind = rng.choice(_VERBS)
        spec = _with_window(rng) if kind in (CommandKind.CREATE, CommandKind.UPDATE) else None
        yield Order(rng.randrange(begun_at, horizon), kind, JOINED, spec, f"g{number}")


def _with_window(rng: random.Random) -> JobSpec:
    spec = _spec(rng, _SOURCES)
    names = rng.sample(("steady", "second", "counted", "first-after"), rng.choice([2, 2, 3]))
    ends = tuple(RunEnds(name, rng.choice([Ended.SUCCEEDED, Ended.ANY])) for name in names)
    within_us = rng.choice(_WITHIN_S) * US_PER_S
    wants_all = rng.random() < 0.7
    conditions: tuple[Condition, ...] = ends
    if rng.random() < _RECORDS_SHARE:  # in the place of an end; alone where one is enough
        conditions = (*ends[1 if wants_all else rng.choice([0, len(ends)]) :], RecordComes(SHOP, rng.choice(_FILTERS)))
    return replace(spec, on=Triggers(conditions, within_us=within_us, wants_all=wants_all))


def _ring(rng: random.Random, horizon: int) -> Iterator[Order]:
    """Two jobs that start each other, and somebody who starts one of them."""
    for number, (job_id, other) in enumerate(zip(RING, reversed(RING), strict=True)):
        on = Triggers((RunEnds(other.partition(":")[2], Ended.ANY),))
        yield Order(0, CommandKind.CREATE, job_id, JobSpec("sim.ok", NEVER, Tier.HIGH, on=on), f"f{number}")
    yield Order(rng.randrange(4 * US_PER_S, horizon), CommandKind.TRIGGER, RING[0], None, "f2")


def _spec(rng: random.Random, sources: tuple[str, ...]) -> JobSpec:
    names = rng.sample(sources, rng.randint(1, min(2, len(sources))))
    conditions = tuple(RunEnds(name, rng.choice([*Ended, Ended.ANY])) for name in names)
    limits = [
        FREE,
        FREE,
        FREE,
        Concurrency(Overlap.SKIP),
        Concurrency(Overlap.BUFFER_ALL),
        Concurrency(max_concurrent=2),
    ]
    return JobSpec(
        rng.choice(["sim.ok", "sim.emits", "sim.fails"]),
        rng.choice([NEVER, NEVER, Every(5 * US_PER_S)]),
        Tier.MEDIUM,
        payload=rng.choice([b"", b"1"]),
        policy=FailurePolicy(max_attempts=1),
        concurrency=rng.choice(limits),
        on=Triggers(conditions),
    )
