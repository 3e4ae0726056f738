"""Which nodes of open DagRuns should somebody look at? A slow look over all of them, for ever.

Beside the recorder, because it reads what that one writes, and because whether DAG engines run must not decide whether
anybody notices that they do not. What must hold: it keeps nothing of a DagRun, so a restart forgets nothing; a lap is
told when it is over, whole. So a finding comes, and goes, a lap late: at least ``LAP_S``, and longer the more DagRuns
are open, because it takes ``SHARE`` of a processor at most. How it fails: a backend that is away, and the lap begins
again. A DagRun that cannot be read from a store that answers all else comes once more at the end of the lap; then the
lap passes over it, and the log names it: else one of many nodes would hide what is stuck in all others, for ever.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

import structlog

from waterclock.clock import Clock
from waterclock.dag_runs.looking import stuck_in
from waterclock.dag_runs.reading import Read, read_dag_run
from waterclock.dag_runs.views import stuck_view
from waterclock.model.errors import BackendDown, RequestError, UndecodableRecord
from waterclock.model.ids import parse_run_id
from waterclock.store.upkeep import STUCK_DAGS, UpkeepKeeping

from .share import REST_MAX_S, Share

SHARE = 0.1
LAP_S = 30.0
SLICE = 5
_NAMED_MAX = 20

_log = structlog.get_logger()


class Watched(Read, UpkeepKeeping, Protocol):
    """What it asks, and tells."""


class OpenDagRuns(Protocol):
    """Who knows which DagRuns are open."""

    @property
    def shards(self) -> Collection[int]: ...

    def open_dag_runs(self) -> Mapping[str, int]:
        """By run id the partition. Any thread may ask."""
        ...

    def close_dag_run(self, run_id: str) -> None:
        """It has ended, or is none."""
        ...


@dataclass(slots=True)
class _Lap:
    """``shards``: whose DagRuns it looks at; of others, that came since, it can say nothing."""

    left: deque[tuple[str, int]]
    shards: frozenset[int]
    served: Collection[str] | None
    began_s: float
    unread: set[str] = field(default_factory=set)
    """Run ids that come once more."""
    looked_at: Counter[int] = field(default_factory=Counter)
    reasons: dict[int, Counter[str]] = field(default_factory=dict)
    named: dict[int, list[dict[str, Any]]] = field(default_factory=dict)


class StuckWatch:
    """The core; one thread calls it. ``serving``: the pools that have a worker, None where nobody can tell."""

    ready = True

    def __init__(
        self,
        store: Watched,
        clock: Clock,
        history: OpenDagRuns,
        serving: Callable[[], Collection[str] | None],
        *,
        share: float = SHARE,
        lap_s: float = LAP_S,
    ) -> None:
        self._store = store
        self._clock = clock
        self._history = history
        self._serving = serving
        self._share = Share(clock, share)
        self._lap_s = lap_s
        self._lap: _Lap | None = None
        self._next_lap_s = 0.0

    def step(self) -> bool:
        """A slice of a lap. Always False: it rests after each."""
        if not self._share.begin():
            return False
        try:
            self._go_on()
        except BackendDown as down:
            _log.info("the look for stuck nodes waits", trouble=str(down))
            self._lap = None
            self._share.rest(REST_MAX_S)
        else:
            self._share.end()
        return False

    def drain(self) -> bool:
        """The next owner begins a lap of its own."""
        return False

    def close(self) -> None:
        """Nothing is held."""

    def _go_on(self) -> None:
        now_s = self._clock.monotonic_s()
        if self._lap is None:
            if now_s < self._next_lap_s:
                return
            shards = frozenset(self._history.shards)  # first: of these the DagRuns are known by now
            dag_runs = self._history.open_dag_runs()
            served = self._serving() if dag_runs else None
            self._lap = _Lap(deque(sorted(dag_runs.items())), shards, served, now_s)
        for _ in range(SLICE):
            if not self._lap.left:
                self._tell(self._lap)
                self._next_lap_s = self._lap.began_s + self._lap_s
                self._lap = None
                return
            run_id, partition = self._lap.left.popleft()
            try:
                self._look(self._lap, run_id, partition)
            except BackendDown as down:
                self._put_off(self._lap, run_id, partition, down)
                return  # it took long: the share counts it

    def _put_off(self, lap: _Lap, run_id: str, partition: int, down: BackendDown) -> None:
        """A DagRun could not be read. Raises BackendDown: nothing else can, either."""
        with suppress(UndecodableRecord):  # a newer release has told it: it was answered
            self._store.told(STUCK_DAGS, str(partition))
        if run_id in lap.unread:
            _log.warning("a DagRun cannot be read: not looked for stuck nodes in it", run_id=run_id, trouble=str(down))
            return
        lap.unread.add(run_id)
        lap.left.append((run_id, partition))

    def _look(self, lap: _Lap, run_id: str, partition: int) -> None:
        try:
            seen = read_dag_run(self._store, parse_run_id(run_id))
        except UndecodableRecord as odd:  # its row is of a later release: it may be open all the same
            _log.warning("a DagRun cannot be read: not looked for stuck nodes in it", run_id=run_id, cause=str(odd))
            return
        except RequestError:  # no DagRun, or no id: nothing to look at
            self._history.close_dag_run(run_id)
            return
        if seen is None:
            return  # its row is about to be written
        if not seen.is_open:
            self._history.close_dag_run(run_id)
            return
        lap.looked_at[partition] += 1
        named = lap.named.setdefault(partition, [])
        for stuck in stuck_in(seen, lap.served, self._clock.now()):
            lap.reasons.setdefault(partition, Counter())[stuck.reason.value] += 1
            if len(named) < _NAMED_MAX:  # of a wide outage there are a million
                named.append(stuck_view(run_id, stuck))

    def _tell(self, lap: _Lap) -> None:
        now = self._clock.now()
        for partition in sorted(lap.shards.intersection(self._history.shards)):
            parts = {
                "by_reason": dict(lap.reasons.get(partition, {})),
                "named": lap.named.get(partition, []),
                "looked_at": lap.looked_at[partition],
                "ended_at": now,
            }
            self._store.tell(STUCK_DAGS, str(partition), parts, now)
