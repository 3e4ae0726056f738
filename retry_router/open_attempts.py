"""Which attempts of one run-events partition are open, by worker, and which of them must be called lost.

Lost by level, not by edge (design §8): an open attempt of a dead incarnation becomes a suspect whenever anything could
have made it one: the take-over, a death that was read, a STARTED of somebody who is dead already. What must hold: a
suspect is called lost only after the partition was read to a high watermark that was taken after its worker's death was
read, so that an outcome which landed before the death is never overruled; and once for each attempt, as long as this
process remembers (a repeat is ignored by the reducer).

How it fails: somebody's open transaction on the partition holds the verdict back for its time-out; nothing else does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from waterclock.model.fold import OpenRun

from .deaths import Deaths

Note = TypeVar("Note")


class OpenAttempts:
    """Belongs to one shard. ``deaths`` is shared by all shards of a router."""

    __slots__ = ("_barrier", "_by_worker", "_deaths", "_fresh", "_told", "_waiting")

    def __init__(self, deaths: Deaths) -> None:
        self._deaths = deaths
        self._by_worker: dict[str, dict[str, None]] = {}
        self._fresh: dict[str, None] = {}
        # Suspects for whom the high watermark has not been asked yet, and those who wait until it is reached.
        self._waiting: dict[str, None] = {}
        self._barrier = 0
        self._told: dict[str, int] = {}

    def started(self, worker: str, incarnation: int, run_id: str) -> None:
        """An attempt of this run was opened."""
        self._by_worker.setdefault(worker, {})[run_id] = None
        if self._deaths.is_dead(worker, incarnation):
            self._fresh[run_id] = None

    def ended(self, worker: str, run_id: str) -> None:
        """It has an outcome."""
        runs = self._by_worker.get(worker)
        if runs is None:
            return
        runs.pop(run_id, None)
        if not runs:
            del self._by_worker[worker]
        if self._told:
            self._told.pop(run_id, None)

    def died(self, worker: str) -> None:
        """The newest record of this worker on ``leases`` has changed."""
        self._fresh.update(self._by_worker.get(worker, {}))

    def suspect_all(self) -> None:
        """The partition is ours now: whatever happened before, judge everybody."""
        for worker in self._by_worker:
            if worker in self._deaths.standings:
                self.died(worker)

    def unknown_workers(self) -> dict[str, str]:
        """Workers with open attempts and no record on ``leases``; with one of their runs."""
        standings = self._deaths.standings
        return {worker: next(iter(runs)) for worker, runs in self._by_worker.items() if worker not in standings}

    def lost(
        self, position: int, high_watermark: Callable[[], int], runs: Mapping[str, OpenRun[Note]], limit: int
    ) -> list[str]:
        """The runs, at most ``limit``, whose open attempt must be called lost now. ``position``: read up to there."""
        if not self._waiting and self._fresh:
            self._waiting, self._fresh = self._fresh, {}
            self._barrier = high_watermark()
        if not self._waiting or position < self._barrier:
            return []
        found: list[str] = []
        for run_id in list(self._waiting):
            if len(found) >= limit:
                break
            del self._waiting[run_id]
            if self._is_lost(run_id, runs):
                found.append(run_id)
        return found

    @property
    def suspects(self) -> bool:
        """Whether somebody is to be judged as soon as the log was read far enough."""
        return bool(self._waiting or self._fresh)

    def _is_lost(self, run_id: str, runs: Mapping[str, OpenRun[Note]]) -> bool:
        run = runs.get(run_id)
        if run is None or not run.state.attempt_open or self._told.get(run_id) == run.state.token:
            return False
        if not self._deaths.is_dead(run.state.worker, run.state.incarnation):
            return False
        self._told[run_id] = run.state.token
        return True
