"""The one round: consume, decide, produce, commit (design §5). Nobody else calls a producer's transaction methods.

A round is drafted first, with plain values, and only then sent: begin, append all, send offsets, commit, with no user
code, no other network call and no wait in between. What this module holds for every role:

1. one round is one transaction: records out, consumed offsets and state;
2. the transactional id is stable, so a restart fences and aborts its predecessor;
3. zombies are fenced by the group generation: the membership is taken when the records are polled, a generation
   below 0 is refused, offsets of partitions no longer owned are refused, and a membership that changed since the
   draft was begun aborts it (the broker checks membership, never ownership);
4. after anything in doubt the producer is dirty: it is closed, a new one with the same id is initialised, and the
   role settles (``positions()``, or ``landed()``) before anything is sent again. Reason: without KIP-890 part 2 a
   delayed EndTxn could end the next transaction of the same producer;
5. the one exception to "no wait in between": records of a round that is still to be decided may be sent early, and
   wait for its commit (commit as trigger, design §6). They bind nobody: the round that is decided then is compared with
   them, and where it lacks one of them, or has others under their keys, they are aborted and it is sent as any other.
   No offsets are among them, so an abort of them alone, or a doubt, leaves nothing to be settled.

How it fails: RoundAborted (clean; nothing visible), RoundInDoubt (settle first), Fenced (fatal for this object).
After any of them the role drops what it holds for its partitions and starts again from ``positions()``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from waterclock.log.port import (
    Committed,
    Consumer,
    GroupMetadata,
    Log,
    Outgoing,
    Polled,
    Producer,
    Ticket,
    TopicPartition,
)
from waterclock.log.reading import is_one_committed
from waterclock.model.errors import BackendDown, Fenced, RequestError, RoundAborted, RoundInDoubt

if TYPE_CHECKING:
    from waterclock.abandoned import Abandoned

_INIT_TIMEOUT_S = 30.0
_COMMIT_TIMEOUT_S = 10.0
_COMMITTED_TIMEOUT_S = 10.0
_ABANDONED_AFTER_S = 0.3
"""So long a round takes that is just being committed, mostly; too short costs one question about the group."""


class Round:
    """The draft of one transaction. Made by ``Rounds.draft()``, thrown away after its commit, landed or not."""

    __slots__ = ("ahead", "epoch", "messages", "offsets", "tickets")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.ahead: list[Outgoing] = []
        self.messages: list[Outgoing] = []
        self.tickets: dict[int, Ticket] = {}
        self.offsets: dict[Consumer, dict[TopicPartition, Committed]] = {}

    def append(self, message: Outgoing) -> None:
        """Add a record."""
        self.messages.append(message)

    def extend(self, messages: Iterable[Outgoing]) -> None:
        """Add records, in order."""
        self.messages.extend(messages)

    def go_ahead(self, messages: Iterable[Outgoing]) -> None:
        """Add records that must stand in the log before any other of this round: what control is told (design §7)."""
        self.ahead.extend(messages)

    def append_tracked(self, message: Outgoing) -> Ticket:
        """Add a record whose offset is wanted: the ticket carries it once the round has landed."""
        ticket = Ticket()
        self.tickets[len(self.messages)] = ticket
        self.messages.append(message)
        return ticket

    def advance(self, consumer: Consumer, partition: TopicPartition, offset: int, metadata: str = "") -> None:
        """Commit ``offset`` (the next one to read) for ``partition``; a commit without metadata erases the old one."""
        self.offsets.setdefault(consumer, {})[partition] = Committed(offset, metadata)

    @property
    def empty(self) -> bool:
        """Nothing to send and nothing to commit."""
        return not self.messages and not self.offsets and not self.ahead


class Rounds:
    """Owns the producer of one transactional id, and the memberships of the consumers polled through it."""

    def __init__(
        self,
        log: Log,
        transactional_id: str,
        *,
        commit_timeout_s: float = _COMMIT_TIMEOUT_S,
        abandoned: Abandoned | None = None,
    ) -> None:
        """``abandoned``: rounds of the group whose positions are taken over; without it they are waited for."""
        self._log = log
        self._abandoned = abandoned
        self.transactional_id = transactional_id
        self._commit_timeout_s = commit_timeout_s
        self._producer: Producer | None = None
        self._members: dict[Consumer, GroupMetadata] = {}
        self._epoch = 0
        self._is_new_here = False
        self._early: list[Outgoing] | None = None
        """Sent already, in the transaction that is open."""
        self.early_count = 0
        """How many rounds landed of which something had been sent early."""
        self.init_count = 0
        """How often the id was initialised. A worker reads ``leases`` after each (design §7)."""

    def open(self) -> None:
        """Make sure that an initialised producer stands; does nothing when it does. Raises BackendDown, Fenced."""
        if self._producer is not None:
            return
        producer = self._log.producer(self.transactional_id)
        try:
            producer.init(_INIT_TIMEOUT_S)
        except BaseException:
            producer.close()
            raise
        self._producer = producer
        self.init_count += 1

    def poll(self, consumer: Consumer, max_records: int, timeout_s: float, linger_s: float = 0.0) -> Polled:
        """Poll, and take the membership as it is at this moment: what these records will be committed under."""
        polled = consumer.poll(max_records, timeout_s, linger_s)
        if polled.assigned or polled.revoked:
            self._epoch += 1
            self._is_new_here = True
            self._members.pop(consumer, None)
            self.give_up_early()
        if consumer not in self._members and consumer.owned():
            self._members[consumer] = consumer.metadata()
        return polled

    def draft(self) -> Round:
        """A new round, valid until the next change of any membership."""
        return Round(self._epoch)

    def positions(
        self, consumer: Consumer, partitions: Iterable[TopicPartition], *, within_s: float = _COMMITTED_TIMEOUT_S
    ) -> dict[TopicPartition, Committed | None]:
        """The one way to start, at assignment and after every trouble: the producer stands, then what is committed.

        In this order: only after the init is an earlier round settled, landed or aborted. ``within_s``: so long is
        waited for an answer where nobody ends rounds that were abandoned. Raises BackendDown, Fenced.
        """
        self.give_up_early()
        open_before = self._abandoned.look() if self._abandoned is not None else {}
        if self._abandoned is not None and self._is_new_here and self._producer is not None:
            self._forget(self._producer)  # who took us for dead, before we were back in the group, may have fenced it
        self.open()
        self._is_new_here = False
        places = list(partitions)
        if self._abandoned is None:
            return consumer.committed(places, within_s)
        try:
            found = consumer.committed(places, _ABANDONED_AFTER_S)
        except BackendDown:
            self._abandoned.end()
        else:
            if not self._abandoned.end_where_open(open_before):
                return found
        return consumer.committed(places, _COMMITTED_TIMEOUT_S)

    def commit(self, draft: Round) -> None:
        """Send the round. Returns when it has landed. Raises RoundAborted, RoundInDoubt, Fenced, BackendDown.

        RequestError: a record is over the limit or its topic does not exist; the round is aborted, like any other.
        """
        if self._early is not None and not _begins(self._early, draft):
            self.give_up_early()
        if draft.empty:
            return
        self.open()
        try:
            self._check(draft)
        except RoundAborted:
            self.give_up_early()
            raise
        producer = self._usable()
        early, self._early = self._early, None
        with self._cleaning_up(producer):
            if early is None:
                producer.begin()
            self._send(producer, draft, early or ())
        self.early_count += early is not None

    @property
    def is_early(self) -> bool:
        """Whether records wait for the commit of their round."""
        return self._early is not None

    def send_early(self, messages: Sequence[Outgoing]) -> None:
        """Send records that the next round is expected to hold, these very objects. Nothing is committed, and nothing
        is promised: until its commit, or ``give_up_early``, whoever reads these partitions waits, so be quick.

        Raises as ``commit`` does; nothing is open then.
        """
        if self._early is not None:
            raise RuntimeError(f"{self.transactional_id}: records wait for their commit already")
        self.open()
        producer = self._usable()
        with self._cleaning_up(producer):
            producer.begin()
            for message in messages:
                producer.append(message)
        self._early = list(messages)

    def give_up_early(self) -> None:
        """Abort what was sent early, where there is any. Raises Fenced."""
        if self._early is not None:
            self._early = None
            assert self._producer is not None
            self._abort(self._producer)

    def _usable(self) -> Producer:
        producer = self._producer
        assert producer is not None
        if producer.dirty:
            self._renew()
            raise RoundInDoubt(f"{self.transactional_id}: the producer lost its broker before the round began")
        return producer

    @contextmanager
    def _cleaning_up(self, producer: Producer) -> Iterator[None]:
        """Whatever goes wrong within: nothing of it stays open, and a producer in doubt is not used again."""
        try:
            yield
        except RoundAborted:
            self._abort(producer)
            raise
        except RoundInDoubt:
            self._renew()
            raise
        except Fenced:
            self._forget(producer)
            raise
        except RequestError:
            # A record that no broker would take: nothing was committed, and nothing may stay open.
            self._abort(producer)
            raise

    def landed(self, draft: Round) -> bool:
        """After RoundInDoubt: whether this round is in the log. Reads one of its tracked records back, the first that
        can be read: somebody's open transaction may hold back the partition of one, and all have the same answer.

        A record without a delivery report means that the round cannot have been committed. The high watermark is
        taken after the new producer's init, so nothing of the old one can land any more. Raises BackendDown.
        """
        self.open()
        records: dict[TopicPartition, int] = {}
        for index, ticket in draft.tickets.items():
            if ticket.offset is None:
                return False
            records.setdefault(TopicPartition(draft.messages[index].topic, ticket.partition), ticket.offset)
        return is_one_committed(self._log, records)

    def close(self) -> None:
        """Give the producer up. An open transaction of ours is aborted by the next init of the id."""
        if self._producer is not None:
            self._forget(self._producer)

    def _check(self, draft: Round) -> None:
        if draft.offsets and draft.epoch != self._epoch:
            raise RoundAborted("the membership changed after the round was begun")
        for consumer, offsets in draft.offsets.items():
            member = self._members.get(consumer)
            if member is None or member.generation < 0 or not member.member_id:
                raise RoundAborted(f"not a member of {consumer.group}: its metadata would fence nothing")
            lost = offsets.keys() - consumer.owned()
            if lost:
                raise RoundAborted(f"{sorted(lost)} are not ours any more")

    def _send(self, producer: Producer, draft: Round, early: Sequence[Outgoing]) -> None:
        # Records before offsets: the other order pays one more wait for the coordinator (kafka.md 3.1).
        sent: list[tuple[Ticket, Ticket]] = []
        try:
            if draft.ahead:
                for message in draft.ahead:
                    producer.append(message)
                producer.flush(self._commit_timeout_s)
            if draft.tickets:
                tickets = draft.tickets
                for index, message in enumerate(draft.messages):
                    ticket = tickets.get(index)
                    if ticket is None:
                        producer.append(message)
                    else:
                        sent.append((ticket, producer.append_tracked(message)))
            else:
                append = producer.append
                for message in _without(early, draft.messages):
                    append(message)
            for consumer, offsets in draft.offsets.items():
                producer.send_offsets(offsets, self._members[consumer])
            producer.commit(self._commit_timeout_s)
        finally:
            # Also after a failure: landed() needs to know which records were reported.
            for ticket, report in sent:
                ticket.offset, ticket.partition = report.offset, report.partition

    def _abort(self, producer: Producer) -> None:
        try:
            producer.abort(self._commit_timeout_s)
        except (RoundAborted, RoundInDoubt):
            self._renew()
        except Fenced:
            self._forget(producer)
            raise

    def _renew(self) -> None:
        """Drop the dirty producer and try for a new one; where no broker answers, the next call tries again."""
        if self._producer is not None:
            self._forget(self._producer)
        try:
            self.open()
        except BackendDown:
            return

    def _forget(self, producer: Producer) -> None:
        producer.close()
        self._producer = self._early = None


def _begins(early: Sequence[Outgoing], draft: Round) -> bool:
    """Whether the round may go on from what was sent early: it has all of that, and nothing else under its keys, which
    might belong before it. What must stand before everything else, or be tracked, rules that out."""
    if draft.ahead or draft.tickets:
        return False
    rest = _without(early, draft.messages)
    if len(rest) + len(early) != len(draft.messages):
        return False
    keys = {message.key for message in early}
    return not any(message.key in keys for message in rest)


def _without(early: Sequence[Outgoing], messages: Sequence[Outgoing]) -> Sequence[Outgoing]:
    """By identity: two records may be equal and yet be two."""
    if not early:
        return messages
    sent = set(map(id, early))
    return [message for message in messages if id(message) not in sent]
