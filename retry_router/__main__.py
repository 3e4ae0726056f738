"""Wires the retry router to the real ports and turns it: ``python -m waterclock.retry_router``.

Three cores on three threads, each with clients of its own: the router proper, the keeper of the leases, the ladder.
They share nothing but the log.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from waterclock.clock import SystemClock
from waterclock.cores import Cores
from waterclock.leaving import leave_after
from waterclock.process import Ready, open_log, run_role
from waterclock.settings import Settings
from waterclock.telemetry import configure_logging
from waterclock.wire.names import Names

from .keeper import FENCINGS_MAX, Keeper
from .ladder import Ladder
from .loop import ROLE, RetryRouter


def build(settings: Settings) -> Cores:
    """The retry router on real Kafka."""
    clock, names, instance = SystemClock(), Names(settings.kafka.prefix), settings.instance_of(ROLE)
    bounds = settings.retry_router
    router = RetryRouter(
        open_log(settings, ROLE, patient=True),
        clock,
        names,
        instance,
        generation=settings.generation,
        open_runs_max=settings.open_runs_max,
        round_records=bounds.round_records,
        reconcile_every_s=bounds.reconcile_every_s,
    )
    keeper = Keeper(
        open_log(settings, ROLE),
        clock,
        names,
        instance,
        default_lease_s=settings.worker.lease_ttl_s,
        hands=ThreadPoolExecutor(FENCINGS_MAX, "fence"),
    )
    ladder = Ladder(open_log(settings, ROLE, patient=True), clock, names, instance)
    cores: dict[str, Ready] = {"router": router, "keeper": keeper, "ladder": ladder}
    return Cores(cores, configure_logging(ROLE, instance, level=settings.log_level))


if __name__ == "__main__":
    leave_after(lambda: run_role(ROLE, build))
