"""The transaction coordinator in memory: ids, epochs, open transactions, time-outs, markers.

Why: fencing and atomicity are the coordinator's, so they are here and not in the producer. Must hold: one open
transaction for an id; ``init`` aborts it and bumps the epoch, so that every older producer is Fenced; a transaction
older than its time-out is aborted and its producer Fenced; what is decided is decided for all partitions and groups
of the transaction, but *lands* one by one (``hold_markers``): atomic is not simultaneous.
As with librdkafka (no KIP-890 part 2) the epoch does not grow from one transaction to the next: a delayed EndTxn ends
whatever transaction of its epoch is open when it arrives (``deliver``).
"""

from __future__ import annotations

from typing import NamedTuple

from waterclock.clock import Clock
from waterclock.model.errors import Fenced, RoundInDoubt

from .memory_groups import Group
from .memory_partition import Partition, Span
from .port import Committed, TopicPartition


class Landing(NamedTuple):
    """One effect of a decided transaction that has not shown yet: a marker, or (``place`` a group) its offsets."""

    transactional_id: str
    place: TopicPartition | str


class DelayedEnd(NamedTuple):
    """An EndTxn(commit) request that is still on its way."""

    transactional_id: str
    epoch: int


class _Transaction:
    """One transactional id: its epoch, and the transaction that is open or landing."""

    def __init__(self) -> None:
        self.epoch = -1
        self.timeout_s = 0.0
        self.opened_s: float | None = None
        self.decided: bool | None = None
        self.ended: bool | None = None
        self.is_forgotten = False
        self.spans: dict[TopicPartition, tuple[Partition, Span]] = {}
        self.groups: dict[str, Group] = {}

    def places(self) -> list[TopicPartition | str]:
        """Where its end has to land: partitions in the order in which they were added, then groups."""
        return [*self.spans, *self.groups]


class Coordinator:
    """All transactional ids of a cluster. ``hold_markers``: decisions land only when ``land`` says so."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._known: dict[str, _Transaction] = {}
        self.hold_markers = False
        self.delayed: list[DelayedEnd] = []

    def init(self, transactional_id: str, timeout_s: float) -> int:
        """Finish or abort what stands open under this id, bump its epoch; returns it."""
        txn = self._known.setdefault(transactional_id, _Transaction())
        self._land_all(transactional_id, txn)
        if txn.opened_s is not None:
            self._decide(transactional_id, txn, commit=False)
            self._land_all(transactional_id, txn)
        txn.epoch += 1
        txn.timeout_s = timeout_s
        txn.ended = None
        txn.is_forgotten = False
        return txn.epoch

    def is_newest(self, transactional_id: str, epoch: int) -> bool:
        """False: a newer producer has this id, or its transaction timed out."""
        return self._known[transactional_id].epoch == epoch

    def forget_idle(self) -> None:
        """Drop the ids of which nothing is open, as after ``transactional.id.expiration.ms`` without a transaction."""
        for txn in self._known.values():
            txn.is_forgotten = txn.opened_s is None and txn.decided is None

    def knows(self, transactional_id: str) -> bool:
        """Whether the id was not forgotten since its last init."""
        return not self._known[transactional_id].is_forgotten

    def add_partition(self, transactional_id: str, epoch: int, place: TopicPartition, partition: Partition) -> Span:
        """Make a partition part of the open transaction (opens one). Raises Fenced."""
        txn = self._ready(transactional_id, epoch)
        if place not in txn.spans:
            txn.spans[place] = (partition, partition.open_span())
        return txn.spans[place][1]

    def holds(self, transactional_id: str, epoch: int, place: TopicPartition) -> bool:
        """Whether the open transaction has this partition; no: a delayed EndTxn ended it under the producer's feet."""
        txn = self._current(transactional_id, epoch)
        return txn.opened_s is not None and place in txn.spans

    def add_offsets(
        self, transactional_id: str, epoch: int, group: Group, offsets: dict[TopicPartition, Committed]
    ) -> None:
        """Make positions of a group part of the open transaction (opens one). Raises Fenced."""
        txn = self._ready(transactional_id, epoch)
        txn.groups[group.name] = group
        group.hold(transactional_id, offsets)

    def end(self, transactional_id: str, epoch: int, *, commit: bool) -> None:
        """EndTxn. Repeating the last end is harmless. Raises Fenced; RoundInDoubt where the last end was the other."""
        txn = self._current(transactional_id, epoch)
        if txn.opened_s is not None:
            self._decide(transactional_id, txn, commit=commit)
        elif txn.ended is not None and txn.ended is not commit:
            raise RoundInDoubt(f"{transactional_id}: INVALID_TXN_STATE, the transaction has ended otherwise")

    def deliver(self, delayed: DelayedEnd) -> bool:
        """A delayed EndTxn(commit) arrives. True where it ended a transaction: its own, or a later one, torn."""
        self.delayed.remove(delayed)
        txn = self._known[delayed.transactional_id]
        if txn.epoch != delayed.epoch or txn.opened_s is None:
            return False
        self._decide(delayed.transactional_id, txn, commit=True)
        return True

    def landings(self) -> list[Landing]:
        """What is decided and has not landed, oldest id first."""
        return [
            Landing(name, place)
            for name, txn in self._known.items()
            if txn.decided is not None
            for place in txn.places()
        ]

    def land(self, landing: Landing) -> None:
        """One decided effect shows."""
        txn = self._known[landing.transactional_id]
        if txn.decided is None:
            raise RuntimeError(f"{landing} is not decided")
        if isinstance(landing.place, str):
            txn.groups.pop(landing.place).settle(landing.transactional_id, commit=txn.decided)
        else:
            partition, span = txn.spans.pop(landing.place)
            partition.end(span, self._clock.now(), commit=txn.decided)
        if not txn.spans and not txn.groups:
            txn.decided = None

    def expire(self) -> None:
        """Abort what is open longer than its time-out; its producer is Fenced from now on."""
        now_s = self._clock.monotonic_s()
        for name, txn in self._known.items():
            if txn.opened_s is not None and now_s - txn.opened_s >= txn.timeout_s:
                self._decide(name, txn, commit=False)
                txn.epoch += 1

    def next_end_s(self) -> float:
        """No transaction that is open now times out before."""
        opened = [txn.opened_s + txn.timeout_s for txn in self._known.values() if txn.opened_s is not None]
        return min(opened, default=float("inf"))

    def _current(self, transactional_id: str, epoch: int) -> _Transaction:
        txn = self._known[transactional_id]
        if txn.epoch != epoch:
            raise Fenced(f"{transactional_id}: a newer producer has this id, or its transaction timed out")
        return txn

    def _ready(self, transactional_id: str, epoch: int) -> _Transaction:
        """The transaction of this epoch, open. A former one lands first (CONCURRENT_TRANSACTIONS: the client waits)."""
        txn = self._current(transactional_id, epoch)
        self._land_all(transactional_id, txn)
        if txn.opened_s is None:
            txn.opened_s = self._clock.monotonic_s()
        return txn

    def _decide(self, transactional_id: str, txn: _Transaction, *, commit: bool) -> None:
        txn.opened_s = None
        txn.decided = txn.ended = commit
        if not self.hold_markers:
            self._land_all(transactional_id, txn)

    def _land_all(self, transactional_id: str, txn: _Transaction) -> None:
        if txn.decided is not None:
            for place in txn.places():
                self.land(Landing(transactional_id, place))
