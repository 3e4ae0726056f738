"""Records of the inbox as commands: what cannot be read, or stands in a partition where it does not belong, is refused.

Also the seam around one command: whatever goes wrong while one is read or decided is a refusal of that record, so that
a bug of ours never stops a shard for ever. Faults of a backend and lost resources pass through.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import NamedTuple

import structlog

from waterclock.log.port import Record
from waterclock.model.errors import BackendDown, LostResource, RequestError, UndecodableRecord
from waterclock.model.ids import partition_of, split_job_id
from waterclock.model.job import Command, CommandKind
from waterclock.wire import codec
from waterclock.wire.framing import RECORD_MAX

from .shard import Shard

log_ = structlog.get_logger("dispatcher")

ROUND_BYTES = 4 * 1024 * 1024
"""Of commands in one round: a redrive brings up to a megabyte, most of it goes out twice, and every shard's fires wait
for the commit."""

WITHDRAWN_MAX = 2_000
"""Runs that wait and end with their jobs in one round of a shard, one job's at least: each is two records."""

_POLL_MAX = 500
_INBOX_MAX = 2_000
_INBOX_BYTES = 64 * 1024 * 1024
"""What waits in memory: so many commands of one shard, or so many bytes of all. The rest waits in the log."""


class Unreadable(NamedTuple):
    """A record that is no command of this shard, and why."""

    record: Record
    error: RequestError


@contextmanager
def one_at_a_time(record: Record) -> Iterator[None]:
    """The seam around one command: what is no refusal and no fault of a backend becomes a refusal of this record."""
    try:
        yield
    except (RequestError, BackendDown, LostResource):
        raise
    except Exception as bug:
        log_.exception("a command could not be decided", topic=record.topic, partition=record.partition,
                       offset=record.offset)  # fmt: skip
        raise RequestError(
            f"it could not be decided: {type(bug).__name__}", hint="This is a bug of Waterclock: report it"
        ) from bug


def room_of(shards: Collection[Shard]) -> int:
    """How many more records may be taken from the log now."""
    deepest = max((len(shard.inbox) for shard in shards), default=0)
    if deepest >= _INBOX_MAX:
        return 0
    if deepest * len(shards) * RECORD_MAX < _INBOX_BYTES:
        return _POLL_MAX
    waiting = sum(len(record.value or b"") for shard in shards for record in shard.inbox)
    return _POLL_MAX if waiting < _INBOX_BYTES else 0


def next_records(shard: Shard, most: int, shard_count: int) -> list[Record]:
    """What to apply next, one of so many shards: its share of what a round carries, one record at least."""
    room = ROUND_BYTES // shard_count
    records: list[Record] = []
    for record in islice(shard.inbox, most):
        room -= len(record.value or b"")
        if records and room < 0:
            break
        records.append(record)
    return records


class Taken(NamedTuple):
    """What one round applies: ``records`` are those of ``read``, the commands, and of ``refused``."""

    records: list[Record]
    read: list[tuple[Record, Command]]
    refused: list[Unreadable]


def read_all(shard: Shard, records: list[Record]) -> Taken:
    """The commands among ``records``, and those that are none that this shard may apply: as far as there is room for
    what deletes bring along."""
    read: list[tuple[Record, Command]] = []
    refused: list[Unreadable] = []
    room = WITHDRAWN_MAX
    for place, record in enumerate(records):
        try:
            with one_at_a_time(record):
                command = _read_one(shard, record)
        except RequestError as error:
            refused.append(Unreadable(record, error))
            continue
        room -= _withdraws(shard, command)
        if place and room < 0:
            return Taken(records[:place], read, refused)
        read.append((record, command))
    return Taken(records, read, refused)


def _withdraws(shard: Shard, command: Command) -> int:
    """How many runs wait of a job that it deletes."""
    job = shard.flow.jobs.get(command.job_id) if command.kind is CommandKind.DELETE else None
    return 0 if job is None else len(job.held)


def _read_one(shard: Shard, record: Record) -> Command:
    command = codec.decode_command(record.value or b"")
    split_job_id(command.job_id)
    if (record.key or b"") != command.job_id.encode():
        raise UndecodableRecord(f"the record's key is not the job id {command.job_id}", hint="Key by job id")
    if partition_of(command.job_id, 256) not in shard.slots:
        raise UndecodableRecord(
            f"{command.job_id} does not belong to partition {record.partition}",
            hint="Produce with partitioner=murmur2_random, or Java's default",
        )
    return command
