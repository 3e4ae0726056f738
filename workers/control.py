"""The tail of ``control``: which runs were cancelled or have expired, told to workers before it is told to the log.

Why every worker reads all of it: a cancel may come long before the work record is claimed, and whoever claims it must
know. What is found here decides nothing by itself (design §7): the worker reads its own STARTED back through the
reducer, and that decides.

What must hold: all of ``control`` that is kept was read before the first claim; every run that was named is remembered,
or, past ``KNOWN_MAX`` of them, up to which instant some were forgotten: a claim that might be of one of those is read
back too. Records of a later release are passed over and counted.

How it fails: BackendDown where the log does not answer; somebody's open transaction holds the position back;
LostResource where records were removed before they were read: the next look begins with what is left, as a new worker
does. What is gone spoke of runs whose work is gone as well: ``control`` is kept for a week longer, for work leaves with
its segment and not at its own time.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from waterclock.log.port import Isolation, Log, Record, TopicPartition
from waterclock.model.errors import BackendDown, LostResource, UndecodableRecord
from waterclock.model.events import Control, ControlKind
from waterclock.model.ids import US_PER_S, Instant, partition_of
from waterclock.wire.codec import decode_control

from .executors.port import Attempt

KNOWN_MAX = 200_000
"""Runs that are remembered: the newest ones, about 200 bytes each."""

_SOME_HOURS_US = 2 * 3_600 * US_PER_S
"""So long before anything was said of a run somebody may have named it: by its instant, or by another's clock."""

_BATCH = 1_000
_WAIT_S = 0.1
_IDLE_POLLS_MAX = 100


class ControlTail:
    """Reads every partition of ``control``, committed records only, without a group."""

    def __init__(self, log: Log, topic: str) -> None:
        self._log = log
        self._topic = topic
        self._partitions = [TopicPartition(topic, number) for number in range(log.partitions(topic))]
        self._reader = log.reader(Isolation.COMMITTED)
        self._is_lost = False
        """Where it stood is not in the log: a real client says so once, and delivers nothing until it begins anew."""
        self.beginnings = 0
        """How often it began: an end that was asked for before the last of them may be that of a topic that is gone."""
        self._begin()
        # Oldest first. Not a dict: the oldest of one is found by passing over all that was forgotten before it.
        self._known: OrderedDict[str, Instant] = OrderedDict()
        self._hard: set[str] = set()
        self._forgotten_to: Instant = -1
        self.passed_over_count = 0

    def catch_up(self) -> None:
        """Read to the end as of now; of polls of 0.1 s 100 may bring nothing. Raises BackendDown, LostResource."""
        ends = {partition: self._log.high_watermark(partition) for partition in self._partitions}
        if self._is_lost or any(self._reader.position(partition) > end for partition, end in ends.items()):
            self._begin()  # beyond its end nobody stands in a topic that was not made anew
        idle = 0
        while any(self._reader.position(partition) < end for partition, end in ends.items()):
            records = self._polled(_WAIT_S)
            idle = 0 if records else idle + 1
            if idle > _IDLE_POLLS_MAX:
                raise BackendDown("kafka", f"{self._topic} stopped before its end")
            self._read(records)

    def look(self) -> dict[str, Instant]:
        """Read on without waiting; answers the ids of the runs that were named, and the stamp of the first record that
        did. Raises BackendDown, LostResource."""
        records = self._polled(0.0)
        return self._read(records) if records else {}

    def names(self, attempt: Attempt) -> bool:
        """Whether its run, or its DagRun, was named; or may have been, among those that were forgotten."""
        if not self._known:
            return False
        run_id = attempt.work.run_id
        if run_id in self._known or (run_id.find("/") >= 0 and run_id.partition("/")[0] in self._known):
            return True
        return attempt.begun_at - _SOME_HOURS_US <= self._forgotten_to

    def is_hard(self, attempt: Attempt) -> bool:
        """Whether its run is to be stopped by force, without a grace."""
        run_id = attempt.work.run_id
        return run_id in self._hard or run_id.partition("/")[0] in self._hard

    def partition_of(self, attempt: Attempt) -> TopicPartition:
        """Where a cancel of this attempt's run would stand."""
        return self._partitions[partition_of(attempt.work.job_id, len(self._partitions))]

    def end_of(self, partition: TopicPartition) -> int:
        """The high watermark, open transactions included. Raises BackendDown."""
        return self._log.high_watermark(partition)

    def position(self, partition: TopicPartition) -> int:
        """Everything below it was read."""
        return self._reader.position(partition)

    def close(self) -> None:
        """Stop reading."""
        self._reader.close()

    def _begin(self) -> None:
        self._is_lost = True
        self._reader.assign({partition: self._log.low_watermark(partition) for partition in self._partitions})
        self._is_lost = False
        self.beginnings += 1

    def _polled(self, wait_s: float) -> Sequence[Record]:
        if self._is_lost:
            self._begin()
        try:
            return self._reader.poll(_BATCH, wait_s)
        except LostResource:
            self._is_lost = True
            raise

    def _read(self, records: Sequence[Record]) -> dict[str, Instant]:
        named: dict[str, Instant] = {}
        for record in records:
            control = _decoded(record)
            if control is None:
                self.passed_over_count += 1
                continue
            named.setdefault(control.run_id, record.timestamp_us)
            self._known[control.run_id] = record.timestamp_us
            self._known.move_to_end(control.run_id)
            if control.hard:
                self._hard.add(control.run_id)
        while len(self._known) > KNOWN_MAX:
            oldest, named_at = self._known.popitem(last=False)
            self._forgotten_to = max(self._forgotten_to, named_at)
            self._hard.discard(oldest)
        return named


def _decoded(record: Record) -> Control | None:
    if record.value is None:
        return None
    try:
        control = decode_control(record.value)
    except UndecodableRecord:
        return None
    return None if control.kind is ControlKind.UNKNOWN else control
