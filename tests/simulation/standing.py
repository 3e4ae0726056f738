"""How the log stands: what is open, and who has not read to the end. For the end of a play, and for its checkers."""

from __future__ import annotations

from waterclock.log.memory import MemoryCluster
from waterclock.log.port import TopicPartition

from .world import NAMES

DOORS = (NAMES.group("intake"), NAMES.group("dispatcher"))
"""Those who bring commands in, and those who obey them."""

ENDLESS = NAMES.heartbeats
"""Grows as long as a worker lives, so nobody is ever at its end."""

Lag = tuple[str, str, int, int, int]
"""Group, topic, partition, committed (-1: never), end."""


def lagging(cluster: MemoryCluster, groups: tuple[str, ...] = ()) -> list[Lag]:
    """Every partition of these groups (none named: of all) whose committed position is not its end."""
    found = []
    for name, group in sorted(cluster._groups.items()):
        if groups and name not in groups:
            continue
        # What its members read as well: a group that has lost its positions may be far behind, and has none to tell it.
        topics = {place.topic for place in group.positions()}.union(group.topics()) - {ENDLESS}
        for topic in sorted(topics):
            for number in range(len(cluster.topic(topic).partitions)):
                place = TopicPartition(topic, number)
                committed, end = group.committed(place), cluster.partition(place).high
                at = -1 if committed is None else committed.offset
                if end and at != end:
                    found.append((name, topic, number, at, end))
    return found


def unstable(cluster: MemoryCluster) -> list[tuple[str, int, int, int]]:
    """Every partition (topic, number, last stable offset, end) in which something is still open."""
    return [
        (name, number, partition.lso, partition.high)
        for name in cluster.topic_names()
        for number, partition in enumerate(cluster.topic(name).partitions)
        if partition.lso != partition.high
    ]
