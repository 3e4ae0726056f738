"""How much memory the servers may have: ordinary heaps, or smaller ones on a machine with little free."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

ROOMY_MB = 3_072
"""Below this much free memory the small sizes are used."""


class Heaps(NamedTuple):
    """Sizes in MiB. ``small``: chosen because memory is short."""

    kafka_mb: int
    cassandra_mb: int
    memtable_mb: int
    small: bool

    def told(self, free_mb: int) -> str:
        """What is reduced, for the person at the terminal."""
        return (
            f"only {free_mb} MB of memory free: Kafka gets {self.kafka_mb} MB of heap instead of {NORMAL.kafka_mb}, "
            f"Cassandra {self.cassandra_mb} instead of {NORMAL.cassandra_mb} (memtables {self.memtable_mb} instead of "
            f"{NORMAL.memtable_mb}); it works, with less throughput"
        )


NORMAL = Heaps(kafka_mb=512, cassandra_mb=512, memtable_mb=96, small=False)
SMALL = Heaps(kafka_mb=256, cassandra_mb=256, memtable_mb=48, small=True)


def choose_heaps(free_mb: int | None = None, *, heap_mb: int | None = None) -> Heaps:
    """The heaps for ``free_mb`` of free memory (default: what this machine has); ``heap_mb`` wins where it is set."""
    if heap_mb is not None:
        memtable_mb = max(SMALL.memtable_mb, heap_mb * NORMAL.memtable_mb // NORMAL.cassandra_mb)
        return Heaps(heap_mb, heap_mb, memtable_mb, small=False)
    return SMALL if (available_mb() if free_mb is None else free_mb) < ROOMY_MB else NORMAL


def available_mb() -> int:
    """Free memory in MiB, caches that can be dropped included; plenty where the system does not tell."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return ROOMY_MB * 4
    for line in lines:
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) // 1024
    return ROOMY_MB * 4
