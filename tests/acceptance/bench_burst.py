"""No-op runs end to end, counted in Cassandra, and the drain of work already emitted; beside raw loops and peers.

Bars (medians of five rounds, 216,000 runs of 12,000 jobs each): >= 8,000 runs/s, >= 5x the best Celery with Redis,
>= 1.5x dramatiq with RabbitMQ, >= 3x River; drain >= 14,000/s with its history; CPU <= 200 us a run, all processes
together. The drain ends with the last row in Cassandra; when the log alone had it all is told beside. Each round of
ours is followed by one of each peer that a bar names.
"""

from __future__ import annotations

from tests.acceptance.evidence import Evidence
from tests.bench import amount, burst, drain, peers
from tests.bench.beside import Beside
from tests.bench.figures import Figures
from tests.bench.series import Series

SHORT_FORM = False
RUNS_PER_S = 8_000
DRAIN_PER_S = 14_000
CPU_US = 200
PEERS = "celery-redis dramatiq-rabbitmq river-default river-tuned"
TIMES_PEERS = (("celery-redis", 5.0), ("dramatiq-rabbitmq", 1.5), ("river", 3.0))


def main(short: bool = False) -> None:
    evidence, figures = Evidence("bench-burst", None), Figures("bench-burst")
    size, series = burst.SHORT if short else burst.WHOLE, Series(figures)
    beside = None if short else Beside(PEERS)
    for _ in range(1 if short else amount.rounds()):
        one = burst.measure(size)
        series.raw(one.raw_runs_per_s)
        ratio = round(one.runs_per_s / one.raw_runs_per_s, 3)
        series.take("runs_per_s", one.runs_per_s, "runs/s", vs="raw produce loop", ratio=ratio, n=one.runs)
        _tell(series, "cpu_us_per_run", one.cpu_us, one.runs)
        two = drain.measure(size)
        series.take("drain.runs_per_s", two.with_history_per_s, "runs/s", n=two.runs)
        series.take("drain.in_log_runs_per_s", two.in_log_per_s, "runs/s", n=two.runs)
        _tell(series, "drain.cpu_us_per_run", two.cpu_us, two.runs)
        if beside is not None:
            beside.round()
    found = {name: series.judged(name) for name in series.names()}
    if beside is None:
        return
    there = beside.close()
    rate, drained = found["runs_per_s"], found["drain.runs_per_s"]
    evidence.demand(amount.is_whole(), "a quick look: fewer rounds than the bar asks for")
    evidence.demand(rate.median >= RUNS_PER_S, f"{rate.median:.0f} runs/s (scaled {rate.scaled:.0f}), not {RUNS_PER_S}")
    evidence.demand(
        drained.median >= DRAIN_PER_S, f"drain {drained.median:.0f}/s (scaled {drained.scaled:.0f}), not {DRAIN_PER_S}"
    )
    cpu = found["cpu_us_per_run.all"]
    evidence.demand(cpu.median <= CPU_US, f"{cpu.median:.0f} us of CPU a run (scaled {cpu.scaled:.0f}), not {CPU_US}")
    evidence.demand(not beside.lacks(), f"peers: {'; '.join(beside.lacks())}")
    _beside_peers(evidence, figures, there, rate.median, drained.median)
    print(f"kept in {figures.save()}")
    evidence.close()


def _tell(series: Series, name: str, cpu_us: dict[str, float], runs: int) -> None:
    for process, spent in cpu_us.items():
        series.take(f"{name}.{process}", spent, "us", n=runs)
    series.take(f"{name}.all", sum(cpu_us.values()), "us", n=runs)


def _beside_peers(evidence: Evidence, figures: Figures, there: peers.Peers, rate: float, drained: float) -> None:
    """The bars against others, each told with the peer's name."""
    for start, times in TIMES_PEERS:
        try:
            peer = there.best(peers.called(start), "burst.runs_per_s")
        except peers.NoPeers as missing:
            evidence.demand(False, str(missing))
            continue
        ratio = rate / peer.value
        figures.add(f"runs_per_s.vs_{start}", rate, "runs/s", vs=peer.name, ratio=round(ratio, 2))
        evidence.demand(ratio >= times, f"{ratio:.2f}x {peer.name} ({peer.value:.0f} runs/s), not {times}x")
    try:
        peer = there.best(peers.called("river-tuned"), "drain.runs_per_s")
    except peers.NoPeers as missing:
        evidence.demand(False, str(missing))
    else:
        figures.add("drain.vs_river", drained, "runs/s", vs=peer.name, ratio=round(drained / peer.value, 2))
