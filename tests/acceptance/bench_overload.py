"""Five times what the slots can serve, for a minute: HIGH, which alone fits, keeps its pace; LOW does not starve.

Handlers take 10 ms. Bars (medians of five rounds): HIGH's p99 of due to STARTED <= 2x its own without the overload; LOW
gets >= 5 % of what begins.
"""

from __future__ import annotations

from tests.acceptance.evidence import Evidence
from tests.bench import amount, overload
from tests.bench.figures import Figures
from tests.bench.series import Series

SHORT_FORM = False
HIGH_TIMES, LOW_PART = 2.0, 0.05
ASKED_TIMES_MIN = 5.0


def main(short: bool = False) -> None:
    evidence, figures = Evidence("bench-overload", None), Figures("bench-overload")
    series = Series(figures)
    for _ in range(1 if short else amount.rounds()):
        one = overload.measure(overload.SHORT if short else overload.WHOLE)
        series.raw(one.raw_runs_per_s)
        for name, value in one.alone.items():
            series.take(f"high.alone.{name}", value, "ms")
            times = one.loaded[name] / value
            series.take(f"high.loaded.{name}", one.loaded[name], "ms", vs="alone", ratio=round(times, 2))
        total = sum(one.begun.values())
        series.take("high.p99_times", one.loaded["p99"] / one.alone["p99"], "x", vs="alone")
        series.take("low.part", one.begun["low"] / total, "x", vs="all that began", n=total)
        for tier, count in one.begun.items():
            series.take(f"{tier}.runs_per_s", count / one.seconds, "runs/s", vs="asked", n=count)
        series.take("asked_times", sum(one.asked_per_s.values()) / (total / one.seconds), "x", vs="what began")
    found = {name: series.judged(name) for name in series.names()}
    if not short:
        evidence.demand(amount.is_whole(), "a quick look: fewer rounds than the bar asks for")
        times, part = found["high.p99_times"].median, found["low.part"].median
        overloaded = found["asked_times"].median
        evidence.demand(overloaded >= ASKED_TIMES_MIN, f"asked for only {overloaded:.1f}x what began: no overload")
        evidence.demand(times <= HIGH_TIMES, f"HIGH's p99 is {times:.2f}x that without the load, not {HIGH_TIMES}x")
        evidence.demand(part >= LOW_PART, f"LOW got {part:.1%} of what began, wanted >= {LOW_PART:.0%}")
        print(f"kept in {figures.save()}")
    evidence.close()
