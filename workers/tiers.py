"""One tier's consumer: what was taken from it in this turn, and the positions that ride in the round.

What must hold:

* a partition is started in one way only, at assignment and after every trouble: from the group's committed position,
  asked for after the producer's init; where there is none, from the position rebuilt from run-events, never from the
  start of the topic (an ignored STARTED would not stop user code). While that is being read the others go on;
* nor does anything else wait for a position which the open round of a worker that died holds back, up to 20 s (its
  keeper ends it sooner, mostly): who stood still so long would lose what runs here with the lease;
* what was taken counts for one round: it is dropped when its partition is revoked, or when the round is void;
* a worker without room keeps serving the group: it skips polling for a second, then polls for nothing. It never pauses
  itself: that throws the prefetch away, and the first record after a resume takes up to 0.7 s (kafka.md 4.2). A tier
  would look empty at each of its turns, and where they are further apart than a second it would never give anything.

How it fails: BackendDown and Fenced from the broker; the partitions concerned stay unstarted and are tried again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from waterclock.log.port import Committed, Consumer, Log, Polled, Record, TopicPartition
from waterclock.model.errors import Fenced
from waterclock.model.job import Tier
from waterclock.told_positions import ToldPositions
from waterclock.transact import Round, Rounds
from waterclock.wire.names import Names

from .beginnings import Beginnings
from .incarnation import TwinLives

_UNPOLLED_S_MAX = 1.0
_NEVER = -1


class TierConsumer:
    """A member of one tier's group. ``beginnings`` are those of all tiers of this worker."""

    def __init__(self, tier: Tier, consumer: Consumer, rounds: Rounds, beginnings: Beginnings) -> None:
        self.tier = tier
        self.taken: list[Record] = []
        self._consumer = consumer
        self._rounds = rounds
        self._beginnings = beginnings
        self._unstarted: set[TopicPartition] = set()
        self._told = ToldPositions(rounds, consumer)
        # Without a committed position; nobody else can commit one while they are ours, so it is not asked for again.
        self._awaited: set[TopicPartition] = set()
        self._next: dict[TopicPartition, int] = {}
        # What the client answered right after start(): librdkafka still tells the position of before, for a moment.
        self._stale: dict[TopicPartition, int] = {}
        # What it told of the others before: a start assigns all anew, and it tells of none until that one moves on.
        self._passed: dict[TopicPartition, int] = {}
        self._committed: dict[TopicPartition, int] = {}
        self._polled_at_s = float("-inf")

    def take(self, limit: int, now_s: float) -> int:
        """Take up to ``limit`` records into ``taken``; answers how many came. Raises BackendDown, Fenced, TwinLives."""
        self._start(now_s)
        self._polled_at_s = now_s
        records = self._poll(limit)
        if self._awaited or self._unstarted:  # after trouble the client goes on from where it stood, until a start
            closed = self._awaited | self._unstarted
            records = [each for each in records if TopicPartition(each.topic, each.partition) not in closed]
        self.taken.extend(records)
        for record in records:
            self._next[TopicPartition(record.topic, record.partition)] = record.offset + 1
        if self._stale:
            self._believe(records)
        self._start(now_s)
        return len(records)

    def attend(self, now_s: float) -> None:
        """Serve the membership where no record was asked for lately. Raises BackendDown."""
        if now_s - self._polled_at_s >= _UNPOLLED_S_MAX:
            self._poll(0)

    def drained(self) -> None:
        """Nothing taken is undecided: let the positions step over markers and gaps, so that the lag reads 0."""
        assert not self.taken, "a position may run ahead of what was taken only between rounds"
        for partition in self._next.keys() - self._stale.keys():
            position = self._consumer.position(partition) or 0
            self._next[partition] = max(self._next[partition], position, self._passed.pop(partition, 0))

    @property
    def joined(self) -> bool:
        """Whether the group has this member, with or without a partition for it."""
        return self._consumer.metadata().generation >= 0

    @property
    def moved(self) -> bool:
        """Whether there is a position to commit."""
        return self._next != self._committed

    def advance(self, draft: Round) -> None:
        """Put the positions that moved into the round."""
        for partition, offset in self._next.items():
            if offset != self._committed[partition]:
                draft.advance(self._consumer, partition, offset)

    def settled(self) -> None:
        """The round has landed: its positions are the committed ones, and what was taken is claimed."""
        self._committed.update(self._next)
        self.taken.clear()

    def void(self) -> None:
        """The round is void: drop what was taken and start every partition again from what is committed."""
        self.taken.clear()
        self._unstarted = set(self._consumer.owned())
        self._told.begin_again()
        self._awaited.clear()
        self._next.clear()
        self._stale.clear()
        self._passed.clear()
        self._committed.clear()

    def close(self, *, leave: bool = False) -> None:
        """Stop. The static member keeps its partitions for the session, for the restart of this process slot.

        ``leave``: it gives them up at once, for the other members to take.
        """
        self._consumer.close(leave=leave)

    def _poll(self, limit: int) -> Sequence[Record]:
        try:
            polled = self._rounds.poll(self._consumer, limit, 0.0)
        except Fenced as fenced:
            # Not the producer's fencing: a static member is put out by nobody but another one of the same name.
            raise TwinLives(self._rounds.transactional_id, str(fenced)) from fenced
        self._follow(polled)
        return polled.records

    def _follow(self, polled: Polled) -> None:
        if polled.revoked:
            gone = set(polled.revoked)
            self.taken = [record for record in self.taken if TopicPartition(record.topic, record.partition) not in gone]
            self._unstarted -= gone
            self._awaited -= gone
            for partition in gone:
                self._next.pop(partition, None)
                self._stale.pop(partition, None)
                self._passed.pop(partition, None)
                self._committed.pop(partition, None)
        if polled.assigned:
            self._unstarted.update(polled.assigned)
            self._told.begin_again()

    def _start(self, now_s: float) -> None:
        if self._unstarted:
            self._unstarted &= self._consumer.owned()
            committed = self._told.of(self._unstarted, now_s)
            known = self._beginnings.of(committed)
            self._begin(known, committed)
            missing = [partition for partition in committed if partition not in known]
            if missing:
                # Where the client stood before the trouble it would go on, and retention may have been there: it waits
                # at the end, and what comes there is not taken.
                self._start_at({partition: self._beginnings.end_of(partition) for partition in missing})
                self._awaited.update(missing)
            self._unstarted -= committed.keys()
        if self._awaited:
            rebuilt = self._beginnings.rebuilt(sorted(self._awaited))
            self._begin(rebuilt, {})
            self._awaited -= rebuilt.keys()

    def _begin(
        self, positions: Mapping[TopicPartition, int], committed: Mapping[TopicPartition, Committed | None]
    ) -> None:
        """Start these. What is started already goes on, also where some of it was taken in this turn."""
        if not positions:
            return
        self._start_at(positions)
        self._next.update(positions)
        for partition in positions:
            before = committed.get(partition)
            self._committed[partition] = _NEVER if before is None else before.offset
            answer = self._consumer.position(partition)
            if answer is not None:
                self._stale[partition] = answer

    def _start_at(self, positions: Mapping[TopicPartition, int]) -> None:
        for partition in self._next.keys() - self._stale.keys() - positions.keys():
            position = self._consumer.position(partition)
            if position is not None:
                self._passed[partition] = position
        self._consumer.start(positions)

    def _believe(self, records: Sequence[Record]) -> None:
        """A position counts again once it differs from the one before the start, or a record came since the start.

        To step over the records of a void round, by a position that was true before it, would lose them.
        """
        for record in records:
            self._stale.pop(TopicPartition(record.topic, record.partition), None)
        for partition, position in list(self._stale.items()):
            if self._consumer.position(partition) != position:
                del self._stale[partition]


def join(log: Log, names: Names, pool: str, worker: str, rounds: Rounds, beginnings: Beginnings) -> list[TierConsumer]:
    """A member of the group of each tier; each of them joins with its first poll."""
    return [
        TierConsumer(
            tier,
            log.consumer(names.worker_group(tier, pool), [names.runs(tier, pool)], instance=worker),
            rounds,
            beginnings,
        )
        for tier in Tier
    ]
