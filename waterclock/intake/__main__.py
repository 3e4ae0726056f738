"""Wires an intake to the real ports and turns it: ``python -m waterclock.intake``."""

from __future__ import annotations

import os

from waterclock.clock import Clock, SystemClock
from waterclock.log.kafka_registry import KafkaRegistry
from waterclock.process import open_log, run_role
from waterclock.settings import Settings
from waterclock.wire.names import Names
from waterclock.wire.pools import Pools

from .confluent import NoRegistry, RegistryWriters
from .judge import Judge
from .loop import ROLE, Intake
from .parse import Writers


def build(settings: Settings) -> Intake:
    """An intake on real Kafka."""
    log, clock, names = open_log(settings, ROLE), SystemClock(), Names(settings.kafka.prefix)
    tenants = {names.job_events: "default"} | settings.intake.tenants
    return Intake(
        log,
        clock,
        names,
        settings.instance_of(ROLE),
        Judge(names, clock, writers_of(settings, clock), Pools(log, names, clock), tenants),
        tenants=tenants,
        round_records=settings.intake.round_records,
    )


def writers_of(settings: Settings, clock: Clock) -> Writers:
    """The registry that is set, asked when it is first needed; or none."""
    url = settings.intake.registry_url or os.environ.get("SCHEMA_REGISTRY_URL", "")
    client = settings.intake.registry
    return RegistryWriters(lambda: KafkaRegistry(url, client), clock) if url else NoRegistry()


if __name__ == "__main__":
    run_role(ROLE, build)
