"""Sends one command to the shard owner, and waits until it is obeyed or refused.

Until there is an API the operator's commands append to ``commands`` themselves, after the same validation. Obeyed: the
job's row has come to this command's offset. Refused: ``rejects`` holds a record with its coordinates. Neither within
five seconds: the command stands in the log and will be obeyed once a dispatcher owns that shard; so it is said.
"""

from __future__ import annotations

import getpass
import time
import uuid
from typing import NamedTuple

from waterclock.clock import SystemClock
from waterclock.log.port import Isolation, Log, Reader, TopicPartition
from waterclock.model.errors import Conflict, NotFound, RequestError, UndecodableRecord
from waterclock.model.ids import Instant, ordinal, partition_of
from waterclock.model.job import Command, CommandKind, JobSpec
from waterclock.model.sources import check_sources, sources_of
from waterclock.settings import Settings
from waterclock.store.port import JobRow, Reading
from waterclock.wire.codec import decode_reject
from waterclock.wire.messages import command_message
from waterclock.wire.names import Names

from .failing import CommandFailed, ExitCode

APPLIED_WITHIN_S = 5.0
_FLUSH_S = 10.0
_LOOK_AGAIN_S = 0.05


class Obeyed(NamedTuple):
    """A command that was applied: the job's row since, and the revision number that the command has."""

    row: JobRow
    revision: int
    offset: int


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
    """Append ``command`` and wait. Raises what it was refused with, or CommandFailed when nobody obeys in time."""
    names = Names(settings.kafka.prefix)
    partition = partition_of(command.job_id, log.partitions(names.commands))
    rejects = TopicPartition(names.rejects, partition)
    refusals = log.reader(Isolation.COMMITTED)
    refusals.assign({rejects: log.high_watermark(rejects)})
    try:
        place = TopicPartition(names.commands, partition)
        offset = _append(log, names, command, partition)
        return _await(settings, store, refusals, command, place, offset)
    finally:
        refusals.close()


def _append(log: Log, names: Names, command: Command, partition: int) -> int:
    appender = log.appender()
    try:
        ticket = appender.append(command_message(names, command)._replace(partition=partition))
        appender.flush(_FLUSH_S)
    finally:
        appender.close()
    assert ticket.offset is not None, "flushed, so it was reported"
    return ticket.offset


def _await(
    settings: Settings, store: Reading, refusals: Reader, command: Command, place: TopicPartition, offset: int
) -> Obeyed:
    give_up_at = time.monotonic() + APPLIED_WITHIN_S
    while time.monotonic() < give_up_at:
        row = store.job(command.job_id)
        if row is not None and row.src_partition == place.partition and row.src_offset >= offset:
            return Obeyed(row, ordinal(settings.generation, offset), offset)
        _raise_refusal(refusals, place, offset)
    raise CommandFailed(
        f"The command stands at {place.topic}[{place.partition}]@{offset}, but nobody obeyed it within "
        f"{APPLIED_WITHIN_S:.0f} s",
        hint="No dispatcher may own that partition: look with `waterclock status` and `waterclock lag`. "
        "The command will be obeyed once one does: do not repeat it",
        exit_code=ExitCode.TIMEOUT,
    )


def _raise_refusal(refusals: Reader, place: TopicPartition, offset: int) -> None:
    """Raise what stands on ``rejects`` for our command, as the kind of error that it was."""
    for record in refusals.poll(100, _LOOK_AGAIN_S):
        try:
            reject = decode_reject(record.value or b"")
        except UndecodableRecord:
            continue
        source = reject.source
        if (source.topic, source.partition, source.offset) == (place.topic, place.partition, offset):
            kind = {"/job_id": NotFound, "/expected_revision": Conflict}.get(reject.pointer, RequestError)
            raise kind(reject.reason, pointer=reject.pointer, hint=reject.hint)


def user_name() -> str:
    """Who sits at this terminal."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"
