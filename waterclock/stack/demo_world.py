"""The small living world of the demo: each job is one kind of schedule, lane or ending, and knows how it should end.

Loaded as everybody loads jobs: by commands on the log. What must hold: loading it again, over the data of an earlier
demo, gives the same jobs (the one-off gets a new instant, the trigger comes once more).
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any, NamedTuple

from waterclock.log.port import Log
from waterclock.model.document import spec_from_document
from waterclock.model.events import Origin, RunStatus
from waterclock.model.ids import US_PER_S, Instant, make_job_id
from waterclock.model.job import Command, CommandKind
from waterclock.model.time_text import format_rfc3339
from waterclock.wire.messages import command_message
from waterclock.wire.names import Names

_ONE_OFF_IN_S = 5
_FLUSH_S = 10.0
_ACTOR = "demo"


class Kind(NamedTuple):
    """One thing that the demo shows, and the job that shows it.

    ``ends``: the status that its runs should end with. ``origin``: what makes the run that counts.
    """

    name: str
    shows: str
    document: dict[str, Any]
    ends: RunStatus = RunStatus.SUCCEEDED
    origin: Origin = Origin.SCHEDULE


def kinds(now: Instant) -> tuple[Kind, ...]:
    """The world, as of ``now``: the one-off fires five seconds later."""
    soon = format_rfc3339(now - now % US_PER_S + _ONE_OFF_IN_S * US_PER_S)
    return (
        Kind("pulse", "every 2 s, tier high", {"handler": "demo.ping", "every": "2s", "tier": "high"}),
        Kind(
            "tick",
            "every 5 s, tier medium",
            {"handler": "demo.echo", "every": "5s", "tier": "medium", "payload": {"hello": "world"}},
        ),
        Kind(
            "digest",
            "every 10 s, tier low, takes 1.5 s",
            {"handler": "demo.sleep", "every": "10s", "tier": "low", "payload": 1.5},
        ),
        Kind("minutely", "cron, each minute", {"handler": "demo.ping", "cron": "* * * * *", "tier": "medium"}),
        Kind("welcome", "one-off", {"handler": "demo.echo", "at": soon, "tier": "high", "payload": "welcome"}),
        Kind(
            "on-demand",
            "triggered by hand",
            {"handler": "demo.echo", "cron": "0 9 * * 1-5", "zone": "Europe/Berlin", "tier": "high", "payload": "now"},
            origin=Origin.TRIGGER,
        ),
        Kind(
            "broken",
            "fails: FAILED, with a dead letter",
            {"handler": "demo.fail", "every": "15s", "tier": "medium"},
            ends=RunStatus.FAILED,
        ),
    )


def load(log: Log, names: Names, tenant: str, world: Sequence[Kind], now: Instant) -> None:
    """Define the jobs, and trigger the one that waits for it. Raises BackendDown."""
    appender = log.appender()
    try:
        for kind in world:
            for command in _commands(tenant, kind, now):
                appender.append(command_message(names, command))
        appender.flush(_FLUSH_S)
    finally:
        appender.close()


def _commands(tenant: str, kind: Kind, now: Instant) -> list[Command]:
    """In one partition, so in this order."""
    job_id = make_job_id(tenant, kind.name)
    spec = spec_from_document(kind.document, job_id=job_id)
    create = Command(CommandKind.CREATE, job_id, uuid.uuid4().hex, _ACTOR, now, spec=spec)
    if kind.origin is not Origin.TRIGGER:
        return [create]
    return [create, Command(CommandKind.TRIGGER, job_id, uuid.uuid4().hex, _ACTOR, now)]
