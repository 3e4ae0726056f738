"""SIGKILLs of one of two dispatchers at 1,667 runs a second: the other takes over, or the same one comes back.

Bars: 10 kills after which the other takes over: worst due to STARTED <= 8 s; 10 after which the same one is started
again at once: <= 3 s; in all of it 0 runs lost, 0 doubled.
"""

from __future__ import annotations

from tests.acceptance.evidence import Evidence
from tests.bench import amount, recovery
from tests.bench.figures import Figures
from tests.bench.series import Series

SHORT_FORM = False
TAKEN_OVER_S, RESTARTED_S = 8.0, 3.0


def main(short: bool = False) -> None:
    evidence, figures = Evidence("bench-recovery", None), Figures("bench-recovery")
    whole = recovery.WHOLE
    kills = whole._replace(taken_over=amount.part(whole.taken_over), restarted=amount.part(whole.restarted))
    series = Series(figures)
    for turn in range(1 if short else amount.rounds(1)):
        one = recovery.measure(recovery.SHORT if short else kills, seed=4_711 + turn)
        series.raw(one.raw_runs_per_s)
        for label, worst in (("taken_over", one.taken_over_s), ("restarted", one.restarted_s)):
            print(f"{label}: worst due to STARTED after each kill: {[round(each, 2) for each in worst]} s", flush=True)
            series.take(f"{label}.worst", max(worst), "s", n=len(worst))
            series.take(f"{label}.median", sorted(worst)[len(worst) // 2], "s", n=len(worst))
        series.take("lost", one.lost, "runs", n=one.runs)
        series.take("doubled", one.doubled, "runs", n=one.runs)
        evidence.demand(one.lost == 0, f"{one.lost} of {one.runs} runs were lost")
        evidence.demand(one.doubled == 0, f"{one.doubled} of {one.runs} runs began twice")
    found = {name: series.judged(name) for name in series.names()}
    if not short:
        evidence.demand(amount.is_whole(1), "a quick look: fewer kills than the bar asks for")
        for name, bar in (("taken_over.worst", TAKEN_OVER_S), ("restarted.worst", RESTARTED_S)):
            worst = found[name].highest
            evidence.demand(worst <= bar, f"{name} due to STARTED {worst:.2f} s, wanted <= {bar:.0f}")
        print(f"kept in {figures.save()}")
    evidence.close()
