"""An even load of 1,667 runs a second for ten minutes: due to STARTED committed, as a reader outside sees it.

Bars: p50 <= 25 ms, p99 <= 60 ms, max <= 500 ms. A minute to warm up is told apart. Beside it: the same load by the raw
loops, on the same broker.
"""

from __future__ import annotations

from tests.acceptance.evidence import Evidence
from tests.bench import amount, steady
from tests.bench.figures import Figures
from tests.bench.series import Series

SHORT_FORM = False
BARS_MS = {"p50": 25.0, "p99": 60.0, "max": 500.0}


def main(short: bool = False) -> None:
    evidence, figures = Evidence("bench-steady", None), Figures("bench-steady")
    whole = steady.WHOLE
    size = steady.SHORT if short else whole._replace(seconds=amount.part(whole.seconds, least=60))
    series = Series(figures)
    for _ in range(1 if short else amount.rounds(1)):
        one = steady.measure(size)
        series.raw(one.raw_runs_per_s)
        for name, value in one.started.items():
            series.take(
                f"started.{name}", value, "ms", vs="raw loops", ratio=round(value / one.floor[name], 2), n=one.runs
            )
        for label, values in (("cold", one.cold), ("handled", one.handled), ("floor", one.floor)):
            for name, value in values.items():
                series.take(f"{label}.{name}", value, "ms")
        for process, cores in (*one.cores.items(), ("all", sum(one.cores.values()))):
            series.take(f"cores.{process}", cores, "cores")
    found = {name: series.judged(name) for name in series.names()}
    if short:
        return
    evidence.demand(amount.is_whole(1), "a quick look: shorter than the bar asks for")
    for name, bar in BARS_MS.items():
        reached = found[f"started.{name}"]
        evidence.demand(
            reached.median <= bar, f"{name} {reached.median:.0f} ms (scaled {reached.scaled:.0f}), wanted <= {bar:.0f}"
        )
    print(f"kept in {figures.save()}")
    evidence.close()
