"""Which attempts of one run-events partition are open, by worker, and which of them must be called lost.

Lost by level, not by edge (design §8): an open attempt of a dead incarnation becomes a suspect whenever anything could
have made it one: the take-over, a death that was read, a STARTED of somebody who is dead already. What must hold: a
suspect is called lost after the partition was read to a high watermark that was taken after its worker's death was
read, so that nobody is called lost who has ended; and once for each attempt: by this process, which remembers, and by
its predecessors, whose words are read first.

How it fails: somebody's open transaction hides the end of the partition, a dead worker's until its lease is over. That
is waited for ``HELD_UP_S`` at most, else the deaths of many would wait for each other. An outcome that stood hidden
then counts all the same: it stands before the LOST, which everybody ignores, because the dead was fenced before its
death was told, and nothing of it comes after. What a predecessor has said is waited for without that bound (the
caller says ``is_behind``): the transaction that hides it ends by itself.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeVar

from waterclock.model.fold import OpenRun

from .deaths import Deaths

Note = TypeVar("Note")

HELD_UP_S = 1.0
_BATCHES_MAX = 8


class _Batch(NamedTuple):
    """Suspects who are judged once the partition was read to ``barrier``, or from ``patient_until_s`` on."""

    barrier: int
    patient_until_s: float
    runs: dict[str, None]


class OpenAttempts:
    """Belongs to one shard. ``deaths`` is shared by all shards of a router."""

    __slots__ = ("_batches", "_by_worker", "_deaths", "_fresh", "_told")

    def __init__(self, deaths: Deaths) -> None:
        self._deaths = deaths
        self._by_worker: dict[str, dict[str, None]] = {}
        # Suspects for whom the high watermark has not been asked yet, and those who wait until it is reached.
        self._fresh: dict[str, None] = {}
        self._batches: deque[_Batch] = deque()
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
        self,
        position: int,
        high_watermark: Callable[[], int],
        runs: Mapping[str, OpenRun[Note]],
        limit: int,
        *,
        now_s: float,
        is_behind: bool,
    ) -> list[str]:
        """The runs, at most ``limit``, whose open attempt must be called lost now.

        ``position``: read up to there; ``is_behind``: there is more to be read, also hidden words of a predecessor.
        Raises what ``high_watermark`` does.
        """
        if self._fresh and len(self._batches) < _BATCHES_MAX:
            self._batches.append(_Batch(high_watermark(), now_s + HELD_UP_S, self._fresh))
            self._fresh = {}
        found: list[str] = []
        for batch in self._batches:
            is_held_up = not is_behind and now_s >= batch.patient_until_s
            if position >= batch.barrier or is_held_up:
                found += self._judge(batch.runs, runs, limit - len(found))
        self._batches = deque(batch for batch in self._batches if batch.runs)
        return found

    def _judge(self, suspects: dict[str, None], runs: Mapping[str, OpenRun[Note]], limit: int) -> list[str]:
        found: list[str] = []
        for run_id in list(suspects):
            if len(found) >= limit:
                break
            del suspects[run_id]
            if self._is_lost(run_id, runs):
                found.append(run_id)
        return found

    def _is_lost(self, run_id: str, runs: Mapping[str, OpenRun[Note]]) -> bool:
        run = runs.get(run_id)
        if run is None or not run.state.attempt_open or self._told.get(run_id) == run.state.token:
            return False
        life = run.state.worker, run.state.incarnation
        if not (self._deaths.is_dead(*life) or self._deaths.is_of_a_topic_before(*life)):
            return False
        self._told[run_id] = run.state.token
        return True
