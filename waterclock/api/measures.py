"""What the API counts, for Prometheus: names after the house rule, labels with few values, never an id.

One registry per process object, so that tests may hold several. Making the text costs milliseconds and more with every
series: it is made off the event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.metadata import version

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from waterclock.model.catch_up_eta import CatchUpEta
from waterclock.model.ids import US_PER_S
from waterclock.store.upkeep import Told

from .dag_measures import DagFigures

_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


class UpkeepGauges:
    """What dispatchers and recorders have told of their upkeep; asked for at a scrape. Empty before that."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def gauge(name: str, meaning: str) -> Gauge:
            made = Gauge(name, meaning, registry=registry)
            made.set(float("nan"))
            return made

        self._due_repairs = gauge(
            "waterclock_due_repairs_total", "Next rows of jobs that were missing and made again; NaN: not known"
        )
        self._overdue = gauge(
            "waterclock_jobs_overdue", "Jobs without a success within their expect_within; NaN: not known"
        )
        self._faults = {
            kind: gauge(f"waterclock_ledger_{kind}_total", f"Fires found {kind} by the running ledger; NaN: not known")
            for kind in ("missing", "doubled", "wrong")
        }
        self._unproved = gauge(
            "waterclock_ledger_unproved_hours_total", "Hours of shards that could not be proved whole; NaN: not known"
        )
        self._verified_to = Gauge(
            "waterclock_ledger_verified_to_timestamp_seconds",
            "Every hour of the shard before it was verified",
            ("shard",),
            registry=registry,
        )

    def take(self, sweep: Sequence[Told], ledger: Sequence[Told], overdue: Sequence[Told]) -> None:
        """What every shard told."""
        self._due_repairs.set(_sum(sweep, "repairs"))
        self._overdue.set(_sum(overdue, "count"))
        for kind, gauge in self._faults.items():
            gauge.set(_sum(ledger, kind))
        self._unproved.set(_sum(ledger, "unproved_hours"))
        for told in ledger:
            self._verified_to.labels(told.place).set(int(told.parts.get("verified_to", 0)) / US_PER_S)


def _sum(told: Sequence[Told], name: str) -> int:
    return sum(int(each.parts.get(name, 0)) for each in told)


class Measures:
    """The figures of one API process."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        self._requests = Histogram(
            "waterclock_api_request_seconds",
            "From a request's head to the head of its answer, by class of status",
            ("outcome",),
            buckets=_BUCKETS_S,
            registry=registry,
        )
        self.commands = Counter(
            "waterclock_api_commands", "Commands sent, by what became of them", ("outcome",), registry=registry
        )
        self.refused = Counter(
            "waterclock_api_refused", "Requests refused, by the slug of their problem", ("reason",), registry=registry
        )
        self.answer_wait = Histogram(
            "waterclock_api_answer_seconds",
            "From a command's acknowledgement to the dispatcher's answer",
            buckets=_BUCKETS_S,
            registry=registry,
        )
        self.repairs = Gauge(
            "waterclock_reconciler_repairs_total",
            "What the reconciler has repaired since the installation began, all partitions; NaN: not known",
            registry=registry,
        )
        self.repairs.set(float("nan"))
        self.upkeep = UpkeepGauges(registry)
        self.dags = DagFigures(registry)
        self._owed = Gauge(
            "waterclock_catch_up_owed",
            "Due rows of gaps that are still to be caught up; NaN: not known",
            registry=registry,
        )
        self._eta = Gauge(
            "waterclock_catch_up_eta_seconds",
            "Until nothing is left to be caught up, by the last scrapes; NaN: not known",
            registry=registry,
        )
        self._catch_up = CatchUpEta()
        for gauge in (self._owed, self._eta):
            gauge.set(float("nan"))
        build = Gauge("waterclock_build_info", "What runs here", ("version",), registry=registry)
        build.labels(version("waterclock")).set(1)
        self._by_class = {number: self._requests.labels(f"{number}xx") for number in range(1, 6)}

    def served(self, status: int, seconds: float) -> None:
        """One request was answered."""
        self._by_class[status // 100].observe(seconds)

    def catching_up(self, owed: int, now_s: float) -> None:
        """So many rows are owed at a scrape, by a monotonic clock."""
        self._catch_up.look(owed, now_s)
        eta_s = self._catch_up.eta_s
        self._owed.set(owed)
        self._eta.set(float("nan") if eta_s is None else eta_s)

    def gauge(self, name: str, meaning: str, value: Callable[[], float]) -> None:
        """A figure that is asked for at each scrape; ``value`` is called from another thread."""
        Gauge(name, meaning, registry=self._registry).set_function(value)

    def text(self) -> bytes:
        """The exposition."""
        return generate_latest(self._registry)
