"""One micro-batch: what happened to many runs, folded to one row for each.

Must hold: nothing is dropped at the bound; the loop hands a full batch over before it reads on. Rows are built when
the batch is handed over, and are values: what happens to a run afterwards belongs to the next batch.
"""

from __future__ import annotations

from collections import Counter

from waterclock.log.following import Followed
from waterclock.log.port import Record
from waterclock.model.backfill import Backfilled
from waterclock.model.events import EventKind, Pending, RunEvent, Skipped
from waterclock.model.fold import OpenRun
from waterclock.model.ids import Instant, ordinal
from waterclock.model.job import Command
from waterclock.store.backfill_port import BackfillRow
from waterclock.store.port import AttemptRow, AuditRow, FailureRow, History, LetterRow, RunRow

from .projection import (
    Known,
    attempt_row,
    audit_row,
    discarded_row,
    failure_row,
    follow,
    redriven_row,
    run_row,
    skipped_row,
)

_GIVEN_UP = frozenset({EventKind.RUN_FAILED, EventKind.RUN_EXPIRED})


class Batch:
    """Collects. ``record_count`` counts what was read, also what asks for no row."""

    __slots__ = (
        "_generation",
        "attempts",
        "audit",
        "backfills",
        "began_s",
        "failures",
        "ignored",
        "letters",
        "record_count",
        "runs",
        "skipped",
    )

    def __init__(self, began_s: float, generation: int = 1) -> None:
        """``generation``: of the topics."""
        self.began_s = began_s
        self._generation = generation
        self.record_count = 0
        self.runs: dict[str, OpenRun[Known]] = {}
        self.skipped: list[RunRow] = []
        self.attempts: list[AttemptRow] = []
        self.failures: list[FailureRow] = []
        self.audit: list[AuditRow] = []
        self.letters: list[LetterRow] = []
        self.backfills: dict[tuple[str, int], BackfillRow] = {}
        self.ignored: Counter[str] = Counter()

    def take(self, shard: Followed[Known], event: RunEvent, record: Record) -> None:
        """Fold one event; below the shard's ``act_from`` its row was acknowledged before, and none is written."""
        fold = shard.fold
        run = fold.open.get(event.run_id)
        verdict = fold.apply(event, record.offset)
        kind, detail = event.kind, event.detail
        if not verdict.accepted:
            if shard.live:
                self.ignored[verdict.reason] += 1
        elif isinstance(detail, Pending):
            self._made(shard, event, detail, record.timestamp_us)
        elif isinstance(detail, Backfilled):
            if shard.live:
                row = BackfillRow(event.job_id, detail, event.at, ordinal(self._generation, record.offset))
                self.backfills[event.job_id, detail.number] = row
        elif isinstance(detail, Skipped):
            self.runs.pop(event.run_id, None)  # it was held
            if shard.live:
                self.skipped.append(skipped_row(event, detail, record.timestamp_us))
        elif run is not None and run.note is not None:
            follow(run.note, event, run.state)
            if shard.live:
                self.runs[event.run_id] = run
                if kind is EventKind.RETRYING:
                    self.attempts.append(attempt_row(run.note, run.state, record.timestamp_us))
                elif kind in _GIVEN_UP:
                    self.failures.append(failure_row(run.note, event, run.state.attempt, record.timestamp_us))

    def _made(self, shard: Followed[Known], event: RunEvent, detail: Pending, recorded_at: Instant) -> None:
        """HELD, or PENDING: of a new run, or of one that was held."""
        run = shard.fold.open[event.run_id]
        if run.note is None:
            run.note = Known(event, detail, recorded_at)
        else:
            follow(run.note, event, run.state)
        if shard.live:
            self.runs[event.run_id] = run
            if detail.linked_run:
                self._note_letter(redriven_row(event, detail, recorded_at))

    def obey(self, command: Command, record: Record) -> None:
        """Note who asked for what, and what that did to a dead letter."""
        self.audit.append(audit_row(command, record.timestamp_us, record.partition, record.offset))
        self._note_letter(discarded_row(command, record.timestamp_us))

    def _note_letter(self, row: LetterRow | None) -> None:
        if row is not None:
            self.letters.append(row)

    def history(self) -> History:
        """The rows, one for each run."""
        rows = [run_row(run.note, run.state) for run in self.runs.values() if run.note is not None]
        beside = (self.attempts, self.failures, self.audit, self.letters)
        return History(rows + self.skipped, *beside, list(self.backfills.values()))

    @property
    def empty(self) -> bool:
        """Nothing was read."""
        return not self.record_count
