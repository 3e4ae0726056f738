"""One partition of a rung, with crashes and doubtful commits at any time: each record moves on once, never early.

By rounds that landed alone: what a round took that did not land stands again.
"""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from waterclock.retry_router import standing
from waterclock.retry_router.hops import Wait
from waterclock.retry_router.standing import Stand, moved_from_text

from waterclock.log.port import Committed, Record, TopicPartition
from waterclock.model.ids import Instant

PLACE = TopicPartition("delay", 0)


class Topic:
    """What stands there; None: a marker, of which a consumer sees nothing but a gap."""

    def __init__(self, dice: Random) -> None:
        self.dice = dice
        self.ends: list[Instant | None] = []
        self.low = 0

    def write(self, now: Instant) -> None:
        self.ends.append(now + self.dice.choice([1, 3, 10, 10, 10]))
        if self.dice.random() < 0.4:
            self.ends.append(None)


class Reader:
    """A consumer of it. Straight after a start it still says where it stood before."""

    def __init__(self, topic: Topic) -> None:
        self.topic = topic
        self.at = 0
        self.says = 0

    def start(self, offset: int) -> None:
        self.at = offset

    def read(self, limit: int) -> list[Record]:
        found: list[Record] = []
        while self.at < len(self.topic.ends) and len(found) < limit:
            if self.topic.ends[self.at] is not None:
                found.append(Record(*PLACE, self.at, 0, b"k", b"v", ()))
            self.at += 1
        if self.topic.dice.random() < 0.5:  # past the markers, or not yet
            while self.at < len(self.topic.ends) and self.topic.ends[self.at] is None:
                self.at += 1
        self.says = self.at
        return found

    def position(self, place: TopicPartition) -> int:
        assert place == PLACE
        return self.says


class Life:
    """Who has the partition, from the committed position on."""

    def __init__(self, topic: Topic, committed: Committed | None, most: int) -> None:
        self.topic = topic
        self.reader = Reader(topic)
        self.stand = Stand(PLACE, committed, topic.low, most)
        self.stand.committed = committed
        self.reader.start(self.stand.next_offset)

    def read(self, limit: int) -> None:
        """As a rung does."""
        stand, records = self.stand, self.reader.read(limit)
        for record in records:
            end = self.topic.ends[record.offset]
            assert end is not None
            stand.take(record, Wait(end, end))
        if not records:
            stand.has_begun = True
            stand.came_empty()
        stand.move(self.reader)
        rest_from = stand.go_on()
        if rest_from is not None:
            self.reader.start(rest_from)

    def moved(self, now: Instant, limit: int) -> list[int]:
        found: list[int] = []
        while len(found) < limit and (each := self.stand.move_on(now)) is not None:
            assert each.ends_at <= now
            found.append(each.offset)
        return found


def play(seed: int) -> Counter[str]:
    """Three hundred steps, then all is let end."""
    dice = Random(seed)
    topic, most, now = Topic(dice), dice.choice([2, 5, 50]), 0
    landed: Counter[int] = Counter()
    met: Counter[str] = Counter()
    committed: Committed | None = None
    life = Life(topic, committed, most)
    steps = 0
    while steps < 300 or len(landed) < sum(end is not None for end in topic.ends):
        steps += 1
        assert steps < 2_000, (seed, "something stands for ever")
        now += dice.randint(0, 2)
        if steps < 300 and dice.random() < 0.5:
            topic.write(now)
        if dice.random() < 0.7:
            life.read(dice.randint(1, 6))
        if dice.random() < 0.2:
            life.stand.move(life.reader)  # a poll brought records of other partitions
        moved = life.moved(now, dice.randint(0, 4))
        due = life.stand.to_commit()
        fate = dice.choice(["lands", "lands", "lands", "lands", "in doubt, landed", "in doubt, lost", "killed before"])
        if due is None or fate in {"in doubt, lost", "killed before"}:
            met["lost"] += len(moved)
        else:
            landed.update(moved)
            committed = due
            ahead = moved_from_text(due.offset, due.metadata)
            assert max(ahead, default=due.offset) - due.offset <= standing.SPAN_MAX
            met["ahead"] += bool(ahead)
        if "in doubt" in fate or "killed" in fate or (moved and due is None):
            life = Life(topic, committed, most)
            met["take-overs"] += 1
        elif due is not None:
            life.stand.committed = due
        if committed is not None and dice.random() < 0.1:
            topic.low = dice.randint(topic.low, committed.offset)  # retention never takes what still stands
    assert set(landed.values()) <= {1}, (seed, [offset for offset, times in landed.items() if times > 1])
    return met


@pytest.mark.parametrize("span", [3, 20_000])
def test_each_record_of_a_rung_moves_on_once_across_crashes(monkeypatch: pytest.MonkeyPatch, span: int) -> None:
    """However few offsets the bitmap may span, and however few records are held."""
    monkeypatch.setattr(standing, "SPAN_MAX", span)
    met: Counter[str] = Counter()
    for seed in range(300):
        met.update(play(seed))
    assert min(met[what] for what in ("lost", "ahead", "take-overs")) > 1_000, met
