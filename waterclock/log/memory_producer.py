"""The transactional producer and the plain appender in memory.

Why: this is the client's side of a transaction, with the client's blind spots. Must hold: what the coordinator
refuses (fenced, stale generation, oversized metadata) comes out as the same error as from the real client, at the
same call or an earlier one; after RoundAborted ``abort`` makes it usable; after RoundInDoubt it is ``dirty``.
Differs from the real client in one way: it sends at once, so a ticket has its offset as soon as it is appended.

A dirty producer begins nothing. ``Faults.lets_dirty_producers_begin`` takes that guard away, to show what it is for:
``begin`` then repeats the EndTxn that got no answer, as librdkafka's own retries do, and torn rounds come about.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache

from waterclock.model.errors import BackendDown, Fenced, NotFound, RequestError, RoundAborted, RoundInDoubt

from .memory_cluster import Client, MemoryCluster
from .memory_faults import CommitFate
from .memory_partition import Span
from .memory_transactions import DelayedEnd
from .port import METADATA_MAX, Committed, GroupMetadata, Outgoing, Ticket, TopicPartition

RECORD_MAX_BYTES = 999_950
"""Key, value and headers of one record together: the client's own limit (``message.max.bytes``, 1,000,000 with what it
writes around them), which is below that of our topics."""


class _Round:
    """The client's view of one transaction: what it has sent, and what stands against its commit."""

    def __init__(self) -> None:
        self.is_open = False
        self.in_doubt = False
        self.has_offsets = False
        self.refusal = ""
        self.unsendable = ""
        self.spans: dict[TopicPartition, Span] = {}


class MemoryProducer:
    """See ``port.Producer``. Calls in the wrong order are bugs and raise RuntimeError."""

    def __init__(self, cluster: MemoryCluster, client: Client, transactional_id: str, timeout_s: float) -> None:
        self._cluster = cluster
        self._client = client
        self._id = transactional_id
        self._timeout_s = timeout_s
        self._epoch: int | None = None
        self._fenced = False
        self._dirty = False
        self._round = _Round()

    @property
    def dirty(self) -> bool:
        return self._dirty

    def init(self, timeout_s: float) -> None:  # noqa: ARG002 - the port's signature; nothing here waits
        self._enter("init")
        self._epoch = self._cluster.coordinator.init(self._id, self._timeout_s)

    def begin(self) -> None:
        self._enter("begin")
        if self._dirty and not self._cluster.faults.lets_dirty_producers_begin:
            raise RoundInDoubt(f"{self._id}: the producer is dirty, a new one must take its place")
        if self._round.in_doubt:
            self._repeat_commit()
        if self._epoch is None or self._round.is_open:
            raise RuntimeError(f"{self._id}: begin() needs init() before it, and no open transaction")
        self._round = _Round()
        self._round.is_open = True

    def append(self, message: Outgoing) -> None:
        self.append_tracked(message)

    def append_tracked(self, message: Outgoing) -> Ticket:
        self._enter("append")
        self._require_usable_round()
        refuse_unsendable(message)
        ticket = Ticket()
        try:
            self._cluster.topic(message.topic)
        except NotFound as missing:
            self._round.unsendable = str(missing)  # as with the real client: accepted now, the commit waits in vain
            return ticket
        place = self._cluster.place_of(message)
        partition = self._cluster.partition(place)  # NotFound: that record alone is not in the round
        epoch = self._held_epoch()
        coordinator = self._cluster.coordinator
        if place not in self._round.spans:
            self._require_known()
            self._round.spans[place] = coordinator.add_partition(self._id, epoch, place, partition)
        elif not coordinator.holds(self._id, epoch, place):
            raise self._doubt("INVALID_TXN_STATE: a delayed EndTxn has ended this transaction")
        ticket.partition = place.partition
        ticket.offset = self._cluster.append(self._client, place, message, self._round.spans[place])
        return ticket

    def send_offsets(self, offsets: Mapping[TopicPartition, Committed], group: GroupMetadata) -> None:
        self._enter("send_offsets")
        self._require_usable_round()
        if not offsets:
            return
        if any(len(committed.metadata) > METADATA_MAX for committed in offsets.values()):
            raise self._refuse(f"OFFSET_METADATA_TOO_LARGE: more than {METADATA_MAX} characters")
        members = self._cluster.group(group.group)
        gone = next((str(place) for place in offsets if self._cluster.find(place) is None), None)
        refusal = members.refusal(group, transactional=True) or (gone and f"UNKNOWN_TOPIC_OR_PART: {gone}")
        if refusal is not None:
            raise self._refuse(refusal)
        self._require_known()
        self._cluster.coordinator.add_offsets(self._id, self._held_epoch(), members, dict(offsets))
        self._round.has_offsets = True

    def flush(self, timeout_s: float) -> None:  # noqa: ARG002 - the port's signature; what is appended stands already
        self._enter("flush")
        self._require_usable_round()
        if self._round.unsendable:
            raise self._doubt(f"no answer within the time-out: {self._round.unsendable}")

    def commit(self, timeout_s: float) -> None:  # noqa: ARG002 - the port's signature; nothing here waits
        self._enter("commit")
        if self._round.in_doubt:
            self._repeat_commit()
        else:
            self._require_usable_round()
            if self._round.unsendable:
                raise self._doubt(f"no answer within the time-out: {self._round.unsendable}")
            if self._round.spans or self._round.has_offsets:
                self._request_commit()
        self._round = _Round()
        self._cluster.enter(self._client, "commit landed")

    def abort(self, timeout_s: float) -> None:  # noqa: ARG002 - the port's signature; nothing here waits
        self._enter("abort")
        if self._round.in_doubt:
            raise RoundInDoubt(f"{self._id}: the commit before this abort got no answer")
        if not self._round.is_open:
            raise RuntimeError(f"{self._id}: no transaction is open")
        if self._round.spans or self._round.has_offsets:
            self._end(commit=False)
        self._round = _Round()

    def close(self) -> None:
        """Aborts an open transaction that nothing is in doubt about, as the client's destructor does."""
        usable = self._client.alive and self._epoch is not None and not self._fenced
        if usable and self._round.is_open:
            with suppress(Fenced, RoundInDoubt):  # then nothing of ours is open any more
                self._cluster.coordinator.end(self._id, self._held_epoch(), commit=False)
        self._fenced = True
        self._round.is_open = False

    def _request_commit(self) -> None:
        """Send EndTxn(commit); the faults say what becomes of it and of its answer."""
        fate = self._cluster.faults.fate_of(self._id)
        if fate is CommitFate.ABORTS:
            raise self._refuse("TRANSACTION_ABORTABLE")
        if fate in {CommitFate.DELAYED, CommitFate.DOUBLED}:
            self._cluster.coordinator.delayed.append(DelayedEnd(self._id, self._held_epoch()))
        if fate in {CommitFate.LOST, CommitFate.DELAYED}:
            raise self._doubt("the commit got no answer")
        self._end(commit=True)
        self._dirty = self._dirty or fate is CommitFate.DOUBLED
        if fate is CommitFate.UNANSWERED:
            raise self._doubt("the commit got no answer")

    def _repeat_commit(self) -> None:
        """What the first EndTxn of this round left open, a second one settles (unless a record cannot be sent)."""
        if self._round.unsendable:
            self._round.in_doubt, self._round.is_open = False, True
            raise self._refuse(f"_INCONSISTENT: {self._round.unsendable}")
        self._end(commit=True)
        self._round = _Round()

    def _end(self, *, commit: bool) -> None:
        try:
            self._cluster.coordinator.end(self._id, self._held_epoch(), commit=commit)
        except RoundInDoubt:
            self._round.in_doubt = self._dirty = True
            raise
        self._round.in_doubt = False

    def _enter(self, operation: str) -> None:
        self._cluster.enter(self._client, operation)
        if not self._fenced and self._epoch is not None:
            self._fenced = not self._cluster.coordinator.is_newest(self._id, self._epoch)
        if self._fenced:
            raise Fenced(f"{self._id}: a newer producer has this id, or its transaction timed out")

    def _held_epoch(self) -> int:
        if self._epoch is None:
            raise RuntimeError(f"{self._id}: init() comes first")
        return self._epoch

    def _require_usable_round(self) -> None:
        if self._round.in_doubt:
            raise RoundInDoubt(f"{self._id}: the last commit got no answer")
        if not self._round.is_open:
            raise RuntimeError(f"{self._id}: no transaction is open")
        if self._round.refusal:
            raise RoundAborted(f"{self._id}: {self._round.refusal}")

    def _require_known(self) -> None:
        if not self._cluster.coordinator.knows(self._id):
            raise self._doubt("INVALID_PRODUCER_ID_MAPPING: idle for so long that the brokers have forgotten the id")

    def _refuse(self, why: str) -> RoundAborted:
        self._round.refusal = why
        return RoundAborted(f"{self._id}: {why}")

    def _doubt(self, why: str) -> RoundInDoubt:
        self._round.in_doubt = self._dirty = True
        self._round.is_open = False
        return RoundInDoubt(f"{self._id}: {why}")


