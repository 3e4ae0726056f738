"""When readers of committed records could come to a record: once every transaction that began before it has ended.

By the brokers' clock, from what the partitions of a play hold, markers included; no reader is asked.
"""

from __future__ import annotations

from waterclock.log.memory_partition import Partition
from waterclock.log.port import TopicPartition
from waterclock.model.ids import US_PER_S, Instant

from .world import World

_LONG_US = US_PER_S
"""Shorter transactions hold nobody up for longer than a turn or two."""


def stable_at(world: World, topic: str) -> dict[tuple[int, int], Instant]:
    """By partition and offset."""
    found = {}
    for number in range(world.outside.partitions(topic)):
        partition = world.cluster.partition(TopicPartition(topic, number))
        ends, at = _ends(partition), 0
        for entry in partition._entries:
            at = max(at, entry.appended_us, ends.get(id(entry.span), 0))
            found[number, entry.offset] = at
    return found


def held_up(world: World, topic: str) -> list[tuple[int, Instant, Instant]]:
    """Which partitions long transactions have held up, from when to when."""
    found = []
    for number in range(world.outside.partitions(topic)):
        partition = world.cluster.partition(TopicPartition(topic, number))
        begins: dict[int, Instant] = {}
        for entry in partition._entries:
            if entry.span is not None and not entry.is_marker:
                begins.setdefault(id(entry.span), entry.appended_us)
        spans = [(number, begins[span], end) for span, end in _ends(partition).items() if span in begins]
        found += [span for span in spans if span[2] - span[1] > _LONG_US]
    return sorted(found, key=lambda span: span[1])


def _ends(partition: Partition) -> dict[int, Instant]:
    """By transaction (its span stands in all of its entries), when its marker came."""
    return {id(entry.span): entry.appended_us for entry in partition._entries if entry.is_marker}
