"""The intake's story: own, read, judge, pass on.

Every record of job-events ends in exactly one of ``commands`` (keyed by job id: whatever partitioner its sender used,
its command lies in its job's shard) and ``rejects`` (with the reason and its own bytes), in the round that advances the
offsets past it. What must hold: that, across crashes, take-overs and doubtful commits; and that no record, however
hostile, keeps the ones behind it waiting. Nothing is kept between rounds: a repeat is recognised by the shard owner.

How it fails: any trouble drops what is held and begins again from the committed positions (design §5.5); fenced by a
twin it stops, and the message names the id.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import structlog

from waterclock.abandoned import Abandoned
from waterclock.clock import Clock
from waterclock.log.following import Position
from waterclock.log.port import Committed, Log, Outgoing, Polled, Record, TopicPartition
from waterclock.model.errors import BackendDown, Fenced, LostResource, RequestError
from waterclock.transact import Rounds
from waterclock.wire.names import Names

from .judge import Judge, bare_reject

ROLE = "intake"

_POLL_S = 0.05
_TROUBLE_WAIT_S = 0.5

ROUND_BYTES = 4 * 1024 * 1024
"""A round carries records of so many bytes, or a single one."""

_log = structlog.get_logger()


class Intake:
    """The core. ``tenants``: every topic that is read, and whose jobs its records are about."""

    def __init__(
        self,
        log: Log,
        clock: Clock,
        names: Names,
        instance: str,
        judge: Judge,
        *,
        tenants: Mapping[str, str],
        round_records: int = 500,
        offsets_every_s: float = 2.0,
    ) -> None:
        self._log = log
        self._clock = clock
        self._names = names
        self._judge = judge
        self._round_records = round_records
        self._offsets_every_s = offsets_every_s
        self._consumer = log.consumer(names.group(ROLE), sorted(tenants), instance=instance, headers=True)
        abandoned = Abandoned(log, names, ROLE, instance)
        self._rounds = Rounds(log, names.transactional_id(ROLE, instance), abandoned=abandoned)
        self._places: dict[TopicPartition, Position] = {}
        self._to_take: set[TopicPartition] = set()
        self._is_troubled = False
        self._has_joined = False
        self._offsets_due_s = 0.0
        self._refused: Counter[str] = Counter()

    @property
    def ready(self) -> bool:
        """A member of the group, and every partition that is ours has been started."""
        return self._has_joined and not self._to_take

    def step(self) -> bool:
        """One cycle; see ``waterclock.role``. Raises Fenced."""
        try:
            if self._is_troubled:
                self._notice(self._rounds.poll(self._consumer, 0, _TROUBLE_WAIT_S))
                self._is_troubled = False
            self._take_over()
            polled = self._rounds.poll(self._consumer, self._round_records, _POLL_S)
            self._notice(polled)
            self._pass_on(polled.records)
            return bool(polled.records or polled.assigned)
        except Fenced:
            raise
        except (LostResource, BackendDown) as trouble:
            self._start_over(trouble)
            return False

    def drain(self) -> bool:
        """Commit the positions; there is nothing else to finish."""
        try:
            self._rest(is_due=True)
        except (LostResource, BackendDown) as trouble:
            _log.warning("last positions not committed", trouble=str(trouble))
        return False

    def close(self) -> None:
        """Give up the producer, and the membership as a static member does: the slot's next process takes over."""
        self._rounds.close()
        self._consumer.close()

    def _notice(self, polled: Polled) -> None:
        """Membership: forget what is no longer ours, remember what must be taken over."""
        for gone in polled.revoked:
            self._places.pop(gone, None)
            self._to_take.discard(gone)
        self._to_take.update(polled.assigned)
        self._has_joined = self._has_joined or self._consumer.has_share

    def _take_over(self) -> None:
        """Start new partitions where the group stands: the producer first, which settles its last round."""
        if not self._to_take:
            return
        committed = self._rounds.positions(self._consumer, sorted(self._to_take))
        starts = {place: self._beginning(place, position) for place, position in committed.items()}
        self._consumer.start(starts)
        for place, start_at in starts.items():
            self._places[place] = Position(place, start_at)
            _log.info("partition taken over", topic=place.topic, partition=place.partition, start_at=start_at)
        self._to_take.clear()
        self._offsets_due_s = self._clock.monotonic_s()

    def _beginning(self, place: TopicPartition, committed: Committed | None) -> int:
        """From the oldest that is kept where nobody has stood before: it was sent, so it is owed an answer."""
        low = self._log.low_watermark(place)
        if committed is None and self._log.high_watermark(place) > low:
            # A first start, or a group that had no member for a week: brokers forget its positions then.
            _log.warning(
                "no position is known: read from the oldest event that is kept; what was passed on more than a day ago "
                "is passed on again", topic=place.topic, partition=place.partition, from_offset=low,
            )  # fmt: skip
        if committed is not None and committed.offset < low:
            _log.error("events were removed by retention before they were read", topic=place.topic,
                       partition=place.partition, from_offset=committed.offset, to_offset=low)  # fmt: skip
        return low if committed is None else max(low, committed.offset)

    def _start_over(self, trouble: Exception) -> None:
        """Every trouble leads back to the committed positions (design §5.5)."""
        _log.warning("begins again from the committed positions", trouble=str(trouble))
        self._places.clear()
        self._to_take = set(self._consumer.owned())
        self._is_troubled = True

    def _pass_on(self, records: Sequence[Record]) -> None:
        """Judge the records and send what came of them, in as many rounds as their size asks for."""
        for cut in _cuts([record for record in records if self._place_of(record) in self._places]):
            self._settle(cut)
        for place in self._places.values():
            place.has_begun = place.has_begun or not records
            place.move(self._consumer)
        self._rest(is_due=self._clock.monotonic_s() >= self._offsets_due_s)

    def _settle(self, records: Sequence[Record]) -> None:
        """One round. A message that no broker takes was judged wrongly: its record is found, and rejected alone."""
        try:
            self._commit(records, [self._judge.judge(record, self._refused) for record in records])
        except RequestError as error:
            if len(records) == 1:
                self._commit(records, [bare_reject(self._names, records[0], error, self._clock.now())])
                return
            # The round that failed counted the positions of all: back to where each stood, or the first of the small
            # rounds would commit past records that are still to be sent.
            for record in reversed(records):
                self._places[self._place_of(record)].next_offset = record.offset
            for record in records:
                self._settle([record])

    def _rest(self, *, is_due: bool) -> None:
        """When nothing is outstanding the positions are committed all the same, so that lag reads 0."""
        if is_due:
            self._commit((), ())

    def _commit(self, records: Sequence[Record], messages: Sequence[Outgoing]) -> None:
        """The messages, and the positions past ``records``, in one round. Raises LostResource, BackendDown."""
        for record in records:
            place = self._places[self._place_of(record)]
            place.next_offset, place.has_begun = record.offset + 1, True
        draft = self._rounds.draft()
        draft.extend(messages)
        moved = {place: due for place in self._places.values() if (due := place.to_commit()) is not None}
        for place, due in moved.items():
            draft.advance(self._consumer, place.partition, due.offset)
        self._offsets_due_s = self._clock.monotonic_s() + self._offsets_every_s
        self._rounds.commit(draft)
        for place, due in moved.items():
            place.committed = due
        if self._refused:
            _log.info("records refused", **self._refused)
            self._refused.clear()

    @staticmethod
    def _place_of(record: Record) -> TopicPartition:
        return TopicPartition(record.topic, record.partition)


def _cuts(records: Sequence[Record]) -> Iterator[Sequence[Record]]:
    """Stretches of at most ``ROUND_BYTES``: rejects carry their record, and a round of them must fit in memory."""
    start = size = 0
    for number, record in enumerate(records):
        length = len(record.value or b"") + len(record.key or b"")
        if number > start and size + length > ROUND_BYTES:
            yield records[start:number]
            start, size = number, 0
        size += length
    if start < len(records):
        yield records[start:]
