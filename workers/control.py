"""The tail of ``control``: what every worker must have read before its first claim, and keeps reading.

Nobody writes to ``control`` before cancels and time-outs exist, and nothing is acted upon here yet: the tail is in
place so that a worker of this release already stands where a cancel must be seen. Records of kinds it does not know
are passed over and counted.
"""

from __future__ import annotations

from collections.abc import Sequence

from waterclock.log.port import Isolation, Log, Record, TopicPartition
from waterclock.model.errors import BackendDown, UndecodableRecord
from waterclock.model.events import Control, ControlKind
from waterclock.wire.codec import decode_control

_BATCH = 1_000
_WAIT_S = 0.1
_IDLE_POLLS_MAX = 100


class ControlTail:
    """Reads every partition of ``control``, committed records only, without a group."""

    def __init__(self, log: Log, topic: str) -> None:
        self._log = log
        self._partitions = [TopicPartition(topic, number) for number in range(log.partitions(topic))]
        self._reader = log.reader(Isolation.COMMITTED)
        self._reader.assign({partition: log.low_watermark(partition) for partition in self._partitions})
        self.passed_over_count = 0

    def catch_up(self) -> None:
        """Read to the end as of now; bounded by 100 polls of 0.1 s that bring nothing. Raises BackendDown."""
        ends = {partition: self._log.high_watermark(partition) for partition in self._partitions}
        idle = 0
        while any(self._reader.position(partition) < end for partition, end in ends.items()):
            records = self._reader.poll(_BATCH, _WAIT_S)
            idle = 0 if records else idle + 1
            if idle > _IDLE_POLLS_MAX:
                raise BackendDown("kafka", f"{self._partitions[0].topic} stopped before its end")
            self._read(records)

    def look(self) -> None:
        """Read on without waiting."""
        self._read(self._reader.poll(_BATCH, 0.0))

    def close(self) -> None:
        """Stop reading."""
        self._reader.close()

    def _read(self, records: Sequence[Record]) -> None:
        for record in records:
            if _decoded(record) is None:
                self.passed_over_count += 1


def _decoded(record: Record) -> Control | None:
    if record.value is None:
        return None
    try:
        control = decode_control(record.value)
    except UndecodableRecord:
        return None
    return None if control.kind is ControlKind.UNKNOWN else control
