"""A Dag of 1,000 nodes, and one of 10,000 mapped items: an end of a node costs its engine as much as in a small one.

In memory, without servers: the engine alone, on the Log in memory, with eight nodes under way at once. Counted are the
processor seconds of its steps, and the bytes that it writes to its state topic, for each end of a node. An exponent of
0 is a cost that does not depend on the size, of 1 one that grows as the size does. Each change is written at once here,
more than an engine ever writes (``kept.py``): else a small Dag would leave nothing. Short: small Dags, nothing judged.
"""

from __future__ import annotations

import gc
import math
import time
from collections import deque
from typing import NamedTuple

from waterclock.dag_engine.loop import ROLE, DagEngine

from tests.acceptance.evidence import Evidence
from tests.unit.dag_world import NAMES, World
from waterclock.log.port import Isolation, TopicPartition
from waterclock.model.dag import MapOver, Node
from waterclock.model.events import EventKind
from waterclock.telemetry import configure_logging
from waterclock.wire.codec import decode_event

EXPONENT_MAX = 0.2
UNDER_WAY = 8
SIZES = {"nodes": (50, 1_000), "items": (500, 10_000)}
SIZES_SHORT = {"nodes": (10, 40), "items": (20, 80)}
TIMES, TIMES_SHORT = 3, 1
POLLS_MAX = 1_000_000
UNITS = (1e6, 1)
"""Microseconds, and bytes."""


class Cost(NamedTuple):
    """Of one end of a node, in the mean over a whole DagRun."""

    seconds: float
    state_bytes: float
    ends: int


def main(short: bool = False) -> None:
    configure_logging("check", level="error")
    evidence = Evidence("dag-size", None)
    for what, (small, large) in (SIZES_SHORT if short else SIZES).items():
        costs = {size: _least(what, size, TIMES_SHORT if short else TIMES) for size in (small, large)}
        for size, cost in costs.items():
            evidence.demand(cost.ends >= size, f"{cost.ends} of {size} {what} ended")
        for name, part in (("processor time", 0), ("bytes of state", 1)):
            exponent = math.log(costs[large][part] / costs[small][part]) / math.log(large / small)
            each = {f"per_end_of_{size}": round(cost[part] * UNITS[part], 1) for size, cost in costs.items()}
            evidence.figure(f"exponent of {name} by {what}", round(exponent, 3), **each)
            if not short:
                evidence.demand(exponent <= EXPONENT_MAX, f"an end costs more {name} with more {what}: {exponent:.3f}")
    evidence.close()


def _least(what: str, size: int, times: int) -> Cost:
    """Noise only ever adds."""
    return min(_cost(what, size) for _ in range(times))


def _cost(what: str, size: int) -> Cost:
    nodes, limits = _dag(what, size)
    world = World(*nodes, **limits)
    engine = world.engine()
    world.turn(engine, 5)
    world.fire()
    gc.collect()
    seconds, ends = 0.0, 0
    reader = world.log.reader(Isolation.COMMITTED)
    reader.assign({TopicPartition(NAMES.run_events, 0): 0})
    under_way: deque[str] = deque()
    for _ in range(POLLS_MAX):
        seconds += _stepped(engine)
        world.clock.advance(10_000)
        over = False
        for record in reader.poll(1_000, 0.0):
            event = decode_event(record.value or b"")
            if event.kind is EventKind.PENDING and "/" in event.run_id:
                under_way.append(event.run_id)
            over = over or event.kind in (EventKind.DAG_SUCCEEDED, EventKind.DAG_FAILED)
        if over:
            break
        if under_way:
            world.end(under_way.popleft())
            ends += 1
    state = sum(len(record.value or b"") for record in world.records(NAMES.state(ROLE)))
    return Cost(seconds / ends, state / ends, ends)


def _stepped(engine: DagEngine) -> float:
    began_s = time.process_time()
    engine.step()
    return time.process_time() - began_s


def _dag(what: str, size: int) -> tuple[list[Node], dict[str, int]]:
    if what == "items":
        each = Node("each", "h", map_over=MapOver(count=size, concurrency=UNDER_WAY))
        return [each, Node("last", "h", after=("each",))], {}
    # A ladder: every node has up to three parents near it.
    parents = [tuple(f"n{near}" for near in range(max(0, place - 3), place)) for place in range(size)]
    return [Node(f"n{place}", "h", after=after) for place, after in enumerate(parents)], {"max_active_nodes": UNDER_WAY}
