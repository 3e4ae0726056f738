"""Is the worker of a RUNNING run dead? Judged from the log, without a lease keeper.

Dead are (design §7): a worker whose incarnation has a newer HELLO or a FENCED behind it on ``leases``; and one from
which no beat came on ``heartbeats`` for one lease. The incarnation is the one that the run's STARTED names; that
record is found by the fencing token, which is its offset. The judgement is for a person: it reads the wall clock, and
decides nothing.
"""

from __future__ import annotations

from typing import NamedTuple

from waterclock.log.port import Isolation, Log, TopicPartition
from waterclock.log.reading import read_range
from waterclock.model.errors import UndecodableRecord
from waterclock.model.events import EventKind, LeaseKind, RunEvent
from waterclock.model.ids import US_PER_S, Instant, offset_of, partition_of
from waterclock.model.time_text import format_rfc3339
from waterclock.store.port import RunRow
from waterclock.wire.codec import decode_event, decode_heartbeat, decode_lease
from waterclock.wire.names import Names

_BEATS_PER_LEASE_MARGIN_S = 1.0


class Liveness(NamedTuple):
    """``alive`` is False where the worker is known dead; ``why`` is a sentence for a person."""

    alive: bool
    why: str


def judge(log: Log, names: Names, run: RunRow, *, lease_ttl_s: float, now: Instant) -> Liveness:
    """Whether the worker that holds ``run`` lives. Raises BackendDown."""
    started = _started(log, names, run)
    if started is None:
        return Liveness(True, "its STARTED record is no longer kept, or none: nothing is known of its worker")
    killed = _killed(log, names, started)
    if killed:
        return Liveness(False, killed)
    window_us = int((lease_ttl_s + _BEATS_PER_LEASE_MARGIN_S) * US_PER_S)
    newest = _newest_beat(log, names, started, now - window_us)
    if newest is None:
        return Liveness(False, f"no beat of {started.worker} came for one lease ({lease_ttl_s:g} s)")
    return Liveness(True, f"{started.worker} is alive: its newest beat is {(now - newest) / US_PER_S:.1f} s old")


def _started(log: Log, names: Names, run: RunRow) -> RunEvent | None:
    """The accepted STARTED: the record at the offset that the fencing token carries; None where that is none."""
    partition = TopicPartition(names.run_events, partition_of(run.job_id, log.partitions(names.run_events)))
    offset = offset_of(run.fence)
    if offset < log.low_watermark(partition):
        return None
    for record in read_range(log, Isolation.COMMITTED, partition, offset, offset + 1):
        try:
            event = decode_event(record.value or b"")
        except UndecodableRecord:
            return None
        return event if event.kind is EventKind.STARTED else None
    return None


def _killed(log: Log, names: Names, started: RunEvent) -> str:
    """Why this incarnation is dead on ``leases``, or ""."""
    partition = TopicPartition(names.leases, partition_of(started.worker, log.partitions(names.leases)))
    end = log.high_watermark(partition)
    verdict = ""
    for record in read_range(log, Isolation.COMMITTED, partition, log.low_watermark(partition), end):
        if record.key != started.worker.encode() or record.offset <= started.incarnation or record.value is None:
            continue
        try:
            lease = decode_lease(record.value)
        except UndecodableRecord:
            continue
        at = format_rfc3339(lease.at)
        if lease.kind is LeaseKind.HELLO:
            verdict = f"{started.worker} was started anew at {at}; the process that held this run is gone"
        elif lease.kind is LeaseKind.FENCED:
            verdict = f"{started.worker} was fenced at {at} by {lease.by}"
    return verdict


def _newest_beat(log: Log, names: Names, started: RunEvent, since: Instant) -> Instant | None:
    """When the newest beat of this incarnation arrived, if one did after ``since``."""
    partition = TopicPartition(names.heartbeats, partition_of(started.worker, log.partitions(names.heartbeats)))
    end = log.high_watermark(partition)
    newest = None
    for record in read_range(log, Isolation.COMMITTED, partition, log.offset_at(partition, since), end):
        if record.key != started.worker.encode() or record.value is None:
            continue
        try:
            beat = decode_heartbeat(record.value)
        except UndecodableRecord:
            continue
        if beat.incarnation == started.incarnation:
            newest = record.timestamp_us
    return newest
