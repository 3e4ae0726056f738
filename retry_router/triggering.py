"""What the end of a run starts: one TRIGGER for each job that waits for such an end. Pure.

What must hold: the command's id follows from the end alone, so that whoever sends it again sends the same (the shard
owner knows it by that). An end is told once, in the round that advances past it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from waterclock.log.port import TopicPartition
from waterclock.model.events import Reject, RunStatus, SourceRecord
from waterclock.model.ids import Instant, job_id_beside
from waterclock.model.job import Command, CommandKind
from waterclock.model.triggers import HOPS_MAX, JobTriggers, RunEnds

ACTOR = "trigger"
_NAMED_MAX = 5

LISTENERS_MAX = 1_000
"""Jobs that one end starts: of those whose conditions it meets, who has waited longest. The others are told of."""

_LOOKS_PER_START = 20


class RunEnd(NamedTuple):
    """A run that has ended so, ``at``, by the clock of whoever said so. ``hops``: see ``Cause``.

    The event that says so is that at ``offset`` of ``partition``.
    """

    run_id: str
    job_id: str
    status: RunStatus
    at: Instant
    hops: int
    partition: TopicPartition
    offset: int


def waits_for(standing: JobTriggers) -> dict[str, Instant]:
    """By job, since when one of its ends starts this one."""
    found: dict[str, Instant] = {}
    for each, since in zip(standing.on.conditions, standing.on.since, strict=False):
        if isinstance(each, RunEnds):
            source = job_id_beside(standing.job_id, each.job)
            found[source] = min(since, found.get(source, since))
    return found


def weight(waiting: int) -> int:
    """What an end that so many wait for costs of a round, in starts: of very many the looking alone takes its time."""
    return min(waiting, LISTENERS_MAX) + max(0, waiting - LISTENERS_MAX) // _LOOKS_PER_START


def untold(end: RunEnd, left_out: Sequence[str], now: Instant) -> Reject:
    """The word about jobs that wait for this end and are not started by it."""
    named = ", ".join(left_out[:_NAMED_MAX])
    place = SourceRecord(end.partition.topic, end.partition.partition, end.offset, end.job_id.encode(), None, ())
    message = f"{end.run_id} ended, and {len(left_out)} jobs that wait for that are not started by it, such as {named}"
    hint = f"One end starts the {LISTENERS_MAX} jobs that have waited for it longest: let the others wait for these"
    return Reject("retry-router", message, "/on", hint, now, place)


def met_by(end: RunEnd, listeners: Iterable[JobTriggers]) -> list[JobTriggers]:
    """Those of whose conditions an end meets one."""
    name = end.job_id.partition(":")[2]  # unchecked: whatever stands in the log must not stop the router
    return [listener for listener in listeners if listener.on.met_by(name, end.status, end.at)]


def started_by(end: RunEnd, met: Sequence[JobTriggers], ring: Collection[str], now: Instant) -> Iterator[Command]:
    """The commands that follow from an end. ``ring``: whose ends lead back to its job.

    Each of these counts for as many hops as there are of them. So the chains of one beginning, in its ring, are some
    hundreds, and not 16 to the 16th: where ``n`` are started ``n`` hops are gone, and no ``n ** (16 / n)`` is larger.
    """
    in_ring = sum(listener.job_id in ring for listener in met)
    for listener in met:
        yield Command(
            CommandKind.TRIGGER,
            listener.job_id,
            command_id=f"{end.run_id}/{end.status.name.lower()}",
            actor=ACTOR,
            at=now,
            triggered_by=end.run_id,
            hops=end.hops + (min(in_ring, HOPS_MAX) if listener.job_id in ring else 1),
            ended=end.status.name.lower(),
            ended_at=end.at,
            gathers=listener.on.within_us > 0,
        )
