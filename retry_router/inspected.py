"""What the reconciler has noticed in one partition, and what must be so before it judges (pure).

A run that waits although nothing is left that anybody could claim is an *orphan*. What must hold before one is called
so, in this order: its work stood on its tier (``tier_end``, the high watermark then), the workers' group has committed
a position behind that, and run-events was read to a high watermark taken after that position was seen. Whatever the
claim of its work left in the log would have been read by then.
"""

from __future__ import annotations

from typing import NamedTuple

from waterclock.log.port import TopicPartition
from waterclock.model.reduce import RunState


class Suspect(NamedTuple):
    """A run that has waited for long, in this state, and where its work was to be claimed from."""

    run_id: str
    state: RunState
    tier: TopicPartition
    tier_end: int


class Inspected:
    """The notes on one shard. All of it is lost with the shard, and found again."""

    __slots__ = ("barrier", "position_before", "ripe", "suspects", "undecided", "unknown_workers")

    def __init__(self) -> None:
        self.position_before: int | None = None
        """Where the shard stood at the last look; None before the first."""
        self.suspects: dict[str, Suspect] = {}
        self.ripe: list[Suspect] = []
        """Suspects whose work was taken, to be judged once the shard stands at ``barrier``."""
        self.barrier = 0
        self.undecided: dict[str, RunState] = {}
        self.unknown_workers: frozenset[str] = frozenset()
