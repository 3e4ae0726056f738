"""Runs end to end at full speed: from stored due rows until all of them stand SUCCEEDED in Cassandra."""

from __future__ import annotations

import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, Self

from tests.acceptance.real_stack import wait_for
from tests.bench import load, raw_produce
from tests.bench.rig import ALL_ROLES, Rig
from tests.bench.sight import US

SUCCEEDED = 3
_RAW_S = 5.0
_SAMPLE = 300
_DONE_WITHIN_S = 300.0


class Size(NamedTuple):
    """Jobs that fire every second, so many times. ``lead_s``: to define them."""

    jobs: int
    fires: int
    lead_s: float


WHOLE = Size(12_000, 18, 60.0)
SHORT = Size(300, 3, 15.0)


class Burst(NamedTuple):
    """``cpu_us``: of each process, servers included, for a run."""

    runs: int
    runs_per_s: float
    cpu_us: dict[str, float]
    raw_runs_per_s: float


def measure(
    size: Size,
    *,
    roles: Sequence[tuple[str, str]] = ALL_ROLES,
    env: Mapping[str, str] = MappingProxyType({}),
    partitions: int = 4,
    scraped_every_s: float = 0.0,
    beside: Callable[[Rig], None] = lambda _: None,
    tenants: int = 1,
    warms_up: bool = True,
) -> Burst:
    """One round. ``scraped_every_s``: the metrics are read so often meanwhile. ``beside``: what is there before."""
    with Rig(roles=roles, env=env, partitions=partitions) as rig:
        beside(rig)
        if warms_up:
            rig.warm_up()
        start_at = load.whole_second(size.lead_s)
        beats = load.together(size.jobs, 1, start_at, tenants=tenants)
        rig.create(load.specs(beats))
        load.wait_until(start_at, least_s=2.0)
        last = start_at + (size.fires - 1) * US
        before = rig.cpu_s()
        with Scraping(rig.api_port, scraped_every_s):
            rig.end_load(last)
            in_cassandra(rig, beats, size.fires)
        took_s = time.time() - start_at / US
        spent = {name: after - before.get(name, 0.0) for name, after in rig.cpu_s().items()}
        runs = counted(rig, start_at, last, size.jobs * size.fires)
        rig.rest()
        raw = raw_produce.measure(rig.stack.bootstrap, partitions, _RAW_S)
    return Burst(runs, runs / took_s, {name: s / runs * US for name, s in spent.items()}, raw)


def in_cassandra(rig: Rig, beats: Sequence[load.Beat], fires: int) -> None:
    """Wait until a sample of the jobs has all its rows."""
    sample = [beat.job_id for beat in beats[:: max(1, len(beats) // _SAMPLE)]]
    day = beats[0].start_at // (86_400 * US)
    wait_for(lambda: rig.succeeded(sample, day, fires), "all runs in Cassandra", _DONE_WITHIN_S, 0.1)


def counted(rig: Rig, first: int, last: int, wanted: int) -> int:
    """All runs due from ``first`` to ``last`` stand SUCCEEDED in Cassandra, each once. Raises RuntimeError."""
    rows = rig.session.execute("SELECT status, fire_at FROM runs_by_drawer")
    statuses = Counter(status for status, fire_at in rows if first <= fire_at <= last)
    if statuses != {SUCCEEDED: wanted}:
        raise RuntimeError(f"wanted {wanted} SUCCEEDED rows, found {dict(statuses)}")
    return wanted


class Scraping:
    """Reads ``/metrics`` again and again, as a Prometheus does; 0 s: not at all."""

    def __init__(self, port: int, every_s: float) -> None:
        self._port, self._every_s = port, every_s
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._trouble: OSError | None = None

    def __enter__(self) -> Self:
        if self._every_s:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._every_s:
            self._thread.join(30)
        if self._trouble is not None:
            raise RuntimeError("the metrics could not be read, so nothing was observed") from self._trouble

    def _read(self) -> None:
        try:
            while not self._ended.wait(self._every_s):
                with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/metrics", timeout=30) as answer:
                    answer.read()
        except OSError as trouble:
            self._trouble = trouble
