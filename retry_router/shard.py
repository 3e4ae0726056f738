"""One run-events partition in the retry router's hands: what is read of it, and what that asks for.

What must hold: each attempt that ended badly asks for one verdict, each accepted final failure for one dead letter,
and only at or above the offset from which this router acts: what lies below was answered in the round that committed
it. Where nobody ever committed a position, only what is still undecided when the end is reached is answered.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from waterclock.log.following import Beginning, Followed
from waterclock.log.port import Outgoing, TopicPartition
from waterclock.model.events import EventKind, Pending, RunEvent, Started
from waterclock.model.fold import Fold
from waterclock.model.reduce import RunState

from .trail import Note, Trail, failed, follow, trail_of

_BADLY_ENDED = frozenset(
    {
        EventKind.ATTEMPT_FAILED,
        EventKind.ATTEMPT_TIMED_OUT,
        EventKind.ATTEMPT_CANCELLED,
        EventKind.ATTEMPT_LOST,
    }
)
_GIVEN_UP = frozenset({EventKind.RUN_FAILED, EventKind.RUN_EXPIRED})


class Undecided(NamedTuple):
    """A run that waits for its verdict: its last attempt ended, not well."""

    run_id: str
    state: RunState
    trail: Trail


class GivenUp(NamedTuple):
    """An accepted final failure that wants its dead letter."""

    event: RunEvent
    attempts: int
    trail: Trail

    @property
    def work_place(self) -> Started | None:
        """Where the work record stands; None for a run that was never claimed."""
        return self.trail.work


class Wanted:
    """What one round has to answer, and what was ignored meanwhile (by reason)."""

    __slots__ = ("given_up", "ignored", "rejects", "undecided")

    def __init__(self) -> None:
        self.rejects: list[Outgoing] = []
        self.undecided: list[Undecided] = []
        self.given_up: list[GivenUp] = []
        self.ignored: Counter[str] = Counter()


class Shard(Followed[Note]):
    """A partition and its fold, with a note for each open run (``trail.py``)."""

    __slots__ = ("_settles_backlog",)

    def __init__(self, partition: TopicPartition, start: Beginning, fold: Fold[Note]) -> None:
        super().__init__(partition, start, fold)
        self._settles_backlog = start.is_first

    def take(self, event: RunEvent, offset: int, wanted: Wanted) -> None:
        """Fold one event. A shard must be made live before its first event at or above ``act_from``."""
        run = self.fold.open.get(event.run_id)
        verdict = self.fold.apply(event, offset)
        if not verdict.accepted:
            if self.live:
                wanted.ignored[verdict.reason] += 1
            return
        if run is None:
            self._born(event)
            return
        kind = event.kind
        if kind in _BADLY_ENDED:
            run.note = failed(run.note, event)
            if self.live and run.state.undecided:
                wanted.undecided.append(Undecided(event.run_id, run.state, run.note))
        elif kind in _GIVEN_UP:
            if self.live:
                wanted.given_up.append(GivenUp(event, run.state.attempt, trail_of(run.note)))
        else:
            run.note = follow(run.note, event)

    def _born(self, event: RunEvent) -> None:
        """A run's first event: nothing is owed yet, but it may come with limits."""
        detail = event.detail
        if isinstance(detail, Pending) and (detail.queue_timeout_us or detail.run_timeout_us):
            self.fold.open[event.run_id].note = follow(None, event)

    def go_live(self, wanted: Wanted) -> None:
        """The fold has reached the offset from which we act. Say what the backlog of a first start wants."""
        self.live = True
        if not self._settles_backlog:
            return
        self._settles_backlog = False
        for run_id, run in self.fold.open.items():
            if run.state.undecided:
                wanted.undecided.append(Undecided(run_id, run.state, trail_of(run.note)))
