"""Who held which partition of the work topics since when, by what the coordinator has assigned; no worker is asked."""

from __future__ import annotations

from collections.abc import Iterable

from waterclock.log.memory_cluster import MemoryCluster
from waterclock.model.ids import Instant

Held = tuple[str, int, str, Instant]
"""Topic, partition, the worker that it was given to, and when."""


class Holders:
    """Of one play. A worker that goes on under its name holds what it held: that is no change."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self._cluster = cluster
        self._generations: dict[str, int] = {}
        self._now: dict[tuple[str, int], str] = {}
        self.changes: list[Held] = []

    def look(self, groups: Iterable[str], now: Instant) -> None:
        """Note what has changed since the last look."""
        for name in groups:
            group = self._cluster.group(name)
            if group.is_rebalancing or self._generations.get(name) == group.generation:
                continue
            self._generations[name] = group.generation
            for member in group._members.values():
                for place in member.assignment:
                    holder = member.instance or member.member_id
                    if self._now.get((place.topic, place.partition)) != holder:
                        self._now[place.topic, place.partition] = holder
                        self.changes.append((place.topic, place.partition, holder, now))
