"""How it scales: partitions, dispatchers, workers; and what a run costs beside many stored jobs, open runs, tenants.

No bars: each series prints a burst's figures at every step, and the exponent by which the cost of a run grows (0: not
at all; 1: as fast as what is stored). One round a step unless ``WATERCLOCK_BENCH_ROUNDS`` says otherwise.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterable, Sequence

from tests.acceptance import dumps
from tests.acceptance.real_stack import wait_for
from tests.bench import amount, burst, load
from tests.bench.figures import Figures
from tests.bench.rig import ALL_ROLES, DISPATCHER, WORKER, Rig, several
from tests.bench.series import Series
from waterclock.log.kafka_topics import ensure_topics
from waterclock.model.ids import US_PER_S
from waterclock.model.job import JobSpec, Once
from waterclock.wire.names import topic_specs

_SIZE = burst.Size(6_000, 12, 45.0)
_BESIDE = (1_000, 10_000, 100_000)
_YEAR_US = 365 * 86_400 * US_PER_S
_NOBODYS = "nobodys"
"""A pool without a worker."""


def exponent(points: Iterable[tuple[float, float]]) -> float:
    """The slope of the straight line through the logarithms: y grows as x to the power of it."""
    logs = [(math.log(x), math.log(y)) for x, y in points]
    return statistics.linear_regression([x for x, _ in logs], [y for _, y in logs]).slope


def _steps(figures: Figures, what: str, steps: Sequence[int], make: Callable[[int], burst.Burst]) -> None:
    series, cost = Series(figures), []
    for step in steps:
        made = [make(step) for _ in range(amount.rounds(1))]
        for one in made:
            series.raw(one.raw_runs_per_s)
            series.take(f"{what}-{step}.runs_per_s", one.runs_per_s, "runs/s", n=one.runs)
            series.take(f"{what}-{step}.cpu_us_per_run", sum(one.cpu_us.values()), "us", n=one.runs)
        cost.append((float(step), statistics.median(sum(one.cpu_us.values()) for one in made)))
    for name in series.names():
        series.judged(name)
    figures.add(f"{what}.cpu_exponent", exponent(cost), "exponent", n=len(cost))


def partitions(figures: Figures) -> None:
    """4, 64 and 256 partitions of every keyed topic; the more there are, the longer it takes until all jobs stand."""

    def make(count: int) -> burst.Burst:
        return burst.measure(_SIZE._replace(lead_s=_SIZE.lead_s + count / 2), partitions=count)

    _steps(figures, "partitions", (4, 64, 256), make)


def _with(role: tuple[str, str], count: int) -> list[tuple[str, str]]:
    return [*several(role[0], count), *(each for each in ALL_ROLES if each != role)]


def dispatchers(figures: Figures) -> None:
    """1 to 4 dispatchers."""
    _steps(figures, "dispatchers", (1, 2, 4), lambda count: burst.measure(_SIZE, roles=_with(DISPATCHER, count)))


def workers(figures: Figures) -> None:
    """1 to 8 workers, on 8 partitions."""
    _steps(
        figures,
        "workers",
        (1, 2, 4, 8),
        lambda count: burst.measure(_SIZE, roles=_with(WORKER, count), partitions=8),
    )


def stored(figures: Figures) -> None:
    """Beside so many jobs whose first fire is a year away."""
    _steps(figures, "stored", _BESIDE, lambda count: burst.measure(_SIZE, beside=lambda rig: _store(rig, count)))


def _store(rig: Rig, count: int) -> None:
    once = Once(time.time_ns() // 1_000 + _YEAR_US)
    rig.create({f"bench:far-{number}": JobSpec("bench.noop", once) for number in range(count)}, within_s=600.0)


def open_runs(figures: Figures) -> None:
    """Beside so many runs that wait for a worker of a pool that has none."""
    _steps(figures, "open", _BESIDE, lambda count: burst.measure(_SIZE, beside=lambda rig: _open(rig, count)))


def _open(rig: Rig, count: int) -> None:
    """All are made in one instant, and read by everybody before the burst begins."""
    names = rig.stack.names
    ensure_topics(rig.stack.bootstrap, topic_specs(names, rig.stack.partitions, ["default", _NOBODYS]))
    once = Once(load.whole_second(10.0 + count / 1_000))
    jobs = {f"bench:open-{number}": JobSpec("bench.noop", once, pool=_NOBODYS) for number in range(count)}
    rig.create(jobs, within_s=600.0)
    groups = [names.group(role) for role in ("retry-router", "recorder", "dag-engine")]
    load.wait_until(once.at + 5 * US_PER_S)
    wait_for(
        lambda: sum(dumps.unread(rig.stack.bootstrap, group, [names.run_events]) for group in groups) == 0,
        "the open runs were read",
        120.0,
        0.5,
    )


def tenants(figures: Figures) -> None:
    """The same jobs, of so many tenants."""
    _steps(figures, "tenants", (1, 100, 6_000), lambda count: burst.measure(_SIZE, tenants=count))
