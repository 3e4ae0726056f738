"""A consumer group in memory: the classic, eager protocol with the range assignor, and the committed positions.

Why: who owns a partition and whose commit counts is decided here. Must hold: a rebalance ends only when every member
has come to its poll and given everything up, or its session is over; then the generation grows by one; a member of an
older generation commits nothing. Trap kept on purpose (kafka.md 3.6): the broker checks the membership, never the
ownership, and metadata of a consumer that never joined (generation below 0) passes a transactional commit unchecked.
Static members (KIP-345) keep their partitions through a restart; a duplicate instance ends the *older* member.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum

from waterclock.model.errors import BackendDown

from .port import Committed, GroupMetadata, TopicPartition


class Standing(Enum):
    """What the coordinator answers to a heartbeat."""

    STEADY = "steady"
    REBALANCING = "give everything up and join again"
    UNKNOWN = "evicted: join as somebody new"
    FENCED = "another member has this instance"


class Member:
    """One member as the coordinator knows it."""

    def __init__(self, member_id: str, instance: str | None, topics: tuple[str, ...], session_s: float) -> None:
        self.member_id = member_id
        self.instance = instance
        self.topics = topics
        self.session_s = session_s
        self.seen_s = 0.0
        self.has_rejoined = True
        self.assignment: tuple[TopicPartition, ...] = ()


class Group:
    """Members, generation and positions of one group."""

    def __init__(self, name: str, partitions_of: Callable[[str], int]) -> None:
        self.name = name
        self._partitions_of = partitions_of
        self._members: dict[str, Member] = {}
        self._joined_count = 0
        self.generation = 0
        self.is_rebalancing = False
        self._committed: dict[TopicPartition, Committed] = {}
        self._pending: dict[str, dict[TopicPartition, Committed]] = {}

    def forget_topic(self, topic: str) -> None:
        """It is deleted, and the group's positions in it with it."""
        for place in [place for place in self._committed if place.topic == topic]:
            del self._committed[place]

    # Membership

    def join(
        self, client_id: str, instance: str | None, topics: tuple[str, ...], session_s: float, now_s: float
    ) -> Member:
        """A new member; one that takes over a static instance gets its partitions without a rebalance."""
        self._joined_count += 1
        member = Member(f"{client_id}-{self._joined_count}", instance, topics, session_s)
        member.seen_s = now_s
        before = self._holder(instance)
        if before is not None:
            del self._members[before.member_id]
        self._members[member.member_id] = member
        if before is not None and before.topics == topics and not self.is_rebalancing:
            member.assignment = before.assignment
        else:
            self._rebalance()
            self.rejoin(member)
        return member

    def beat(self, member: Member, now_s: float) -> Standing:
        """A heartbeat: keeps the session, tells what to do."""
        if member.member_id not in self._members:
            return Standing.UNKNOWN if self._holder(member.instance) is None else Standing.FENCED
        member.seen_s = now_s
        return Standing.REBALANCING if self.is_rebalancing and not member.has_rejoined else Standing.STEADY

    def rejoin(self, member: Member) -> None:
        """The member has given everything up and waits for the new generation."""
        member.has_rejoined = True
        self._end_rebalance_if_all_are_here()

    def leave(self, member: Member) -> None:
        """The member goes at once; the others share what it had."""
        if self._members.pop(member.member_id, None) is not None:
            self._rebalance()

    def expire(self, now_s: float) -> None:
        """Evict members whose session is over."""
        gone = [member for member in self._members.values() if now_s - member.seen_s > member.session_s]
        for member in gone:
            self.leave(member)

    def topics(self) -> tuple[str, ...]:
        """What its members read."""
        return tuple(sorted({topic for member in self._members.values() for topic in member.topics}))

    def instances(self) -> frozenset[str]:
        """The static names of its members."""
        return frozenset(member.instance for member in self._members.values() if member.instance is not None)

    @property
    def holds_pending(self) -> bool:
        """Whether an open transaction holds a position of it."""
        return bool(self._pending)

    def next_end_s(self) -> float:
        """No member that is here now is evicted before."""
        return min((member.seen_s + member.session_s for member in self._members.values()), default=float("inf"))

    def _holder(self, instance: str | None) -> Member | None:
        if instance is None:
            return None
        return next((member for member in self._members.values() if member.instance == instance), None)

    def _rebalance(self) -> None:
        if not self.is_rebalancing:
            self.is_rebalancing = True
            for member in self._members.values():
                member.has_rejoined = False
        self._end_rebalance_if_all_are_here()

    def _end_rebalance_if_all_are_here(self) -> None:
        if self.is_rebalancing and all(member.has_rejoined for member in self._members.values()):
            self.is_rebalancing = False
            self.generation += 1
            self._assign()

    def _assign(self) -> None:
        """Range, topic by topic: equal partition numbers of co-partitioned topics go to the same member."""
        shares: dict[str, list[TopicPartition]] = {member_id: [] for member_id in self._members}
        for topic in sorted({topic for member in self._members.values() for topic in member.topics}):
            readers = sorted(
                (m.instance or m.member_id, m.member_id) for m in self._members.values() if topic in m.topics
            )
            each, more = divmod(self._partitions_of(topic), len(readers))
            first = 0
            for index, (_, member_id) in enumerate(readers):
                end = first + each + (index < more)
                shares[member_id] += [TopicPartition(topic, partition) for partition in range(first, end)]
                first = end
        for member_id, share in shares.items():
            self._members[member_id].assignment = tuple(share)

    # Positions

    def refusal(self, metadata: GroupMetadata, *, transactional: bool) -> str | None:
        """Why positions sent under this membership are refused; None where they are taken."""
        if metadata.generation < 0 and not metadata.member_id:
            alive = bool(self._members) and not transactional
            return f"{self.name}: UNKNOWN_MEMBER_ID, the consumer never joined" if alive else None
        if metadata.member_id not in self._members:
            return f"{self.name}: UNKNOWN_MEMBER_ID {metadata.member_id}"
        if metadata.generation != self.generation:
            return f"{self.name}: ILLEGAL_GENERATION {metadata.generation}, now {self.generation}"
        return None

    def commit(self, offsets: Mapping[TopicPartition, Committed]) -> None:
        """Positions outside a transaction. Metadata that is not given erases what was there."""
        self._committed.update(offsets)

    def hold(self, transactional_id: str, offsets: Mapping[TopicPartition, Committed]) -> None:
        """Positions inside a transaction: pending until ``settle``."""
        self._pending.setdefault(transactional_id, {}).update(offsets)

    def settle(self, transactional_id: str, *, commit: bool) -> None:
        """The transaction has ended: its pending positions count, or are forgotten."""
        offsets = self._pending.pop(transactional_id, {})
        if commit:
            self._committed.update(offsets)

    def is_pending(self, partition: TopicPartition) -> bool:
        """Whether an open transaction holds a position of this partition (UNSTABLE_OFFSET_COMMIT)."""
        return any(partition in offsets for offsets in self._pending.values())

    def committed(self, partition: TopicPartition) -> Committed | None:
        """The position that stands."""
        return self._committed.get(partition)

    def positions(self) -> dict[TopicPartition, Committed]:
        """All positions that stand. Raises BackendDown where an open transaction is about to move one."""
        moving = sorted({place for offsets in self._pending.values() for place in offsets})
        if moving:
            raise BackendDown("kafka", f"{self.name}: a round is moving its positions: {moving}")
        return dict(self._committed)
