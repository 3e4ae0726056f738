"""What the engine counts of one partition, since it took it over: open DagRuns, releases, how long a release takes.

One thread counts; any thread may read, and sees whole numbers, though not all of the same moment.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Any

from waterclock.model.ids import US_PER_S, Instant
from waterclock.store.upkeep import RELEASE_BUCKETS_S

_BUCKETS_US = tuple(int(each * US_PER_S) for each in RELEASE_BUCKETS_S)


class Figures:
    """``under_way``: what a round releases that has not landed yet: how many nodes, and since when they could begin."""

    __slots__ = ("counts", "skipped", "sum_us", "under_way")

    def __init__(self) -> None:
        self.counts = [0] * (len(RELEASE_BUCKETS_S) + 1)
        self.sum_us = 0
        self.skipped = 0
        self.under_way: list[tuple[int, Instant]] = []

    @property
    def released(self) -> int:
        """Nodes released, in rounds that have landed."""
        return sum(self.counts)

    def release(self, count: int, since: Instant) -> None:
        """A round releases so many nodes of a DagRun of which something was heard last at ``since``, by the brokers."""
        if count:
            self.under_way.append((count, since))

    def landed(self, now: Instant) -> None:
        """The round stands."""
        for count, since in self.under_way:
            took_us = max(0, now - since)
            self.counts[bisect_left(_BUCKETS_US, took_us)] += count
            self.sum_us += took_us * count
        self.under_way.clear()

    def parts(self, open_count: int) -> dict[str, Any]:
        """As the table ``upkeep`` keeps them."""
        return {
            "open": open_count,
            "released": self.released,
            "skipped": self.skipped,
            "latency_counts": list(self.counts),
            "latency_sum_s": round(self.sum_us / US_PER_S, 6),
        }
