"""People whose Dags others start, and whose jobs DagRuns start when they end: see ``people.py``.

Beside the Dags that fire by themselves (``dag_people.py``), whose ends start jobs here too.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace

from waterclock.model.concurrency import FREE
from waterclock.model.failure_policy import FailurePolicy
from waterclock.model.ids import US_PER_S
from waterclock.model.job import NEVER, CommandKind, Every, JobSpec, Tier
from waterclock.model.triggers import Condition, Ended, RecordComes, RunEnds, Triggers

from .beside_people import beside
from .dag_people import pauses, reruns, small_dag
from .people import Order
from .senders import SHOP

CHAINED, AFTER, FOLLOWING = "t:chained", "t:after-chained", "t:following"
"""A Dag that others start, a job that its DagRuns start, and another Dag that they start, too."""
_SHARE = 0.3
_RING_SHARE = 0.15
_FOLLOWING_SHARE = 0.5
_NODES_MAX = 3
"""Some of these Dags are started every second."""
_LIMITED_SHARE = 0.4
_RECORDS_SHARE = 0.4
_WITHIN_S = (2, 5, 20)
_FILTERS = ((), (("type", "placed"),), (("type", "returned"),))
_ENDS = (Ended.ANY, Ended.ANY, Ended.SUCCEEDED, Ended.FAILED)
_POLICY = FailurePolicy(max_attempts=2, delays_us=(US_PER_S,))
_VERBS = (
    *[CommandKind.UPDATE] * 4,
    *[CommandKind.TRIGGER] * 3,
    CommandKind.PAUSE,
    CommandKind.RESUME,
    CommandKind.DELETE,
    CommandKind.CREATE,
)

_Draw = Callable[[], JobSpec]


def dag_chain_orders(rng: random.Random, horizon: int, *, has_side: bool) -> list[Order]:
    """In some seeds a Dag that others start, and who waits for its DagRuns; in a few two Dags that start each other."""
    if rng.random() >= _SHARE:
        return []
    chained = _ring(rng, horizon) if rng.random() < _RING_SHARE else _chain(rng, horizon, has_side=has_side)
    return [*chained, *_cancels(rng, horizon), *reruns(rng, horizon, "y"), *pauses(rng, horizon, "z")]


def _chain(rng: random.Random, horizon: int, *, has_side: bool) -> Iterator[Order]:
    """They are edited, paused, deleted, and started by hand."""
    drawn: dict[str, _Draw] = {
        CHAINED: lambda: _dag(rng, _started(rng), has_side=has_side),
        AFTER: lambda: _plain(rng, _after_dag_runs(rng)),
    }
    if rng.random() < _FOLLOWING_SHARE:
        drawn[FOLLOWING] = lambda: _dag(rng, _after_dag_runs(rng), has_side=has_side)
    begun_at = rng.choice([0, rng.randrange(horizon // 2)])
    for number, (job_id, draw) in enumerate(drawn.items()):
        yield Order(begun_at, CommandKind.CREATE, job_id, draw(), f"w{number}")
    for number in range(len(drawn), len(drawn) + rng.choice([0, 2, 5, 8])):
        kind, job_id = rng.choice(_VERBS), rng.choice([CHAINED, CHAINED, *drawn])
        spec = drawn[job_id]() if kind in (CommandKind.CREATE, CommandKind.UPDATE) else None
        order = Order(rng.randrange(begun_at, horizon), kind, job_id, spec, f"w{number}")
        yield order._replace(payload=rng.choice(["", '{"of":"the trigger"}']), wants_answer=rng.random() < 0.3)


def _ring(rng: random.Random, horizon: int) -> Iterator[Order]:
    """Two small Dags, and somebody who starts one of them."""
    for number, (job_id, other) in enumerate([(CHAINED, FOLLOWING), (FOLLOWING, CHAINED)]):
        spec = _dag(rng, Triggers((_end_of(other, Ended.ANY),)), nodes_max=1, has_side=False)
        yield Order(0, CommandKind.CREATE, job_id, replace(spec, schedule=NEVER, concurrency=FREE), f"w{number}")
    yield Order(0, CommandKind.CREATE, AFTER, _plain(rng, _after_dag_runs(rng)), "w2")
    yield Order(rng.randrange(4 * US_PER_S, horizon), CommandKind.TRIGGER, CHAINED, None, "w3")


def _cancels(rng: random.Random, horizon: int) -> Iterator[Order]:
    """Of single DagRuns that others have started."""
    for number in range(rng.choice([0, 1, 4])):
        at, pick = rng.randrange(4 * US_PER_S, horizon), rng.randrange(1 << 16)
        yield Order(at, CommandKind.CANCEL, rng.choice([CHAINED, CHAINED, FOLLOWING]), None, f"x{number}", pick=pick)


def _started(rng: random.Random) -> Triggers:
    """What starts the first Dag: ends of those that fire every second, and records, each or several together."""
    names = rng.sample(("steady", "second"), rng.randint(1, 2))
    conditions: tuple[Condition, ...] = tuple(RunEnds(name, rng.choice(_ENDS)) for name in names)
    if rng.random() < _RECORDS_SHARE:  # beside the first of the ends, or alone
        conditions = (*conditions[: rng.choice([0, 1])], RecordComes(SHOP, rng.choice(_FILTERS)))
    return _together(rng, conditions) if rng.random() < 0.5 else Triggers(conditions)


def _after_dag_runs(rng: random.Random) -> Triggers:
    """What waits for a DagRun; one of another Dag counts, too."""
    ends: tuple[Condition, ...] = (_end_of(CHAINED, rng.choice(_ENDS)),)
    if rng.random() < 0.5:
        ends += (RunEnds(rng.choice(["dag0", "dag0", "dag1", "steady"]), rng.choice(_ENDS)),)
    return _together(rng, ends) if rng.random() < 0.3 else Triggers(ends)


def _together(rng: random.Random, conditions: tuple[Condition, ...]) -> Triggers:
    within_us = rng.choice(_WITHIN_S) * US_PER_S
    return Triggers(conditions, within_us=within_us, wants_all=len(conditions) > 1 and rng.random() < 0.7)


def _end_of(job_id: str, ended: Ended) -> RunEnds:
    return RunEnds(job_id.partition(":")[2], ended)


def _dag(rng: random.Random, on: Triggers, *, has_side: bool, nodes_max: int = _NODES_MAX) -> JobSpec:
    return JobSpec(
        "",
        rng.choice([NEVER, NEVER, Every(15 * US_PER_S)]),
        rng.choice(list(Tier)),
        payload=rng.choice([b"", b'{"of":"the job"}']),
        policy=_POLICY,
        concurrency=beside(rng, keyed=False) if rng.random() < _LIMITED_SHARE else FREE,
        dag=small_dag(rng, nodes_max, has_side=has_side),
        on=on,
    )


def _plain(rng: random.Random, on: Triggers) -> JobSpec:
    return JobSpec(
        rng.choice(["sim.ok", "sim.emits", "sim.fails"]),
        rng.choice([NEVER, NEVER, Every(5 * US_PER_S)]),
        rng.choice(list(Tier)),
        policy=FailurePolicy(max_attempts=1),
        concurrency=beside(rng, keyed=False) if rng.random() < _LIMITED_SHARE else FREE,
        on=on,
    )
