"""An even load of 1,667 runs a second: due to STARTED committed, as a reader outside sees it."""

from __future__ import annotations

import time
from typing import NamedTuple

from tests.bench import load, raw_floor, raw_produce, watched
from tests.bench.rig import Rig
from tests.bench.sight import US

_EVERY_S = 6
_RAW_S = 5.0


class Size(NamedTuple):
    """Jobs, each every 6 s; seconds to warm up, which are told apart, and to measure."""

    jobs: int
    warm_up_s: int
    seconds: int
    lead_s: float


WHOLE = Size(10_002, 60, 600, 60.0)
SHORT = Size(120, 6, 12, 15.0)


class Steady(NamedTuple):
    """Quantiles in ms; cores in use by each process; the raw loops' quantiles and rate."""

    cold: dict[str, float]
    started: dict[str, float]
    handled: dict[str, float]
    cores: dict[str, float]
    floor: dict[str, float]
    raw_runs_per_s: float
    runs: int


def measure(size: Size) -> Steady:
    """One run."""
    with Rig(sink=True) as rig:
        start_at = load.whole_second(size.lead_s)
        beats = load.spread(size.jobs, _EVERY_S, start_at)
        rig.create(load.specs(beats))
        warm = watched.Span(start_at, start_at + size.warm_up_s * US)
        span = watched.Span(warm.until, warm.until + size.seconds * US)
        sight = watched.look(rig, start_at)
        load.wait_until(span.since)
        before = rig.cpu_s()
        time.sleep(size.seconds)
        spent = {name: (after - before[name]) / size.seconds for name, after in rig.cpu_s().items()}
        watched.all_seen(sight, len(load.owed(beats, start_at, span.until)))
        seen = sight.stop()
        started, cold = watched.judged(beats, seen, span), watched.judged(beats, seen, warm)
        handled = watched.handled(rig, beats, span)
        rig.rest()
        place = rig.stack.bootstrap, rig.stack.partitions
        times = max(3, min(6, size.seconds // _EVERY_S))
        floor = raw_floor.delays(*place, jobs=size.jobs, every_s=_EVERY_S, times=times, skip=1, spread=True)
        raw = raw_produce.measure(*place, _RAW_S)
    return Steady(cold, started, handled, spent, floor, raw, round(size.jobs / _EVERY_S * size.seconds))
