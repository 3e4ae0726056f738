"""One rung of the ladder in a router's hands: its group member, and the partitions that are ours.

Each rung has a consumer of its own: their positions, rebalances and prefetching are apart, so that a crowd on one holds
back nobody on another.
"""

from __future__ import annotations

from collections.abc import Mapping

from waterclock.log.port import Committed, Log, Polled, TopicPartition
from waterclock.model.ids import Instant
from waterclock.told_positions import ToldPositions
from waterclock.transact import Rounds
from waterclock.wire.names import RUNGS, Names

from .hops import wait_of
from .standing import Stand, may_repeat_to

_STANDING_MAX = 10_000
"""Records of one partition that are held in memory; they are bounded by their bytes too (``standing.py``)."""
_POLLS_PER_STAY = 20
_POLL_EVERY_MAX_S = 0.5


class Rung:
    """``word`` names it. ``poll_every_s``: polling so often is often enough."""

    def __init__(self, log: Log, names: Names, word: str, instance: str, rounds: Rounds) -> None:
        self.word = word
        self.consumer = log.consumer(group_of(names, word), [names.delay(word)], instance=instance, headers=True)
        self._told = ToldPositions(rounds, self.consumer)
        self.poll_every_s = min(RUNGS[word] / _POLLS_PER_STAY, _POLL_EVERY_MAX_S)
        self.asked_at_s = 0.0
        self.poll_due_s = 0.0
        self.commit_due_s = 0.0
        self.stands: dict[TopicPartition, Stand] = {}
        self.to_take: set[TopicPartition] = set()
        self._has_joined = False

    @property
    def ready(self) -> bool:
        """A member of the group, and every partition that is ours was taken over."""
        return self._has_joined and not self.to_take

    @property
    def next_end(self) -> Instant | None:
        """When the first of its records may move on."""
        return min((end for stand in self.stands.values() if (end := stand.next_end) is not None), default=None)

    @property
    def wants_more(self) -> bool:
        """Records were let go, and there is room for them now: whoever waits for the next poll makes them late."""
        return any(stand.wants_more for stand in self.stands.values())

    def notice(self, polled: Polled) -> None:
        """Membership: forget what is no longer ours, remember what must be taken over."""
        for gone in polled.revoked:
            self.stands.pop(gone, None)
            self.to_take.discard(gone)
        if polled.assigned:
            self.to_take.update(polled.assigned)
            self._told.begin_again()
        self._has_joined = self._has_joined or bool(polled.assigned) or self.consumer.metadata().generation >= 0

    def start(self, log: Log, now_s: float) -> bool:
        """Begin where the group stands, or where what is kept begins, as far as that is told; whether any of it was.

        Raises BackendDown, Fenced.
        """
        committed = self._told.of(self.to_take, now_s)
        if not committed:
            return False
        stands: dict[TopicPartition, Stand] = {}
        for place, at in committed.items():
            end = log.high_watermark(place) if may_repeat_to(at) is None else 0
            stands[place] = Stand(place, at, log.low_watermark(place), _STANDING_MAX, end)
        self.consumer.start({place: stand.next_offset for place, stand in stands.items()})
        self.stands |= stands
        self.to_take -= committed.keys()
        return True

    def start_over(self) -> None:
        """Drop everything: what is ours is to be taken over again."""
        self.stands.clear()
        self.to_take = set(self.consumer.owned())
        self._told.begin_again()

    def take(self, polled: Polled) -> None:
        """Hold what a poll brought; afterwards every stand stands at the consumer's position."""
        for record in polled.records:
            stand = self.stands.get(TopicPartition(record.topic, record.partition))
            if stand is not None:
                stand.take(record, wait_of(record.headers))
        for stand in self.stands.values():
            if not polled.records:
                stand.has_begun = True
                stand.came_empty()
            stand.move(self.consumer)
        rest = {place: offset for place, stand in self.stands.items() if (offset := stand.go_on()) is not None}
        if rest:
            self.consumer.start(rest)

    def due(self) -> dict[TopicPartition, Committed]:
        """The positions that differ from what is committed."""
        found = ((place, stand.to_commit()) for place, stand in self.stands.items())
        return {place: position for place, position in found if position is not None}

    def committed(self, positions: Mapping[TopicPartition, Committed]) -> None:
        """These have landed."""
        for place, position in positions.items():
            self.stands[place].committed = position


def group_of(names: Names, word: str) -> str:
    """The consumer group of a rung: one for each, so that their positions and rebalances are apart."""
    return f"{names.group('retry-ladder')}.{word}"
