"""What the reconciler has noticed in one partition, and what must be so before it judges (pure).

A run that waits although nothing is left that anybody could claim is an *orphan*. What must hold before one is called
so, in this order: a retry has left the rungs (each in turn, the largest first, because what waits moves on to smaller
ones alone: the rung's group has committed a position behind the high watermark that was taken once the larger one was
passed), its work stood on its tier (``tier_end``, the high watermark then), the workers' group has committed a position
behind that, and run-events was read to a high watermark taken after that position was seen. Whatever the
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
"""On one tier, and on its rungs; by tier, so that one from which nobody takes hides nobody on another."""

GONE = -1
"""The ``tier_end`` of a retry that has left the rungs, while its tier's topic is not there."""


class Suspect(NamedTuple):
    """A run that has waited for long, in this state, and where its work was to be claimed from.

    ``born_at``: when it was made, where it was never claimed. ``searched_to``: its work was searched for up to there.
    ``rungs``: those that may still hold it; ``rung_end``: where the first of them ended when its turn came, else -1.
    """

    run_id: str
    state: RunState
    tier: TopicPartition
    tier_end: int
    born_at: Instant = 0
    searched_to: int = 0
    rungs: tuple[str, ...] = ()
    rung_end: int = -1


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

    def has_room(self, topic: str, *, on_rungs: bool) -> bool:
        """Whether one more suspect on this tier, or of those that may be on their way to it, can be noted."""
        noted = (*self.suspects.values(), *self.ripe)
        return sum(each.tier.topic == topic and bool(each.rungs) is on_rungs for each in noted) < _SUSPECTS_MAX
