"""Wires an intake to the real ports and turns it: ``python -m waterclock.intake``."""

from __future__ import annotations

from waterclock.clock import SystemClock
from waterclock.leaving import leave_after
from waterclock.process import open_log, run_role
from waterclock.settings import Settings
from waterclock.wire.names import Names
from waterclock.wire.pools import Pools

from .judge import Judge
from .loop import ROLE, Intake
from .writers import writers_of


def build(settings: Settings) -> Intake:
    """An intake on real Kafka."""
    log, clock, names = open_log(settings, ROLE), SystemClock(), Names(settings.kafka.prefix)
    tenants = settings.ingress(names.job_events)
    return Intake(
        log,
        clock,
        names,
        settings.instance_of(ROLE),
        Judge(names, clock, writers_of(settings, clock), Pools(log, names, clock), tenants),
        tenants=tenants,
        round_records=settings.intake.round_records,
    )


if __name__ == "__main__":
    leave_after(lambda: run_role(ROLE, build))
