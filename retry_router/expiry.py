"""When the time of a run is over: its wait for a worker, or its whole life (design §4).

Only runs whose job sets a limit are known here; all others cost nothing. What must hold: a run is not expired before
its time by this router's clock, and each of its states is acted on once (a repeat is ignored by the reducer). How it
fails: times count from stamps of the dispatcher's clock (the age of a trigger from the brokers'). Where ours is N
seconds apart from that, runs expire by as much too early or too late; where it is ahead, a limit of less than N ends
them at once. So ``docs/retries.md`` advises against limits below half a minute.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from waterclock.model.events import RunStatus
from waterclock.model.fold import OpenRun
from waterclock.model.ids import Instant
from waterclock.model.reduce import RunState

from .trail import Note, Trail

_NEVER = 2**63 - 1
_SPARE = 1_000
"""So many entries of ended runs are no reason to sweep."""
_LOOKED_AT_MAX = 10_000
"""Entries that one call takes, about 20 ms; the rest comes with the next."""


class Over(NamedTuple):
    """A run whose time is over, in this state."""

    run_id: str
    state: RunState


class Deadlines:
    """The deadlines of one shard's open runs, soonest first. One that is out of date is looked up as it comes.

    Each run has one entry at most, and what ended runs leave behind is swept out before it is more than the rest.
    """

    __slots__ = ("_heap", "_queued", "_told")

    def __init__(self) -> None:
        self._heap: list[tuple[Instant, str]] = []
        self._queued: dict[str, Instant] = {}
        # By run its entry in the heap; what else lies there is of runs that have ended.
        self._told: dict[str, RunState] = {}

    def note(self, run_id: str, run: OpenRun[Note]) -> None:
        """Something happened to a run that may have limits: it was made, restored, or waits again."""
        over_at = over_at_of(run.state, run.note)
        if over_at < self._queued.get(run_id, _NEVER):  # an earlier entry brings a later deadline as well
            self._queue(over_at, run_id)

    def forget(self, run_id: str) -> None:
        """The run is final."""
        self._told.pop(run_id, None)
        if self._queued.pop(run_id, None) is not None:
            self._sweep()

    def has_before(self, now: Instant) -> bool:
        """Whether the time of some run may be over."""
        return bool(self._heap) and self._heap[0][0] <= now

    def over(self, now: Instant, runs: Mapping[str, OpenRun[Note]], limit: int) -> Iterator[Over]:
        """The runs, at most ``limit``, whose time is over now; each once for each state that it is found in."""
        heap = self._heap
        for _ in range(_LOOKED_AT_MAX):
            if limit <= 0 or not heap or heap[0][0] > now:
                return
            queued_at, run_id = heappop(heap)
            if self._queued.get(run_id) != queued_at:
                continue
            del self._queued[run_id]
            run = runs.get(run_id)
            if run is None:
                continue
            over_at = over_at_of(run.state, run.note)
            if over_at > now:
                if over_at < _NEVER:
                    self._queue(over_at, run_id)
            elif self._told.get(run_id) != run.state:
                self._told[run_id] = run.state
                limit -= 1
                yield Over(run_id, run.state)

    def _queue(self, over_at: Instant, run_id: str) -> None:
        self._queued[run_id] = over_at
        heappush(self._heap, (over_at, run_id))
        self._sweep()

    def _sweep(self) -> None:
        """A limit may be a year away: entries of ended runs do not wait for it. Paid by the runs that ended."""
        if len(self._heap) > 2 * len(self._queued) + _SPARE:
            self._heap[:] = [(over_at, run_id) for run_id, over_at in self._queued.items()]
            heapify(self._heap)


def over_at_of(state: RunState, note: Note | None) -> Instant:
    """When the time of a run in this state is over, and something is to be done about that; 2**63 - 1: never."""
    if not isinstance(note, Trail) or state.final or state.ending:  # it was asked already, whoever did it
        return _NEVER
    over_at = note.due_at + note.run_timeout_us if note.run_timeout_us else _NEVER
    waits = state.status is not RunStatus.RUNNING and not state.held
    if waits and note.queue_timeout_us:
        over_at = min(over_at, note.claimable_at + note.queue_timeout_us)
    return over_at
