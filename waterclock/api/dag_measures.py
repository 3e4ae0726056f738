"""What DAG engines and the look for stuck nodes have told, for Prometheus: by shard, since its owner took it over."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate

from prometheus_client import CollectorRegistry
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from waterclock.model.ids import US_PER_S
from waterclock.model.stuck_nodes import StuckReason
from waterclock.store.upkeep import RELEASE_BUCKETS_S, Told

_BOUNDS = [*(f"{each:g}" for each in RELEASE_BUCKETS_S), "+Inf"]


class DagFigures(Collector):
    """Asked for at a scrape; without a figure before anything was told."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._engine: Sequence[Told] = ()
        self._stuck: Sequence[Told] = ()
        registry.register(self)

    def take(self, engine: Sequence[Told], stuck: Sequence[Told]) -> None:
        """What every shard told."""
        self._engine, self._stuck = engine, stuck

    def collect(self) -> Iterator[Metric]:
        """The families."""
        dag_runs = GaugeMetricFamily("waterclock_dag_runs_open", "Open DagRuns, by the engine", labels=["shard"])
        releases = CounterMetricFamily("waterclock_dag_releases", "Nodes released", labels=["shard"])
        skips = CounterMetricFamily("waterclock_dag_skips", "Nodes that never run", labels=["shard"])
        latency = HistogramMetricFamily(
            "waterclock_dag_release_seconds",
            "From the last event of a DagRun, as recorded, to the round that releases nodes of it",
            labels=["shard"],
        )
        for told in self._engine:
            place, parts = [told.place], told.parts
            dag_runs.add_metric(place, int(parts.get("open", 0)))
            releases.add_metric(place, int(parts.get("released", 0)))
            skips.add_metric(place, int(parts.get("skipped", 0)))
            counts = list(parts.get("latency_counts", ()))
            if len(counts) == len(_BOUNDS):
                buckets = [(bound, float(count)) for bound, count in zip(_BOUNDS, accumulate(counts), strict=True)]
                latency.add_metric(place, buckets, float(parts.get("latency_sum_s", 0.0)))
        yield from (dag_runs, releases, skips, latency)
        yield self._stuck_nodes()
        looked = GaugeMetricFamily(
            "waterclock_dag_stuck_looked_timestamp_seconds", "When all open DagRuns were looked at", labels=["shard"]
        )
        for told in self._stuck:
            looked.add_metric([told.place], int(told.parts.get("ended_at", 0)) / US_PER_S)
        yield looked

    def _stuck_nodes(self) -> Metric:
        family = GaugeMetricFamily(
            "waterclock_dag_stuck_nodes", "Nodes of open DagRuns that somebody should look at", labels=["reason"]
        )
        if self._stuck:
            for reason in StuckReason:
                counts = (told.parts.get("by_reason", {}).get(reason.value, 0) for told in self._stuck)
                family.add_metric([reason.value], sum(counts))
        return family
