"""One micro-batch: what happened to many runs, folded to one row for each.

Must hold: nothing is dropped at the bound; the loop hands a full batch over before it reads on. Rows are built when
the batch is handed over, and are values: what happens to a run afterwards belongs to the next batch.

Behind, most runs that are still open when a batch is handed over end in the next one: their rows are left to that one,
which writes them however they stand then. So no picture is later than one batch.
"""

from __future__ import annotations

from collections import Counter

from waterclock.log.port import Record
from waterclock.model.backfill import Backfilled
from waterclock.model.dag_events import NodeSkipped
from waterclock.model.events import EventKind, Pending, RunEvent, Skipped
from waterclock.model.fold import OpenRun
from waterclock.model.ids import Instant
from waterclock.model.job import Command
from waterclock.store.backfill_port import BackfillRow
from waterclock.store.dag_port import NodeRow
from waterclock.store.port import AttemptRow, AuditRow, FailureRow, History, LetterRow, RunRow

from .node_rows import node_row, skipped_node_row
from .projection import (
    Known,
    attempt_row,
    audit_row,
    discarded_row,
    dropped_row,
    failure_row,
    follow,
    follow_touched,
    redriven_row,
    run_row,
    skipped_row,
)
from .shard import Shard

_GIVEN_UP = frozenset({EventKind.RUN_FAILED, EventKind.RUN_EXPIRED})


