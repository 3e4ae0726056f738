"""Wires a recorder to the real ports and turns it: ``python -m waterclock.recorder``."""

from __future__ import annotations

from waterclock.beside import Beside
from waterclock.clock import SystemClock
from waterclock.leaving import leave_after
from waterclock.log.port import Log
from waterclock.model.errors import AccessRefused
from waterclock.model.ids import Instant
from waterclock.process import open_log, run_role
from waterclock.serving import who_serves
from waterclock.settings import Settings
from waterclock.store.opening import store_to_build_on
from waterclock.wire.names import Names

from .loop import ROLE, Recorder
from .overdue import OverdueWatch
from .run_logs import RunLogs
from .running_ledger import RunningLedger
from .stuck_watch import StuckWatch
from .writing_thread import WritingThread

_REST_S = 0.05


def build(settings: Settings) -> Beside:
    """A recorder on real Kafka and Cassandra: history, beside it the lines of attempts, and the check of the books."""
    names, clock, instance = Names(settings.kafka.prefix), SystemClock(), settings.instance_of(ROLE)
    with store_to_build_on(settings) as store:
        in_flight = settings.recorder.writes_in_flight
        history = Recorder(
            open_log(settings, ROLE, patient=True),
            WritingThread(store, clock, waiting_max=2 * in_flight),
            clock,
            names,
            instance,
            generation=settings.generation,
            open_runs_max=settings.open_runs_max,
            batch_records=settings.recorder.batch_records,
            writes_in_flight=in_flight,
        )
        lines = RunLogs(open_log(settings, ROLE, patient=True), store, clock, names, instance)
        log = open_log(settings, ROLE, patient=True)
        ledger = RunningLedger(
            log,
            store,
            clock,
            names,
            lambda: history.shards,
            generation=settings.generation,
        )
        overdue = OverdueWatch(store, clock, log.partitions(names.run_events), lambda: history.shards)
        beside = Beside(Beside(history, lines), ledger, name="running-ledger", rest_s=_REST_S)
        beside = Beside(beside, overdue, name="overdue-watch", rest_s=_REST_S)
        beats = open_log(settings, ROLE, patient=True)

        def serving() -> frozenset[str] | None:
            return pools_served(beats, names, lease_ttl_s=settings.worker.lease_ttl_s, now=clock.now())

        return Beside(beside, StuckWatch(store, clock, history, serving), name="stuck-watch", rest_s=_REST_S)


def pools_served(log: Log, names: Names, *, lease_ttl_s: float, now: Instant) -> frozenset[str] | None:
    """The pools that have a worker; None where we may not read the beats, which no look is given up for.

    Raises BackendDown.
    """
    try:
        found = who_serves(log, names, lease_ttl_s=lease_ttl_s, now=now)
    except AccessRefused:
        return None
    return frozenset(pool for pool, served in found.items() if served.workers)


if __name__ == "__main__":
    leave_after(lambda: run_role(ROLE, build, niceness=10))
