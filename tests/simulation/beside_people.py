"""People whose jobs have overlap policies and limits, and who ask much of them: see ``people.py``."""

from __future__ import annotations

import random
from collections.abc import Iterator

from waterclock.model.concurrency import Concurrency, Overlap
from waterclock.model.ids import US_PER_S, Instant
from waterclock.model.job import CommandKind, Every, JobSpec, Tier
from waterclock.model.timing import Misfire, Timing

from .people import Order, with_policies

_HANDLERS = ("sim.ok", "sim.ok", "sim.emits", "sim.fails", "sim.flaky", "sim.slow", "sim.deaf")
_SHARE = 0.6
BESIDE = "t:beside"
_KEY = "/customer"
_VERBS = (
    *[CommandKind.TRIGGER] * 8,
    *[CommandKind.UPDATE] * 3,
    CommandKind.PAUSE,
    CommandKind.RESUME,
    CommandKind.RESUME,
    CommandKind.DELETE,
    CommandKind.CREATE,
)


def beside_orders(rng: random.Random, start_at: Instant, horizon: int) -> list[Order]:
    """One to three such jobs in most seeds, with changes and bursts of triggers."""
    if rng.random() > _SHARE:
        return []
    return [*with_policies(rng, _orders(rng, start_at, horizon))]


def _orders(rng: random.Random, start_at: Instant, horizon: int) -> Iterator[Order]:
    number = 0
    for job_id in [f"{BESIDE}{place}" for place in range(rng.randint(1, 3))]:
        yield Order(rng.randrange(3 * US_PER_S), CommandKind.CREATE, job_id, _spec(rng, start_at), f"b{job_id}")
        for _ in range(rng.randint(0, 6)):
            at, kind = rng.randrange(4 * US_PER_S, horizon), rng.choice(_VERBS)
            for _ in range(rng.choice([1, 2, 5]) if kind is CommandKind.TRIGGER else 1):
                number += 1
                spec = _spec(rng, start_at) if kind in (CommandKind.CREATE, CommandKind.UPDATE) else None
                order = Order(at, kind, job_id, spec, f"b{number}", wants_answer=rng.random() < 0.3)
                yield order._replace(payload=rng.choice(["", _payload("a"), _payload("b")]))


def _spec(rng: random.Random, start_at: Instant) -> JobSpec:
    on_a_second = start_at // US_PER_S * US_PER_S
    timing = Timing(misfire=rng.choice([Misfire.LATEST, Misfire.ALL]), catch_up_max=rng.choice([3, 100]))
    return JobSpec(
        rng.choice(_HANDLERS),
        Every(rng.choice([1, 1, 2, 4]) * US_PER_S, on_a_second),
        rng.choice(list(Tier)),
        payload=_payload("own").encode(),
        timing=timing,
        concurrency=beside(rng),
    )


def beside(rng: random.Random, *, keyed: bool = True) -> Concurrency:
    """An overlap policy and limits; ``keyed``: perhaps by a key in the payload."""
    overlap = rng.choice(list(Overlap))
    narrow = overlap is Overlap.SEQUENTIAL
    key = rng.choice(["", "", _KEY]) if keyed else ""
    return Concurrency(
        overlap,
        max_concurrent=rng.choice([0, 1]) if narrow else rng.choice([0, 1, 2, 3]),
        key=key,
        max_per_key=rng.choice([0, 1]) if key and narrow else rng.choice([0, 1, 2]) if key else 0,
        max_held=rng.choice([0, 1, 3]) if overlap is Overlap.BUFFER_ALL else 0,
    )


def probes(limits: Concurrency) -> list[str]:
    """Payloads of as many triggers as find room where nothing is open, and of one more, which finds none."""
    if not limits.key:
        return [""] * ((limits.max_concurrent or int(limits.overlap is not Overlap.ALLOW)) + 1)
    most_of_key = limits.max_per_key or 1
    most = limits.max_concurrent or most_of_key + 1
    same = [_payload("probe")] * min(most_of_key, most)
    return [*same, *(_payload(f"probe {number}") for number in range(len(same), most)), _payload("probe")]


def _payload(customer: str) -> str:
    return f'{{"customer":"{customer}"}}'
