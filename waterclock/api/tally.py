"""How one tenant's runs stand: per tier due, running, retrying now; done, failed and skipped of the last hour.

Folded from run-events by the one reducer, so that the page, like everybody else, counts only what the log accepts.
What must hold: events are taken in the order of each partition, each once (an offset that comes again is passed over);
what is remembered is bounded. Limit: a run whose first event was never taken is not counted; ``since`` says from when
on all were.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from waterclock.model.errors import RequestError
from waterclock.model.events import FINAL, Ended, EventKind, Pending, RunEvent, RunStatus, Skipped
from waterclock.model.fold import Fold
from waterclock.model.ids import US_PER_S, Instant
from waterclock.model.job import Tier

from .tail import Seen

SPAN_S = 3_600
"""Ends are counted for so long."""

LAST_RUNS = 20
LAST_FAILURES = 10

_MINUTE_US = 60 * US_PER_S
_FINISHED_KEPT = 2_000
_OPEN_MAX = 200_000
_ERROR_MAX = 300


@dataclass(slots=True)
class TalliedRun:
    """One run. ``visible_at``: when its PENDING could be read, by the log's stamp, and not before its due time (a herd
    stands there before); 0: that has not come yet."""

    run_id: str
    job_id: str
    tier: Tier
    fire_at: Instant
    visible_at: Instant
    status: RunStatus = RunStatus.PENDING
    attempt: int = 0
    started_at: Instant = 0
    ended_at: Instant = 0
    error: str = ""


class Standing(NamedTuple):
    """The counts of one tier, as of now."""

    due: int
    running: int
    retrying: int
    done: int
    failed: int
    skipped: int


class Tally:
    """One tenant's. ``generation``: that of the topics, for the fencing tokens. Belongs to one thread."""

    def __init__(self, tenant: str, *, generation: int, since: Instant) -> None:
        self.since = since
        self.last: deque[TalliedRun] = deque(maxlen=LAST_RUNS)
        """The runs that were made last, the newest first."""
        self.failures: deque[TalliedRun] = deque(maxlen=LAST_FAILURES)
        """The runs that failed last, the newest first."""
        self._prefix = f"{tenant}:"
        self._generation = generation
        self._folds: dict[int, Fold[TalliedRun]] = {}
        self._open: Counter[tuple[Tier, RunStatus]] = Counter()
        self._ended: dict[int, Counter[tuple[Tier, RunStatus]]] = {}

    def take(self, batch: Iterable[Seen]) -> None:
        """Events of any tenant, in the order of their partitions. Raises FoldFull at the bound of open runs."""
        for seen in batch:
            if seen.job_id.startswith(self._prefix) and seen.event.run_id:
                self._apply(seen)

    def standing(self, now: Instant) -> dict[Tier, Standing]:
        """How each tier stands."""
        oldest = (now - SPAN_S * US_PER_S) // _MINUTE_US
        for minute in [minute for minute in self._ended if minute < oldest]:
            del self._ended[minute]
        ended: Counter[tuple[Tier, RunStatus]] = Counter()
        for counts in self._ended.values():
            ended.update(counts)
        return {
            tier: Standing(
                self._open[tier, RunStatus.PENDING],
                self._open[tier, RunStatus.RUNNING],
                self._open[tier, RunStatus.RETRYING],
                ended[tier, RunStatus.SUCCEEDED],
                ended[tier, RunStatus.FAILED],
                ended[tier, RunStatus.SKIPPED],
            )
            for tier in Tier
        }

    def _apply(self, seen: Seen) -> None:
        fold = self._folds.get(seen.partition)
        if fold is None:
            fold = Fold(generation=self._generation, window=_FINISHED_KEPT, open_max=_OPEN_MAX)
            self._folds[seen.partition] = fold
        if seen.offset < fold.position:
            return
        event = seen.event
        before = fold.open.get(event.run_id)
        try:
            verdict = fold.apply(event, seen.offset)
        except RequestError:  # its run id is none: whoever acts on run-events says so
            return
        if not verdict.accepted or verdict.state is None:
            return
        for _, touched in fold.touched:
            if touched.note is not None:
                self._stand(touched.note, touched.state.status, seen.at)
        known = before.note if before is not None else None
        if isinstance(event.detail, Skipped):
            # A run that was held is counted below, as it ends.
            fire_count = event.detail.fire_count - (known is not None)
            self._count_end(seen.at, event.detail.tier, RunStatus.SKIPPED, fire_count)
        if known is not None:
            self._move(known, event, verdict.state.status, seen.at)
        elif isinstance(event.detail, Pending):  # of a new run, or of one that was held
            run = TalliedRun(event.run_id, event.job_id, event.detail.tier, event.detail.fire_at, 0)
            run.visible_at = max(seen.at, event.detail.due_at or 0)
            fold.open[event.run_id].note = run
            self._open[run.tier, run.status] += 1
            self.last.appendleft(run)

    def _move(self, run: TalliedRun, event: RunEvent, status: RunStatus, at: Instant) -> None:
        if event.kind is EventKind.STARTED:
            run.started_at, run.attempt, run.ended_at = event.at, event.attempt, 0
        if isinstance(event.detail, Ended):
            run.ended_at = event.at
            run.error = (event.detail.error_message or event.detail.error_class)[:_ERROR_MAX]
        if event.kind is EventKind.RUN_FAILED:
            run.error = run.error or event.reason[:_ERROR_MAX]
        self._stand(run, status, at)

    def _stand(self, run: TalliedRun, status: RunStatus, at: Instant) -> None:
        """It has this status now."""
        if status is run.status:
            return
        self._open[run.tier, run.status] -= 1
        run.status = status
        if status not in FINAL:
            self._open[run.tier, status] += 1
            return
        self._count_end(at, run.tier, status, 1)
        if status is RunStatus.FAILED:
            self.failures.appendleft(run)

    def _count_end(self, at: Instant, tier: Tier, status: RunStatus, count: int) -> None:
        self._ended.setdefault(at // _MINUTE_US, Counter())[tier, status] += count
