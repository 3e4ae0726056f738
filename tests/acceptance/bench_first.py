"""The first bars of speed: both servers and all roles on two cores, judged from topics and tables.

>= 4,000 runs/s from stored due rows until counted in Cassandra (>= 200,000 runs of >= 10,000 jobs); due to STARTED as a
separate read_committed consumer sees it: p99 < 200 ms at 1,667 runs/s, p95 < 0.6 s for 5,000 in one instant. Cassandra
writes its log as the nodes of a cluster do; what a node that is alone makes of it stands beside (``alone.``), unjudged.
"""

from __future__ import annotations

from tests.acceptance.evidence import Evidence
from tests.acceptance.real_stack import RealStack
from tests.bench import pipeline
from tests.bench.figures import Figures

RUNS_PER_S = 4_000
STEADY_P99_MS = 200
HERD_P95_MS = 600


def _identify(stack: RealStack) -> None:
    Evidence("bench-first", stack)  # prints which servers these are


def main(*, short: bool) -> None:
    """The short form runs a small load through the same code and judges no figure."""
    figures = Figures("bench-first")
    if short:
        pipeline.throughput(figures, jobs=300, fires=3, lead_s=20, prepared=_identify)
        return
    rate = pipeline.throughput(figures, prepared=_identify)
    pipeline.throughput(figures, node=pipeline.ALONE, label="alone.")
    steady = pipeline.steady(figures)
    herd = pipeline.herd(figures)
    print(f"kept in {figures.save()}")
    short_of = [
        f"{rate:.0f} runs/s, wanted {RUNS_PER_S}" if rate < RUNS_PER_S else "",
        f"steady p99 {steady['p99']:.0f} ms, wanted < {STEADY_P99_MS}" if steady["p99"] >= STEADY_P99_MS else "",
        f"herd p95 {herd['p95']:.0f} ms, wanted < {HERD_P95_MS}" if herd["p95"] >= HERD_P95_MS else "",
    ]
    if any(short_of):
        raise SystemExit("; ".join(filter(None, short_of)))
