"""Wires the DAG engine to the real ports and turns it: ``python -m waterclock.dag_engine``."""

from __future__ import annotations

from waterclock.beside import Beside
from waterclock.clock import SystemClock
from waterclock.leaving import leave_after
from waterclock.process import open_log, run_role
from waterclock.settings import Settings
from waterclock.store.opening import open_store
from waterclock.wire.names import Names

from .loop import ROLE, DagEngine
from .told import Telling

_REST_S = 0.5


def build(settings: Settings) -> Beside:
    """A DAG engine on real Kafka and Cassandra, and beside it what it tells people."""
    store, clock = open_store(settings), SystemClock()
    engine = DagEngine(
        open_log(settings, ROLE),
        store,
        clock,
        Names(settings.kafka.prefix),
        settings.instance_of(ROLE),
        generation=settings.generation,
        open_runs_max=settings.open_runs_max,
    )
    return Beside(engine, Telling(store, clock, engine.figures), name="telling", rest_s=_REST_S)


if __name__ == "__main__":
    leave_after(lambda: run_role(ROLE, build))
