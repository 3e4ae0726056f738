"""How near a role alone comes to the raw loop that sends the same bytes in the same batches.

Dispatcher and worker each work off a backlog, one role at a time, with nobody beside it but the broker (and the store,
for the dispatcher). Their rates are taken from the broker's stamps.
"""

from __future__ import annotations

import time
from typing import NamedTuple

from tests.acceptance import dumps
from tests.acceptance.real_stack import wait_for
from tests.bench import load, raw_consume, raw_produce
from tests.bench.drain import stamps
from tests.bench.raw_records import WORK
from tests.bench.rig import DISPATCHER, WORKER, Rig
from tests.bench.sight import PENDING, US, fire_at

_RAW_S = 6.0
_WITHIN_S = 180.0
_SMALL_ROUND = 500
_ROUND_CLAIMS = 2_000
"""What the worker of the rig may claim in a round."""


class Size(NamedTuple):
    """Jobs that fire every second, so many times while the dispatcher is away. ``raw_runs``: the raw loops'."""

    jobs: int
    fires: int
    lead_s: float
    raw_runs: int


WHOLE = Size(12_000, 20, 60.0, 60_000)
SHORT = Size(300, 5, 12.0, 5_000)


class Limits(NamedTuple):
    """Runs a second, each beside its raw loop; the last pair are raw loops of 500 records a round."""

    dispatcher: float
    raw_produce: float
    worker: float
    raw_consume: float
    transactional: float
    at_least_once: float
    runs: int


def measure(size: Size) -> Limits:
    """One round."""
    with Rig(roles=(DISPATCHER,)) as rig:
        stack = rig.stack
        start_at = load.whole_second(size.lead_s)
        beats = load.together(size.jobs, 1, start_at)
        rig.create(load.specs(beats))
        load.wait_until(start_at - US, least_s=0.0)
        stack.roles["dispatcher-1"].stop()
        until = start_at + size.fires * US
        load.wait_until(until)
        rig.begin([DISPATCHER])
        rig.end_load(until - US)
        dispatcher, runs = dispatched(stack.bootstrap, stack.names.run_events, until)
        missing = size.jobs * size.fires - runs
        if missing:
            raise RuntimeError(f"{missing} of {size.jobs * size.fires} runs were not made")
        waiting = sum(dumps.high_watermarks(stack.bootstrap, stack.names.run_events).values())
        rig.begin([WORKER])
        wait_for(lambda: _grown(rig, waiting) >= 2 * runs, "the backlog was worked off", _WITHIN_S, 0.5)
        rig.rest()
        started, ended = stamps(stack.bootstrap, stack.names.run_events)
        worker = len(ended) / (max(ended) - min(started))
        raw = _raw(rig, size)
    return Limits(dispatcher, raw[0], worker, *raw[1:], runs)


def dispatched(bootstrap: str, topic: str, until: int) -> tuple[float, int]:
    """Runs a second from the first PENDING to the last of those due before ``until``, and how many those are."""
    due = [
        message.timestamp()[1] / 1_000
        for message in dumps.messages(bootstrap, topic, committed=True)
        if (headers := message.headers())[0][1] == PENDING and fire_at(headers[1][1].decode()) < until
    ]
    return len(due) / (max(due) - min(due)), len(due)


def _grown(rig: Rig, before: int) -> int:
    return sum(dumps.high_watermarks(rig.stack.bootstrap, rig.stack.names.run_events).values()) - before


def _raw(rig: Rig, size: Size) -> tuple[float, float, float, float]:
    """The raw loops: produce; consume as the worker does; with 500 a round in transactions, and at least once."""
    bootstrap, partitions = rig.stack.bootstrap, rig.stack.partitions
    produced = raw_produce.measure(bootstrap, partitions, _RAW_S)
    wait_for(lambda: _committed_work(bootstrap, size.raw_runs), "work for the raw loops", 10.0)
    found = [raw_consume.measure(bootstrap, size.raw_runs, round_records=_ROUND_CLAIMS, group=f"raw-{time.time_ns()}")]
    for transactional in (True, False):
        group = f"raw-{time.time_ns()}"
        found.append(
            raw_consume.measure(
                bootstrap, size.raw_runs, round_records=_SMALL_ROUND, transactional=transactional, group=group
            )
        )
    return produced, found[0], found[1], found[2]


def _committed_work(bootstrap: str, wanted: int) -> bool:
    return sum(dumps.high_watermarks(bootstrap, WORK).values()) >= wanted
