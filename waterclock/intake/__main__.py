"""Wires an intake to the real ports and turns it: ``python -m waterclock.intake``."""

from __future__ import annotations

from waterclock.clock import SystemClock
from waterclock.cores import Cores
from waterclock.leaving import leave_after
from waterclock.model.sources import sources_of
from waterclock.process import Ready, open_log, run_role
from waterclock.settings import Settings
from waterclock.telemetry import configure_logging
from waterclock.wire.names import Names
from waterclock.wire.pools import Pools

from .judge import Judge
from .loop import ROLE, Intake
from .topic_listener import TopicListener
from .writers import writers_of


def build(settings: Settings) -> Cores:
    """An intake on real Kafka; where topics may start jobs, with the listener to these beside it."""
    log, clock, names = open_log(settings, ROLE), SystemClock(), Names(settings.kafka.prefix)
    tenants, instance = settings.ingress(names.job_events), settings.instance_of(ROLE)
    sources = sources_of(settings.intake.sources)
    judge = Judge(names, clock, writers_of(settings, clock), Pools(log, names, clock), tenants, sources)
    bound = settings.intake.round_records
    cores: dict[str, Ready] = {
        "events": Intake(log, clock, names, instance, judge, tenants=tenants, round_records=bound)
    }
    if sources:
        begins_at_end = settings.intake.sources_begin == "end"
        own = open_log(settings, ROLE)
        cores["sources"] = TopicListener(
            own, clock, names, instance, sources, begins_at_end=begins_at_end, round_records=bound
        )
    return Cores(cores, configure_logging(ROLE, instance, level=settings.log_level))


if __name__ == "__main__":
    leave_after(lambda: run_role(ROLE, build))
