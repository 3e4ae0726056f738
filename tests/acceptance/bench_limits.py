"""How near dispatcher, worker, transactions and HTTP calls come to the raw loop that does the same without logic.

Bars (medians of five rounds): dispatcher >= 0.6x the raw transactional produce loop; worker >= 0.7x the raw
consume-produce-commit loop; transactional >= 0.9x at-least-once at 500 records a round; HTTP executor >= 0.8x the bare
client (over turns in which the caller had its core for itself).
"""

from __future__ import annotations

from statistics import median

from tests.acceptance import http_rate
from tests.acceptance.evidence import Evidence
from tests.bench import amount, limits
from tests.bench.figures import Figures
from tests.bench.series import Series

SHORT_FORM = False
BARS = {"dispatcher": 0.6, "worker": 0.7, "transactional": 0.9, "http": 0.8}


def main(short: bool = False) -> None:
    evidence, figures = Evidence("bench-limits", None), Figures("bench-limits")
    series = Series(figures)
    for _ in range(1 if short else amount.rounds()):
        one = limits.measure(limits.SHORT if short else limits.WHOLE)
        series.raw(one.raw_produce)
        series.take("raw_consume.runs_per_s", one.raw_consume, "runs/s")
        series.take("at_least_once.runs_per_s", one.at_least_once, "runs/s")
        _take(series, "dispatcher", one.dispatcher, "raw produce loop", one.raw_produce, one.runs)
        _take(series, "worker", one.worker, "raw consume-produce-commit loop", one.raw_consume, one.runs)
        _take(series, "transactional", one.transactional, "at least once", one.at_least_once, 0)
        _http(series, short=short)
    found = {name: series.judged(name) for name in series.names()}
    if short:
        return
    evidence.demand(amount.is_whole(), "a quick look: fewer rounds than the bar asks for")
    for name, bar in BARS.items():
        share = found.get(f"{name}.of_limit")
        reached = 0.0 if share is None else share.median
        evidence.demand(reached >= bar, f"{name}: {reached:.2f} of its limit, wanted >= {bar}")
    print(f"kept in {figures.save()}")
    evidence.close()


def _take(series: Series, name: str, rate: float, limit_is: str, limit: float, runs: int, unit: str = "runs/s") -> None:
    series.take(f"{name}.per_s", rate, unit, vs=limit_is, ratio=round(rate / limit, 3), n=runs)
    series.take(f"{name}.of_limit", rate / limit, "x", vs=limit_is, ratio=round(rate / limit, 3), n=runs)


def _http(series: Series, *, short: bool) -> None:
    turns, _ = http_rate.measure(http_rate.SHORT if short else http_rate.WHOLE)
    alone = [turn for turn in turns if turn["alone"] or short]
    rates = {who: [turn["good"] / turn["wall_s"] for turn in alone if turn["who"] == who] for who in ("bare", "ours")}
    if rates["ours"]:
        _take(series, "http", median(rates["ours"]), "bare client", median(rates["bare"]), len(alone), "calls/s")
