"""Reading ``leases`` on and on: which incarnations are dead (design §7-8).

Keeper and router each have one. What must hold: only committed records count, because HELLO and FENCED prove something
by the transaction that they stand in. How it fails: somebody's open transaction on ``leases`` holds the reading back
for its time-out (10 s) at most; nobody is declared dead meanwhile, which is late and never wrong.
"""

from __future__ import annotations

from waterclock.log.port import Isolation, Log, Record, TopicPartition
from waterclock.model.errors import LostResource, UndecodableRecord
from waterclock.model.ids import partition_of
from waterclock.model.leases import Standing, after, is_dead
from waterclock.wire.codec import decode_lease

_BATCH = 1_000
_UNKNOWN = Standing()


class Deaths:
    """Follows every partition of ``leases``. ``standings`` is what they say, by worker."""

    def __init__(self, log: Log, leases: str) -> None:
        self._log = log
        self._places = [TopicPartition(leases, number) for number in range(log.partitions(leases))]
        self._reader = log.reader(Isolation.COMMITTED)
        self._begin()
        self.standings: dict[str, Standing] = {}
        self._ends: dict[TopicPartition, int] = {}
        """Where they ended when it was asked last: nothing below is asked for again."""

    def look(self) -> list[str]:
        """Read on without waiting; returns the workers whose newest record changed. Raises BackendDown."""
        try:
            records = self._reader.poll(_BATCH, 0.0)
        except LostResource:
            # Removed, and all that is kept says the same; or the topic was made anew, where offsets begin anew: by what
            # the old one said everybody who says HELLO now would be dead.
            self._begin()
            self.standings.clear()
            self._ends.clear()
            return []
        return [worker for record in records if (worker := self._apply(record))]

    def standing(self, worker: str) -> Standing:
        """What is known of a worker; without a record of it, the standing of nobody."""
        return self.standings.get(worker, _UNKNOWN)

    def is_dead(self, worker: str, incarnation: int) -> bool:
        """Whether this incarnation is known to be dead."""
        standing = self.standings.get(worker)
        return standing is not None and is_dead(standing, incarnation)

    def is_of_a_topic_before(self, worker: str, incarnation: int) -> bool:
        """Whether this life, of which a claim was read before, said its HELLO on a ``leases`` that was deleted, and its
        worker another one since, which has fenced it. Raises BackendDown."""
        if not 0 <= self.standing(worker).hello < incarnation:
            return False
        place = self._places[partition_of(worker, len(self._places))]
        if incarnation >= self._ends.get(place, 0):
            self._ends[place] = self._log.high_watermark(place)
        return incarnation >= self._ends[place]

    def position(self, partition: int) -> int:
        """Up to where a partition of ``leases`` was read."""
        return self._reader.position(self._places[partition])

    def caught_up(self, partition: int) -> bool:
        """Whether a partition of ``leases`` was read to its high watermark as of now. Raises BackendDown."""
        return self.position(partition) >= self._log.high_watermark(self._places[partition])

    def close(self) -> None:
        """Stop reading."""
        self._reader.close()

    def _begin(self) -> None:
        self._reader.assign({place: self._log.low_watermark(place) for place in self._places})

    def _apply(self, record: Record) -> str:
        """The worker whose standing this record changed, or ""."""
        if record.value is None:
            return ""
        try:
            lease = decode_lease(record.value)
        except UndecodableRecord:
            return ""  # of a later release: it ends nobody's life here
        before = self.standing(lease.worker)
        standing = after(before, record.offset, lease)
        if standing == before or (record.key or b"") != lease.worker.encode():
            return ""
        self.standings[lease.worker] = standing
        return lease.worker
