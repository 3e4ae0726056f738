"""Follows run-events of the shards that have open runs of jobs with an overlap policy or a limit, and of no others.

A reader without a group: what a shard has read of it stands in the records of its round, and who owns the shard is
settled by ``commands``. A partition is read while such a run is open, and for a while after the last one: a job that
fires now and then must not make the client begin anew each time. An event of any other job costs a look at its key.

What must hold: a shard's ``position`` never goes past an event that was not looked at. Committed records only: an
outcome whose round is still open decides nothing. How it fails: BackendDown; LostResource where retention took what
was still to be read, and the shard is taken over again.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from waterclock.clock import Clock
from waterclock.log.port import Isolation, Log, Reader, Record, TopicPartition
from waterclock.model.errors import RequestError
from waterclock.wire.codec import decode_event

from .flow import Flow
from .shard import Shard

_BATCH = 2_000
_TURNS_MAX = 5
"""How often one look asks for more: what is decided by old news is decided badly, but fires wait meanwhile."""
_QUIET_S = 30.0


class EventTail:
    """One reader for all shards of a dispatcher, made when the first of them needs it."""

    def __init__(self, log: Log, topic: str, clock: Clock) -> None:
        self._log = log
        self._topic = topic
        self._clock = clock
        self._reader: Reader | None = None
        self._flows: dict[int, Flow] = {}

    def look(self, shards: Collection[Shard]) -> bool:
        """Read on without waiting, to the end if that is near; True where it is not.

        Raises BackendDown, LostResource.
        """
        self._choose(shards)
        if self._reader is None or not self._flows:
            return False
        for _ in range(_TURNS_MAX):
            records = self._reader.poll(_BATCH, 0.0)
            self._take(records)
            for flow in self._flows.values():
                flow.settle_held()
            if not records:
                break
        else:
            return True
        for number, flow in self._flows.items():
            # Past markers; only while nothing delivered waits. A client may tell where it stood before.
            flow.position = max(flow.position, self._reader.position(TopicPartition(self._topic, number)))
            flow.settle_held()
        return False

    def follows(self, shard: Shard) -> bool:
        """Whether this shard's run-events are read now."""
        return self._flows.get(shard.partition) is shard.flow

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()

    def _choose(self, shards: Collection[Shard]) -> None:
        wanted = {shard.partition: shard.flow for shard in shards if self._is_wanted(shard.flow)}
        if wanted.keys() == self._flows.keys() and all(self._flows[each] is flow for each, flow in wanted.items()):
            return
        if self._reader is None:
            self._reader = self._log.reader(Isolation.COMMITTED)
        self._flows = {}  # nothing is followed, should this fail
        self._reader.assign({TopicPartition(self._topic, number): flow.position for number, flow in wanted.items()})
        self._flows = wanted

    def _is_wanted(self, flow: Flow) -> bool:
        if flow.followed:
            flow.quiet_from_s = self._clock.monotonic_s()
            return True
        return flow.quiet_from_s >= 0 and self._clock.monotonic_s() - flow.quiet_from_s < _QUIET_S

    def _take(self, records: Sequence[Record]) -> None:
        flows = self._flows
        for record in records:
            flow = flows.get(record.partition)
            if flow is None or record.offset < flow.position:
                continue
            job = flow.followed.get(record.key or b"")
            flow.position = record.offset + 1
            if job is None:
                continue
            try:
                event = decode_event(record.value or b"")
                flow.apply(job, event, record.offset, record.timestamp_us, self._clock.now())
            except RequestError:
                continue  # no event, or of no run: the retry router forwards it to rejects, and nobody's state is moved