class Batch:
    """Collects. ``record_count`` counts what was read, also what asks for no row."""

    __slots__ = (
        "attempts",
        "audit",
        "backfills",
        "began_s",
        "failures",
        "ignored",
        "left",
        "letters",
        "nodes",
        "record_count",
        "runs",
        "skipped",
        "skipped_nodes",
    )

    def __init__(self, began_s: float) -> None:
        self.began_s = began_s
        self.left: frozenset[str] = frozenset()
        """Runs whose rows the batch before has left to this one."""
        self.record_count = 0
        self.runs: dict[str, OpenRun[Known]] = {}
        self.nodes: dict[str, OpenRun[Known]] = {}
        self.skipped: list[RunRow] = []
        self.skipped_nodes: list[NodeRow] = []
        self.attempts: list[AttemptRow] = []
        self.failures: list[FailureRow] = []
        self.audit: list[AuditRow] = []
        self.letters: list[LetterRow] = []
        self.backfills: dict[tuple[str, int], BackfillRow] = {}
        self.ignored: Counter[str] = Counter()

    def take(self, shard: Shard, event: RunEvent, record: Record) -> None:
        """Fold one event; below the shard's ``act_from`` its row was acknowledged before, and none is written."""
        fold = shard.fold
        run = fold.open.get(event.run_id)
        verdict = shard.apply(event, record.offset, run)
        detail = event.detail
        if not verdict.accepted:
            if shard.live:
                self.ignored[verdict.reason] += 1
        elif isinstance(detail, Pending):
            self._made(shard, event, detail, record.timestamp_us)
        elif isinstance(detail, Backfilled):
            self._backfilled(shard, event, detail)
        elif isinstance(detail, Skipped):
            self.runs.pop(event.run_id, None)  # it was held
            if shard.live:
                self.skipped.append(_row_of_skip(run, event, detail, record.timestamp_us))
        elif isinstance(detail, NodeSkipped):
            self._never_runs(shard, event, detail, record.timestamp_us)
        elif run is not None and run.note is not None:
            follow(run.note, event, run.state)
            if shard.live:
                self._moved(event, run, run.note, record.timestamp_us)
        if fold.touched:
            self._follow_touched(shard, event)
        if isinstance(detail, Skipped):
            self._drop_covered(shard, event, detail)

    def _moved(self, event: RunEvent, run: OpenRun[Known], known: Known, recorded_at: Instant) -> None:
        self.note_run(event.run_id, run)
        if event.kind is EventKind.RETRYING:
            self.attempts.append(attempt_row(known, run.state, recorded_at))
        elif event.kind in _GIVEN_UP and not run.state.is_dag:
            self.failures.append(failure_row(known, event, run.state.attempt, recorded_at))

    def _backfilled(self, shard: Shard, event: RunEvent, detail: Backfilled) -> None:
        if shard.live:
            self.backfills[event.job_id, detail.number] = BackfillRow(event.job_id, detail, event.at)

    def _follow_touched(self, shard: Shard, event: RunEvent) -> None:
        """What the event has made of others: of its DagRun, or of the nodes of that."""
        for run_id, touched in shard.fold.touched:
            if touched.note is not None:
                follow_touched(touched.note, event, touched.state)
                if shard.live:
                    self.note_run(run_id, touched)

    def _drop_covered(self, shard: Shard, event: RunEvent, skipped: Skipped) -> None:
        """Runs that were held under fires of a range beside its first one, whatever became of that."""
        for run_id, run in shard.fold.skipped:
            self.runs.pop(run_id, None)
            if shard.live and run.note is not None:
                fire_at = run.note.pending.fire_at
                own = skipped._replace(from_at=fire_at, to_at=fire_at, fire_count=1)
                self.skipped.append(dropped_row(run.note, run.state, event, own))

    def _never_runs(self, shard: Shard, event: RunEvent, detail: NodeSkipped, recorded_at: Instant) -> None:
        dag_run = shard.fold.open[event.run_id.partition("/")[0]]  # accepted, so its DagRun is open
        if shard.live and dag_run.note is not None:
            self.skipped_nodes.append(skipped_node_row(dag_run.note, event, detail, recorded_at))

    def _made(self, shard: Shard, event: RunEvent, detail: Pending, recorded_at: Instant) -> None:
        """HELD, or PENDING: of a new run, or of one that was held."""
        run = shard.fold.open[event.run_id]
        if run.note is None:
            run.note = Known(event, detail, recorded_at)
        else:
            follow(run.note, event, run.state)
        if shard.live:
            self.note_run(event.run_id, run)
            if detail.linked_run and detail.dag is None:  # a DagRun has no letter
                self._note_letter(redriven_row(event, detail))

    def note_run(self, run_id: str, run: OpenRun[Known]) -> None:
        """Its row is to be written."""
        (self.nodes if "/" in run_id else self.runs)[run_id] = run

    def obey(self, command: Command, record: Record) -> None:
        """Note who asked for what, and what that did to a dead letter."""
        self.audit.append(audit_row(command, record.timestamp_us, record.partition, record.offset))
        self._note_letter(discarded_row(command, record.timestamp_us))

    def _note_letter(self, row: LetterRow | None) -> None:
        if row is not None:
            self.letters.append(row)

    def leave_open(self, began_s: float) -> Batch:
        """The next batch, with the rows of runs that are open; those that this one was left, it writes itself."""
        after = Batch(began_s)
        for held, onward in ((self.runs, after.runs), (self.nodes, after.nodes)):
            for run_id in [each for each, run in held.items() if not run.state.final and each not in self.left]:
                onward[run_id] = held.pop(run_id)
        after.left = frozenset((*after.runs, *after.nodes))
        return after

    def history(self) -> History:
        """The rows, one for each run."""
        rows = [run_row(run.note, run.state) for run in self.runs.values() if run.note is not None]
        nodes = [node_row(run.note, run.state) for run in self.nodes.values() if run.note is not None]
        nodes += self.skipped_nodes
        beside = (self.attempts, self.failures, self.audit, self.letters, nodes)
        return History(rows + self.skipped, *beside, list(self.backfills.values()))

    @property
    def empty(self) -> bool:
        """Nothing was read, and nothing is to be written."""
        return not (self.record_count or self.runs or self.nodes)


def _row_of_skip(run: OpenRun[Known] | None, event: RunEvent, skipped: Skipped, recorded_at: Instant) -> RunRow:
    """``run``: the one that was held, if any."""
    if run is None or run.note is None:
        return skipped_row(event, skipped, recorded_at)
    return dropped_row(run.note, run.state, event, skipped)
