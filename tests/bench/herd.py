"""Thousands of runs due in one instant: how long until the last ones begin."""

from __future__ import annotations

import time
from typing import NamedTuple

from tests.bench import load, raw_floor, raw_produce, watched
from tests.bench.figures import quantiles
from tests.bench.rig import Rig
from tests.bench.sight import PENDING, STARTED, US, Sight, fire_at

_RAW_S = 5.0


class Size(NamedTuple):
    """Runs in each instant, an instant every so often; the first ``warm_up`` instants are told apart."""

    runs: int
    every_s: int
    warm_up: int
    herds: int
    lead_s: float


WHOLE = (Size(5_000, 5, 3, 8, 45.0), Size(20_000, 20, 2, 3, 75.0), Size(100_000, 60, 1, 2, 150.0))
SHORT = (Size(200, 5, 1, 2, 15.0),)


class Herd(NamedTuple):
    """Quantiles in ms: due to PENDING committed (the acknowledgement), to STARTED committed, to the handler."""

    acknowledged: dict[str, float]
    appended: dict[str, float]
    started: dict[str, float]
    handled: dict[str, float]
    floor: dict[str, float]
    raw_runs_per_s: float
    runs: int


def measure(size: Size) -> Herd:
    """One round of one size, on servers of its own."""
    with Rig(sink=True) as rig:
        start_at = load.whole_second(size.lead_s)
        beats = load.together(size.runs, size.every_s, start_at)
        rig.create(load.specs(beats), within_s=size.lead_s + 120.0)
        load.wait_until(start_at - 2 * US, least_s=1.0)
        sight = Sight(rig.stack.bootstrap, rig.stack.names.run_events, (PENDING, STARTED))
        since = start_at + size.warm_up * size.every_s * US
        span = watched.Span(since, since + size.herds * size.every_s * US)
        load.wait_until(span.until - size.every_s * US)
        time.sleep(min(4, size.every_s / 2))
        watched.all_seen(sight, 2 * size.runs * (size.warm_up + size.herds))
        seen = sight.stop()
        started = watched.judged(beats, seen, span)
        pending = [glimpse for glimpse in seen if glimpse.kind == PENDING and _inside(glimpse.run_id, span)]
        acknowledged = quantiles([(each.seen_at - fire_at(each.run_id)) / 1_000 for each in pending])
        appended = quantiles([(each.appended_at - fire_at(each.run_id)) / 1_000 for each in pending])
        handled = watched.handled(rig, beats, span)
        rig.rest()
        place = rig.stack.bootstrap, rig.stack.partitions
        floor = raw_floor.delays(*place, jobs=size.runs, every_s=size.every_s, times=3, skip=1, spread=False)
        raw = raw_produce.measure(*place, _RAW_S)
    return Herd(acknowledged, appended, started, handled, floor, raw, len(pending))


def _inside(run_id: str, span: watched.Span) -> bool:
    return span.since <= fire_at(run_id) < span.until
