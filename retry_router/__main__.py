"""Wires a retry router to the real ports and turns it: ``python -m waterclock.retry_router``."""

from __future__ import annotations

from waterclock.clock import SystemClock
from waterclock.process import open_log, run_role
from waterclock.settings import Settings
from waterclock.wire.names import Names

from .loop import ROLE, RetryRouter


def build(settings: Settings) -> RetryRouter:
    """A retry router on real Kafka."""
    return RetryRouter(
        open_log(settings, ROLE, patient=True),
        SystemClock(),
        Names(settings.kafka.prefix),
        settings.instance_of(ROLE),
        generation=settings.generation,
        round_records=settings.retry_router.round_records,
    )


if __name__ == "__main__":
    run_role(ROLE, build, niceness=5)
