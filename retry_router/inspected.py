"""What the reconciler has noticed in one partition, and what must be so before it judges (pure).

A run that waits although nothing is left that anybody could claim is an *orphan*. What must hold before one is called
so, in this order: its work stood on its tier (``tier_end``, the high watermark then), the workers' group has committed
a position behind that, and run-events was read to a high watermark taken after that position was seen. Whatever the
claim of its work left in the log would have been read by then. The same for a verdict that did not come: it is decided
in the round that reads the end of the attempt, so run-events is read to a high watermark taken after two looks. A
verdict behind somebody's open transaction stands, and cannot be read for as long as that is open.
"""

from __future__ import annotations

from typing import NamedTuple

from waterclock.log.port import TopicPartition
from waterclock.model.ids import Instant
from waterclock.model.reduce import RunState

from .sweep import Sweep

_SUSPECTS_MAX = 20
"""On one tier; by tier, so that one from which nobody takes hides nobody on another."""


class Suspect(NamedTuple):
    """A run that has waited for long, in this state, and where its work was to be claimed from.

    ``born_at``: when it was made, where it was never claimed. ``searched_to``: its work was searched for up to there.
    """

    run_id: str
    state: RunState
    tier: TopicPartition
    tier_end: int
    born_at: Instant = 0
    searched_to: int = 0


class Inspected:
    """The notes on one shard. All of it is lost with the shard, and found again."""

    __slots__ = (
        "answer_barrier",
        "barrier",
        "position_before",
        "ripe",
        "suspects",
        "sweep",
        "unanswered",
        "undecided",
        "unknown_workers",
    )

    def __init__(self) -> None:
        self.position_before: int | None = None
        """Where the shard stood at the last look; None before the first."""
        self.suspects: dict[str, Suspect] = {}
        self.ripe: list[Suspect] = []
        """Suspects whose work was taken, to be judged once the shard stands at ``barrier``."""
        self.barrier = 0
        self.undecided: dict[str, RunState] = {}
        """Runs whose attempt had ended at the last look, and no verdict was read yet."""
        self.unanswered: dict[str, RunState] = {}
        """Those of which that held at two looks, to be judged once the shard stands at ``answer_barrier``."""
        self.answer_barrier = 0
        self.sweep = Sweep()
        self.unknown_workers: frozenset[str] = frozenset()

    def knows(self, run_id: str) -> bool:
        """It is a suspect already, or ripe: noted anew before its repair, a run would be repaired twice."""
        return run_id in self.suspects or any(each.run_id == run_id for each in self.ripe)

    def has_room(self, topic: str) -> bool:
        """Whether one more suspect on this tier can be noted."""
        return sum(each.tier.topic == topic for each in (*self.suspects.values(), *self.ripe)) < _SUSPECTS_MAX
