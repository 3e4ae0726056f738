"""What the end of a run starts: one TRIGGER for each job that waits for such an end. Pure.

What must hold: the command's id follows from the end alone, so that whoever sends it again sends the same (the shard
owner knows it by that). An end is told once, in the round that advances past it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from waterclock.model.events import RunStatus
from waterclock.model.ids import Instant
from waterclock.model.job import Command, CommandKind
from waterclock.model.triggers import JobTriggers

ACTOR = "trigger"


class RunEnd(NamedTuple):
    """A run that has ended so, ``at``, by the clock of whoever said so. ``hops``: see ``Cause``."""

    run_id: str
    job_id: str
    status: RunStatus
    at: Instant
    hops: int


def started_by(end: RunEnd, listeners: Iterable[JobTriggers], now: Instant) -> Iterator[Command]:
    """The commands that follow from an end."""
    name = end.job_id.partition(":")[2]  # unchecked: whatever stands in the log must not stop the router
    for listener in listeners:
        if listener.on.met_by(name, end.status, end.at):
            yield Command(
                CommandKind.TRIGGER,
                listener.job_id,
                command_id=f"{end.run_id}/{end.status.name.lower()}",
                actor=ACTOR,
                at=now,
                triggered_by=end.run_id,
                hops=end.hops + 1,
            )
