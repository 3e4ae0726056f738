"""Reading our own records on ``leases``: to the end after every init, and on and on while we live.

What must hold: after every init of our transactional id nothing is sent before ``catch_up`` has reached the high
watermark taken after that init; a beat is sent only while ``fresh`` (read to its end lately), so that a worker which
cannot see its own death stops announcing that it lives. Reads uncommitted records, see ``leases.py``.

How it fails: BackendDown when the log does not answer within its bound; the caller tries again in its next turn.
LeaseLost where records were removed before they were read: nobody knows whether this life was ended among them, so it
ends, and the next one begins with what is left.
"""

from __future__ import annotations

from collections.abc import Sequence

from waterclock.clock import Clock
from waterclock.log.port import Isolation, Log, Record, TopicPartition
from waterclock.model.errors import BackendDown, Fenced, LeaseLost, LostResource, UndecodableRecord
from waterclock.model.ids import partition_of
from waterclock.wire.codec import decode_lease

from .leases import Standing, after

_BATCH = 1_000
_WAIT_S = 0.1
_IDLE_POLLS_MAX = 100


class LeaseWatch:
    """Follows the partition of ``leases`` that holds the records of ``worker``. ``standing`` is what they say."""

    def __init__(self, log: Log, leases: str, worker: str, clock: Clock) -> None:
        self._log = log
        self._clock = clock
        self._key = worker.encode()
        self._partition = TopicPartition(leases, partition_of(worker, log.partitions(leases)))
        self._reader = log.reader(Isolation.UNCOMMITTED)
        self._is_lost = False
        self._end: tuple[int, float] | None = None
        self.standing = Standing()
        self._begin()
        self._read_at_s = float("-inf")

    def catch_up(self) -> Standing:
        """Read to the high watermark as of now. Raises LeaseLost, and BackendDown after 100 polls of 0.1 s that
        bring nothing."""
        if self._is_lost:
            self._begin()
        asked_at_s = self._clock.monotonic_s()
        end = self._log.high_watermark(self._partition)
        if self._reader.position(self._partition) > end:  # only in a topic that was made anew
            self._is_lost = True
            raise LeaseLost(f"whether we live cannot be read: {self._partition.topic} was made anew")
        idle = 0
        while self._reader.position(self._partition) < end:
            records = self._polled(_WAIT_S)
            idle = 0 if records else idle + 1
            if idle > _IDLE_POLLS_MAX:
                raise BackendDown("kafka", f"{self._partition.topic} stopped before offset {end}")
            self._apply(records)
        self._end = None
        self._read_at_s = asked_at_s
        return self.standing

    def look(self) -> Standing:
        """Read on without waiting. Counts as fresh from when the end was asked for, once that end is reached.

        Raises LeaseLost, BackendDown.
        """
        if self._is_lost:
            self._begin()
        if self._end is None:
            asked_at_s = self._clock.monotonic_s()
            self._end = self._log.high_watermark(self._partition), asked_at_s
        end, asked_at_s = self._end
        self._apply(self._polled(0.0))
        if self._reader.position(self._partition) >= end:
            self._read_at_s = asked_at_s
            self._end = None
        return self.standing

    def is_fresh(self, within_s: float) -> bool:
        """Whether ``leases`` was read to its end within the last ``within_s``."""
        return self._clock.monotonic_s() - self._read_at_s <= within_s

    def close(self) -> None:
        """Stop reading."""
        self._reader.close()

    def _begin(self) -> None:
        self._is_lost = True
        self._reader.assign({self._partition: self._log.low_watermark(self._partition)})
        self._end = None
        self.standing = Standing()
        self._is_lost = False

    def _polled(self, wait_s: float) -> Sequence[Record]:
        try:
            return self._reader.poll(_BATCH, wait_s)
        except Fenced:
            raise
        except LostResource as lost:
            self._is_lost = True
            raise LeaseLost(f"whether we live cannot be read: {lost}") from lost

    def _apply(self, records: Sequence[Record]) -> None:
        for record in records:
            if record.key != self._key or record.value is None:
                continue
            try:
                lease = decode_lease(record.value)
            except UndecodableRecord:
                # A record of a later release under our name: it can only be somebody else's announcement, and whoever
                # made it has fenced us; our next round says so.
                continue
            self.standing = after(self.standing, record.offset, lease)