class MemoryAppender:
    """See ``port.Appender``. Everything is acknowledged as soon as it is appended."""

    def __init__(self, cluster: MemoryCluster, client: Client) -> None:
        self._cluster = cluster
        self._client = client
        self._failed = ""

    def append(self, message: Outgoing) -> Ticket:
        self._cluster.enter(self._client, "plain append")
        refuse_unsendable(message)
        ticket = Ticket()
        try:
            place = self._cluster.place_of(message)
            ticket.offset = self._cluster.append(self._client, place, message, None)
        except NotFound as missing:
            self._failed = self._failed or str(missing)  # accepted now, as by the real client: the flush tells
            return ticket
        ticket.partition = place.partition
        return ticket

    def flush(self, timeout_s: float) -> None:  # noqa: ARG002 - the port's signature; nothing here waits
        self._cluster.enter(self._client, "flush")
        failed, self._failed = self._failed, ""
        if failed:
            raise BackendDown("kafka", f"a record was not taken: {failed}")

    def close(self) -> None:
        """Nothing is buffered."""


def refuse_unsendable(message: Outgoing) -> None:
    """Raises RequestError for a record that no broker of ours takes, or no client bears; the round stays usable.

    The real client takes its process down over a header's name that is no UTF-8, and cuts one at its NUL.
    """
    if not all(_is_text(name) for name in (message.topic, *(name for name, _ in message.headers))):
        raise RequestError(
            f"a record for {message.topic[:100]!a} has a topic or a header's name with a NUL, or that is no UTF-8",
            hint="Names are UTF-8 text without NUL",
        )
    size = len(message.key) + len(message.value or b"")
    size += sum(len(name.encode()) + len(text) for name, text in message.headers)
    if size > RECORD_MAX_BYTES:
        raise RequestError(f"a record of {size} bytes is too large", hint=f"At most {RECORD_MAX_BYTES} bytes")


@lru_cache(maxsize=1_024)
def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in name
