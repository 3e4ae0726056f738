"""Wires the DAG engine to the real ports and turns it: ``python -m waterclock.dag_engine``."""

from __future__ import annotations

from waterclock.clock import SystemClock
from waterclock.leaving import leave_after
from waterclock.process import open_log, run_role
from waterclock.settings import Settings
from waterclock.store.opening import open_store
from waterclock.wire.names import Names

from .loop import ROLE, DagEngine


def build(settings: Settings) -> DagEngine:
    """A DAG engine on real Kafka and Cassandra."""
    return DagEngine(
        open_log(settings, ROLE),
        open_store(settings),
        SystemClock(),
        Names(settings.kafka.prefix),
        settings.instance_of(ROLE),
        generation=settings.generation,
    )


if __name__ == "__main__":
    leave_after(lambda: run_role(ROLE, build))
