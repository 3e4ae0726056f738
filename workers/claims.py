"""From a record on a tier topic to a claim: the attempt, and the STARTED event that makes it ours.

What must hold: every record taken becomes either a claim or a reject, so that the round which advances past it loses
nothing. A reject carries the bytes and headers as they were received; headers are read back for it, because the hot
path does not read them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from waterclock.log.port import Isolation, Log, Outgoing, Record, TopicPartition
from waterclock.log.reading import read_range
from waterclock.model.errors import UndecodableRecord
from waterclock.model.events import EventKind, Reject, RunEvent, SourceRecord, Started
from waterclock.model.ids import Instant
from waterclock.wire.fit_work import fit_work
from waterclock.wire.messages import reject_message
from waterclock.wire.names import Names

from .executors.port import Attempt


class Refused(NamedTuple):
    """A record that is no work of ours, and why."""

    record: Record
    error: UndecodableRecord


def judge(records: Iterable[Record], now: Instant) -> tuple[list[tuple[Attempt, Record]], list[Refused]]:
    """(what can be claimed, what must be refused), in order."""
    claims: list[tuple[Attempt, Record]] = []
    refused: list[Refused] = []
    for record in records:
        value = record.value
        try:
            if value is None:
                raise UndecodableRecord("a record without a value on a work topic")
            claims.append((Attempt(fit_work(value), now, 0, record.timestamp_us), record))
        except UndecodableRecord as error:
            refused.append(Refused(record, error))
    return claims, refused


def started_event(attempt: Attempt, record: Record, worker: str, incarnation: int) -> RunEvent:
    """The claim itself. Its token is the offset that it will get."""
    work = attempt.work
    place = Started(record.topic, record.partition, record.offset)
    claim = (EventKind.STARTED, work.job_id, work.run_id, attempt.started_at, work.attempt, worker, incarnation)
    return RunEvent(*claim, 0, "", place)


def reject_messages(log: Log, names: Names, refused: Sequence[Refused], now: Instant) -> list[Outgoing]:
    """A reject for each, with its headers. Reads each partition once. Raises BackendDown."""
    offsets: dict[TopicPartition, list[int]] = {}
    for record, _ in refused:
        offsets.setdefault(TopicPartition(record.topic, record.partition), []).append(record.offset)
    whole: dict[tuple[str, int, int], Record] = {}
    for partition, wanted in offsets.items():
        for record in read_range(log, Isolation.COMMITTED, partition, min(wanted), max(wanted) + 1, headers=True):
            whole[record.topic, record.partition, record.offset] = record
    return [
        _reject_message(names, whole.get((record.topic, record.partition, record.offset), record), error, now)
        for record, error in refused
    ]


def _reject_message(names: Names, record: Record, error: UndecodableRecord, now: Instant) -> Outgoing:
    source = SourceRecord(record.topic, record.partition, record.offset, record.key, record.value, record.headers)
    return reject_message(names, Reject("worker", error.message, error.pointer, error.hint, now, source))
