"""What backfills owe and have run, for one job and one span. Pure.

A run of a backfill is owed by the backfill and by nobody else: once, for a fire of its version in its range. A skipped
fire that it runs counts as a run, and no longer as skipped; one that the schedule never owed counts as owed and run.
What a backfill says that it has passed must have run, whoever ran it, unless a calendar blocks it.

What must hold: the runs of the span are all in ``facts``, so a fire without one has none. Limit: a revision of which
the store has no version any more is not judged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from waterclock.model.backfill import FIRES_MAX, Backfilled, make_backfill_id
from waterclock.model.ids import Instant, make_run_id
from waterclock.model.job import JobVersion
from waterclock.model.timetable import is_blocked, next_of
from waterclock.model.untellable import schedule_error

from .facts import Backfilled as Run
from .facts import JobFacts
from .sums import FaultKind, Span, Sums


class BackfillJudge:
    """One job. ``reason_of``: why the schedule skipped a fire, "" where it did not; ``owes``: whether it owed it."""

    def __init__(
        self,
        job_id: str,
        versions: Mapping[int, JobVersion],
        facts: JobFacts,
        span: Span,
        sums: Sums,
        *,
        reason_of: Callable[[Instant], str],
        owes: Callable[[Instant], bool],
    ) -> None:
        self._job_id = job_id
        self._versions = versions
        self._facts = facts
        self._span = span
        self._sums = sums
        self._reason_of = reason_of
        self._owes = owes
        self._by_schedule = {fire_at for fire_at, _ in facts.runs}
        self._by_schedule |= {fire_at for fire_at in facts.held if not reason_of(fire_at)}
        self._made: set[Instant] = set()

    def judge(self) -> None:
        for run in self._facts.backfilled:
            if self._span.from_at <= run.fire_at < self._span.decided_to:
                self._take(run)
        for told in self._facts.backfills.values():
            self._find_missing(told)

    def _take(self, run: Run) -> None:
        fire_at = run.fire_at
        if fire_at in self._made:
            self._fault(FaultKind.DOUBLED, fire_at, "backfills ran it twice")
            return
        self._made.add(fire_at)
        if fire_at in self._by_schedule:
            self._fault(FaultKind.DOUBLED, fire_at, "run, and run by a backfill as well")
            return
        wrong = self._wrong(run)
        if wrong:
            self._fault(FaultKind.WRONG, fire_at, wrong)
            return
        hour, reason = self._sums.at(fire_at), self._reason_of(fire_at)
        if reason:
            hour.skipped[reason] -= 1
            hour.runs += 1
        elif not self._owes(fire_at):  # what the schedule owes and nobody decided is missing, whoever ran it since
            hour.owed += 1
            hour.runs += 1

    def _wrong(self, run: Run) -> str:
        """What is wrong with a run of a backfill; "" where nothing is."""
        told = self._facts.backfills.get(run.number)
        if told is None:
            return f"made by backfill {run.number}, of which nothing is told"
        name = make_backfill_id(self._job_id, run.number)
        if run.revision != told.revision:
            return f"made of revision {run.revision}, {name} is of {told.revision}"
        version = self._versions.get(told.revision)
        if version is None or schedule_error(version.spec.schedule):
            return ""  # nobody can tell its fires
        if not told.from_at <= run.fire_at < told.to_at or next_of(version, run.fire_at - 1) != run.fire_at:
            return f"made by {name}, and no fire of its range"
        return f"made by {name}, and a calendar blocks that time" if is_blocked(version.spec, run.fire_at) else ""

    def _find_missing(self, told: Backfilled) -> None:
        """What it has passed and nobody ran."""
        version = self._versions.get(told.revision)
        after = max(told.from_at, self._span.from_at) - 1
        until = min(told.position_at, told.to_at - 1, self._span.decided_to - 1)
        for _ in range(FIRES_MAX if version is not None else 0):
            assert version is not None
            fire_at = next_of(version, after)
            if fire_at is None or fire_at > until:
                return
            if not (fire_at in self._made or fire_at in self._by_schedule or is_blocked(version.spec, fire_at)):
                name = make_backfill_id(self._job_id, told.number)
                self._fault(FaultKind.MISSING, fire_at, f"{name} has passed it, and nobody ran it")
            after = fire_at

    def _fault(self, kind: FaultKind, fire_at: Instant, why: str) -> None:
        self._sums.fault(kind, fire_at, make_run_id(self._job_id, fire_at), why)
