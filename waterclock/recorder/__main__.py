"""Wires a recorder to the real ports and turns it: ``python -m waterclock.recorder``."""

from __future__ import annotations

from waterclock.clock import SystemClock
from waterclock.process import open_log, open_store, run_role
from waterclock.settings import Settings
from waterclock.wire.names import Names

from .loop import ROLE, Recorder


def build(settings: Settings) -> Recorder:
    """A recorder on real Kafka and Cassandra."""
    return Recorder(
        open_log(settings, ROLE, patient=True),
        open_store(settings),
        SystemClock(),
        Names(settings.kafka.prefix),
        settings.instance_of(ROLE),
        generation=settings.generation,
        batch_records=settings.recorder.batch_records,
        writes_in_flight=settings.recorder.writes_in_flight,
    )


if __name__ == "__main__":
    run_role(ROLE, build, niceness=10)
