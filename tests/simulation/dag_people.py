"""People whose jobs are Dags, small ones of every rule, and who trigger, change and cancel them: see ``people.py``."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

from tests.random_dags import random_dag
from waterclock.model.concurrency import FREE
from waterclock.model.dag import DagSpec, Node
from waterclock.model.failure_policy import FailurePolicy
from waterclock.model.ids import US_PER_S, Instant
from waterclock.model.job import CommandKind, Every, JobSpec, Tier

from .beside_people import beside
from .handlers import LIST, WAY
from .people import Order, with_policies

_SHARE = 0.6
DAG = "t:dag"
_NODES_MAX = 7
_LIMITED_SHARE = 0.3
_PAYLOAD_MAX = 1_000
_HANDLERS = ("sim.ok", "sim.ok", "sim.ok", "sim.emits", "sim.fails", "sim.flaky", "sim.flaky", "sim.slow")
_VERBS = (
    *[CommandKind.TRIGGER] * 6,
    *[CommandKind.UPDATE] * 2,
    CommandKind.PAUSE,
    CommandKind.RESUME,
    CommandKind.DELETE,
    CommandKind.CREATE,
)


def dag_orders(rng: random.Random, start_at: Instant, horizon: int, *, has_side: bool) -> list[Order]:
    """One or two Dags in most seeds, with changes and triggers."""
    if rng.random() > _SHARE:
        return []
    return [
        *with_policies(rng, _orders(rng, start_at, horizon, has_side=has_side)),
        *reruns(rng, horizon, "e"),
        *pauses(rng, horizon, "h"),
    ]


def _orders(rng: random.Random, start_at: Instant, horizon: int, *, has_side: bool) -> Iterator[Order]:
    number = 0
    for job_id in [f"{DAG}{place}" for place in range(rng.randint(1, 2))]:
        spec = _spec(rng, start_at, has_side=has_side)
        yield Order(rng.randrange(3 * US_PER_S), CommandKind.CREATE, job_id, spec, f"d{job_id}")
        for _ in range(rng.randint(0, 5)):
            at, kind = rng.randrange(4 * US_PER_S, horizon), rng.choice(_VERBS)
            for _ in range(rng.choice([1, 1, 3]) if kind is CommandKind.TRIGGER else 1):
                number += 1
                wants_spec = kind in (CommandKind.CREATE, CommandKind.UPDATE)
                spec = _spec(rng, start_at, has_side=has_side) if wants_spec else None
                order = Order(at, kind, job_id, spec, f"d{number}", wants_answer=rng.random() < 0.3)
                yield order._replace(payload=rng.choice(["", '{"of":"the trigger"}']), pick=rng.randrange(1 << 16))


def pauses(rng: random.Random, horizon: int, name: str) -> Iterator[Order]:
    """Of single DagRuns; some are never taken back, before the end of the play. ``name``: of the commands."""
    for number in range(rng.choice([0, 0, 2, 6])):
        at, pick = rng.randrange(4 * US_PER_S, horizon), rng.randrange(1 << 16)
        yield Order(at, CommandKind.PAUSE_RUN, "", None, f"{name}{number}", pick=pick)
        if rng.random() < 0.7:
            after = at + rng.randrange(8 * US_PER_S)
            yield Order(min(after, horizon - 1), CommandKind.RESUME_RUN, "", None, f"{name}{number}.r", pick=pick)


def reruns(rng: random.Random, horizon: int, name: str) -> Iterator[Order]:
    """Of DagRuns that have ended. ``name``: of the commands."""
    for number in range(rng.randint(0, 8)):
        at, pick = rng.randrange(horizon // 3, horizon), rng.randrange(1 << 16)
        order = Order(at, CommandKind.RERUN, "", None, f"{name}{number}", wants_answer=rng.random() < 0.3, pick=pick)
        yield order._replace(payload=rng.choice(["", "", '{"of":"the rerun"}']))


def _spec(rng: random.Random, start_at: Instant, *, has_side: bool) -> JobSpec:
    on_a_second = start_at // US_PER_S * US_PER_S
    return JobSpec(
        "",
        Every(rng.choice([4, 7, 15, 60]) * US_PER_S, on_a_second),
        rng.choice(list(Tier)),
        payload=rng.choice([b"", b'{"of":"the job"}']),
        concurrency=beside(rng, keyed=False) if rng.random() < _LIMITED_SHARE else FREE,
        dag=small_dag(rng, _NODES_MAX, has_side=has_side),
    )


def small_dag(rng: random.Random, nodes_max: int, *, has_side: bool) -> DagSpec:
    """Any Dag of so many nodes, with code of the play behind them."""
    drawn = random_dag(rng, nodes_max)
    lists = {node.map_over.of for node in drawn.nodes if node.map_over is not None}
    nodes = tuple(_node(rng, node, drawn, lists, has_side=has_side) for node in drawn.nodes)
    timeout_us = rng.choice([0, 0, 0, 10, 30]) * US_PER_S
    return DagSpec(nodes, max_active_nodes=drawn.max_active_nodes, timeout_us=timeout_us)


def _node(rng: random.Random, node: Node, drawn: DagSpec, lists: set[str], *, has_side: bool) -> Node:
    """The same node with code of the play behind it: a branch finds its children in its payload."""
    payload = node.payload if node.payload is None or len(node.payload) < _PAYLOAD_MAX else b'"long"'
    handler = rng.choice(_HANDLERS)
    if node.branch:
        children = [each.name for each in drawn.nodes if node.name in each.after]
        names = ",".join(f'"{name}"' for name in children)
        handler, payload = WAY, f'{{"ways":[{names}]}}'.encode()
    elif node.name in lists and rng.random() < 0.9:
        handler = LIST
    return replace(
        node,
        handler=handler,
        payload=payload,
        tier=rng.choice([None, None, *Tier]),
        pool=rng.choice(["", "", "side"]) if has_side else "",
        policy=_policy(rng),
        at_most_once=False,
    )


def _policy(rng: random.Random) -> FailurePolicy | None:
    if rng.random() < 0.5:
        return None
    return FailurePolicy(
        max_attempts=rng.choice([1, 1, 2, 3]),
        delays_us=(rng.choice([US_PER_S, US_PER_S, 3 * US_PER_S]),),
        queue_timeout_us=rng.choice([0, 0, 0, 9 * US_PER_S]),
        attempt_timeout_us=rng.choice([0, 0, 3 * US_PER_S]),
        run_timeout_us=rng.choice([0, 0, 0, 20 * US_PER_S]),
    )
