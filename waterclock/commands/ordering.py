"""Sends one command about a job to the shard owner, and reads how the job stands once it is obeyed.

The operator's commands append to ``commands`` themselves, after the same validation as the API's, and wait for their
answer (``passing.py``).
"""

from __future__ import annotations

import uuid
from typing import NamedTuple

from waterclock.clock import SystemClock
from waterclock.log.port import Log
from waterclock.model.errors import BackendDown, NotFound
from waterclock.model.events import CommandVerdict
from waterclock.model.ids import Instant
from waterclock.model.job import Command, CommandKind, JobSpec
from waterclock.model.sources import check_sources, sources_of
from waterclock.settings import Settings
from waterclock.store.port import JobRow, Reading
from waterclock.wire.names import Names

from .failing import CommandFailed, ExitCode
from .passing import pass_one, user_name


class Obeyed(NamedTuple):
    """A command that was obeyed: the job's row since. ``was_so``: it stood so already, and nothing has changed."""

    row: JobRow
    was_so: bool


def command_for(
    kind: CommandKind,
    job_id: str,
    *,
    spec: JobSpec | None = None,
    payload: bytes | None = None,
    expected_revision: int = 0,
    note: str = "",
    resume_at: Instant = 0,
    to_revision: int = 0,
) -> Command:
    """A command of the person at this terminal."""
    return Command(
        kind=kind,
        job_id=job_id,
        command_id=uuid.uuid4().hex,
        actor=f"cli:{user_name()}",
        at=SystemClock().now(),
        expected_revision=expected_revision,
        spec=spec,
        payload=payload,
        note=note,
        resume_at=resume_at,
        to_revision=to_revision,
    )


def check_pool(settings: Settings, log: Log, spec: JobSpec, job_id: str = "") -> None:
    """Refuse a pool without topics: its work would have nowhere to go; and conditions on records that nobody hears of.
    Raises NotFound, RequestError."""
    check_sources(sources_of(settings.intake.sources), job_id or f"{settings.tenant}:job", spec.on)
    try:
        log.partitions(Names(settings.kafka.prefix).runs(spec.tier, spec.pool))
    except NotFound:
        raise NotFound(
            f"There is no pool {spec.pool!r}: it has no topics",
            pointer="/pool",
            hint="Add it to `pools` in waterclock.toml (or WATERCLOCK_POOLS) and run `waterclock up`",
        ) from None


def order(settings: Settings, log: Log, store: Reading, command: Command) -> Obeyed:
    """Send ``command`` and wait. The row is read after the answer: whoever obeys writes it first.

    Raises what it was refused with, CommandFailed when nobody answers in time or the row cannot be read, BackendDown
    when it was not sent.
    """
    answer = pass_one(settings, log, command)
    try:
        row = store.job(command.job_id)
    except BackendDown as down:
        raise CommandFailed(
            f"The command was obeyed, and how the job {command.job_id} stands now cannot be read: {down}",
            hint=f"Do not repeat it: waterclock job show {command.job_id}, once Cassandra answers",
            exit_code=ExitCode.TIMEOUT,
        ) from None
    if row is None:
        raise NotFound(f"The command was obeyed, and since then the job {command.job_id} is gone")
    return Obeyed(row, was_so=answer.verdict == CommandVerdict.UNCHANGED)
