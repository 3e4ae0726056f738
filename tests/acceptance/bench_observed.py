"""What logs and metrics cost at full speed: bursts with both, and with neither, one after the other.

With: log level ``info`` and the API, whose metrics are read every 5 s. Without: log level ``error``, and no API. Bar
(the median of five pairs): throughput falls by <= 10 %.
"""

from __future__ import annotations

from tests.acceptance.evidence import Evidence
from tests.bench import amount, burst
from tests.bench.figures import Figures
from tests.bench.rig import ALL_ROLES
from tests.bench.series import Series

SHORT_FORM = False
COST_MAX = 0.10
_SCRAPED_EVERY_S = 5.0
_SHORT_EVERY_S = 0.5
_UNSEEN_ROLES = tuple(role for role in ALL_ROLES if role[0] != "api")
_SILENT = {"WATERCLOCK_LOG_LEVEL": "error"}


def main(short: bool = False) -> None:
    evidence, figures = Evidence("bench-observed", None), Figures("bench-observed")
    size, series = burst.SHORT if short else burst.WHOLE, Series(figures)
    for turn in range(1 if short else amount.rounds()):
        made: dict[str, burst.Burst] = {}
        for who in ("observed", "unseen") if turn % 2 == 0 else ("unseen", "observed"):
            if who == "observed":
                made[who] = burst.measure(size, scraped_every_s=_SHORT_EVERY_S if short else _SCRAPED_EVERY_S)
            else:
                made[who] = burst.measure(size, roles=_UNSEEN_ROLES, env=_SILENT)
            series.raw(made[who].raw_runs_per_s)
            series.take(f"{who}.runs_per_s", made[who].runs_per_s, "runs/s", n=made[who].runs)
            series.take(f"{who}.cpu_us_per_run", sum(made[who].cpu_us.values()), "us", n=made[who].runs)
        series.take("cost", 1.0 - made["observed"].runs_per_s / made["unseen"].runs_per_s, "x", vs="unseen")
    found = {name: series.judged(name) for name in series.names()}
    if not short:
        evidence.demand(amount.is_whole(), "a quick look: fewer rounds than the bar asks for")
        cost = found["cost"].median
        evidence.demand(cost <= COST_MAX, f"logs and metrics cost {cost:.1%} of the throughput, not {COST_MAX:.0%}")
        print(f"kept in {figures.save()}")
    evidence.close()
