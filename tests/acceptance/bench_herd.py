"""Thousands of runs due in one instant: 5,000, 20,000 and 100,000; beside the raw loops and the peers.

Bars (medians of five rounds): 5,000: due to the handler p99 <= 150 ms, <= 0.1x the best Python peer, <= 0.6x tuned
River; 20,000: p99 <= 1 s; 100,000: due to acknowledged in Kafka (PENDING, committed) p99 <= 1 s. Each round of ours is
followed by a herd of those peers that were the quickest where all were measured (``make bench-peers``).
"""

from __future__ import annotations

from collections.abc import Callable

from tests.acceptance.evidence import Evidence
from tests.bench import amount, herd, peers
from tests.bench.beside import Beside
from tests.bench.figures import Figures
from tests.bench.series import Series

SHORT_FORM = False
BARS_MS = {"5000.handled.p99": 150.0, "20000.handled.p99": 1_000.0, "100000.acknowledged.p99": 1_000.0}
PEERS = "apscheduler-memory dramatiq-rabbitmq river-tuned"
TIMES_PEERS: tuple[tuple[str, Callable[[str], bool], float], ...] = (
    ("the best Python peer", peers.in_python, 0.1),
    ("tuned River", peers.called("river-tuned"), 0.6),
)


def main(short: bool = False) -> None:
    evidence, figures = Evidence("bench-herd", None), Figures("bench-herd")
    series = Series(figures)
    sizes = herd.SHORT if short else herd.WHOLE[: amount.part(len(herd.WHOLE))]
    beside = None if short else Beside(PEERS, herds_alone=True)
    for _ in range(1 if short else amount.rounds()):
        for size in sizes:
            _take(series, size, herd.measure(size))
        if beside is not None:
            beside.round()
    found = {name: series.judged(name) for name in series.names()}
    if beside is None:
        return
    there = beside.close()
    evidence.demand(amount.is_whole(), "a quick look: fewer rounds than the bar asks for")
    for name, bar in BARS_MS.items():
        reached = found.get(name)
        if reached is None:
            evidence.demand(False, f"herd of {name} was not measured")
            continue
        evidence.demand(
            reached.median <= bar,
            f"herd of {name}: {reached.median:.0f} ms (scaled {reached.scaled:.0f}), wanted <= {bar:.0f}",
        )
    ours = found["5000.handled.p99"].median
    evidence.demand(not beside.lacks(), f"peers: {'; '.join(beside.lacks())}")
    for word, of, times in TIMES_PEERS:
        try:
            peer = there.best(of, "herd-5000.p99_ms", lowest=True)
        except peers.NoPeers as missing:
            evidence.demand(False, str(missing))
            continue
        ratio = ours / peer.value
        figures.add(f"5000.vs_{peer.name}", ours, "ms", vs=peer.name, ratio=round(ratio, 3))
        evidence.demand(ratio <= times, f"{ratio:.2f}x {word} ({peer.name}, {peer.value:.0f} ms), wanted <= {times}x")
    print(f"kept in {figures.save()}")
    evidence.close()


def _take(series: Series, size: herd.Size, one: herd.Herd) -> None:
    series.raw(one.raw_runs_per_s)
    figures = {
        "handled": one.handled,
        "started": one.started,
        "acknowledged": one.acknowledged,
        "appended": one.appended,
        "floor": one.floor,
    }
    for label, values in figures.items():
        for name, value in values.items():
            beside = {} if label == "floor" else {"vs": "raw loops", "ratio": round(value / one.floor[name], 2)}
            series.take(f"{size.runs}.{label}.{name}", value, "ms", n=one.runs, **beside)
