"""One run-events partition in the engine's hands: its open DagRuns, and what is read of them.

Only DagRuns and their nodes are folded: all other runs are passed over, but for skipped ranges, which may end a DagRun
that waits. What must hold: nothing is decided before the log was read to where it ended at the take-over (design §5.5):
so what a predecessor has released is known, read back like anything else, and what it has not is decided now; and what
is decided counts at once, until any trouble drops the whole shard.
"""

from __future__ import annotations

from collections import Counter
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

from waterclock.log.following import Beginning, Followed
from waterclock.log.port import Committed, TopicPartition
from waterclock.model.dag_events import NodeEnd, NodeSkipped
from waterclock.model.dag_steps import NodeState
from waterclock.model.dag_work import end_of, split_node_run_id
from waterclock.model.events import Ended, EventKind, Pending, RunEvent
from waterclock.model.fold import Fold, fold_from_text
from waterclock.model.ids import Instant
from waterclock.model.run_state import RunState

from .figures import Figures
from .kept import KeptDags
from .open_dag import OpenDag

if TYPE_CHECKING:
    from .earlier import Earlier

_SKIPPED = EventKind.SKIPPED
_BORN = frozenset({EventKind.PENDING, EventKind.HELD})
_MAY_CONCERN_US = _BORN | {_SKIPPED}
"""Kinds of which only the whole event tells whether it is one of a DagRun that is not known yet."""

_DEADLINES_SPARE = 1_000
"""Deadlines of DagRuns that have ended may wait for their time in memory, beside as many as DagRuns are open."""


class Shard(Followed[None]):
    """A partition, its fold and its DagRuns."""

    __slots__ = ("_deadlines", "_held", "dags", "earlier", "figures", "ignored", "kept", "to_decide")

    def __init__(self, partition: TopicPartition, start: Beginning, fold: Fold[None], kept: KeptDags) -> None:
        super().__init__(partition, start, fold)
        self.kept = kept
        self.dags: dict[str, OpenDag] = {}
        self.to_decide: dict[str, None] = {}
        """DagRuns of which something may follow, those first that have waited longest."""
        self.earlier: dict[str, Earlier] = {}
        """By rerun the reading of the DagRun that it runs again."""
        self.ignored: Counter[str] = Counter()
        self.figures = Figures()
        self._deadlines: list[tuple[Instant, str]] = []
        self._held: dict[str, dict[str, None]] = {}  # by job

    def passes_over(self, kind: EventKind, run_id: str) -> bool:
        """Whether an event is certainly none of a DagRun or a node, by its kind and run alone: nearly all are not."""
        return kind not in _MAY_CONCERN_US and "/" not in run_id and run_id not in self.dags

    def take(self, event: RunEvent, offset: int, recorded_at: Instant = 0) -> None:
        """Fold one event; ``recorded_at``: when, by the log. Raises RequestError where it names no run, FoldFull."""
        if not self._concerns_us(event):
            self.fold.pass_over(offset)
            return
        verdict = self.fold.apply(event, offset)
        if event.kind is _SKIPPED:  # of a range, perhaps, which may end others that were HELD
            for run_id in list(self._held.get(event.job_id, ())):
                self._forget_if_ended(run_id)
        if not verdict.accepted or verdict.state is None:
            self.ignored[verdict.reason] += self.live
            return
        if "/" in event.run_id:
            self._follow_node(event, verdict.state)
        elif event.run_id in self.fold.open:
            self._follow_dag_run(event, offset)
        for run_id, run in self.fold.touched:
            self._follow_touched(run_id, run.state)
        dag = self.dags.get(event.run_id.partition("/")[0])
        if dag is not None:
            dag.heard_at = recorded_at
        self._forget_if_ended(event.run_id)

    def adopt(self, dag: OpenDag) -> None:
        """A DagRun that the state topic kept."""
        self.dags[dag.run_id] = dag
        self._note_held(dag)
        self.to_decide[dag.run_id] = None

    def note_deadline(self, dag: OpenDag, timeout_us: Instant) -> None:
        """Its version says how old it may get (0: any age). A repeat changes nothing."""
        if timeout_us and not dag.has_deadline:
            dag.has_deadline = True
            heappush(self._deadlines, (dag.began_at + timeout_us, dag.run_id))
            if len(self._deadlines) > 2 * len(self.dags) + _DEADLINES_SPARE:
                self._deadlines = [entry for entry in self._deadlines if entry[1] in self.dags]
                heapify(self._deadlines)

    def has_deadline_before(self, now: Instant) -> bool:
        """Whether the time of some DagRun may be over."""
        return bool(self._deadlines) and self._deadlines[0][0] <= now

    def take_over_time(self, now: Instant, most: int) -> list[OpenDag]:
        """The DagRuns, at most ``most``, whose time is over; not those that were told so, or ended, in this life."""
        found: list[OpenDag] = []
        while len(found) < most and self._deadlines and self._deadlines[0][0] <= now:
            dag = self.dags.get(heappop(self._deadlines)[1])
            if dag is not None and dag.is_going and not (dag.is_over_time or dag.has_ended):
                dag.is_over_time = True
                found.append(dag)
        return found

    def leave_earlier(self, run_id: str) -> None:
        """Make room for the readings of others: this rerun waits for something else, or has ended."""
        reading = self.earlier.pop(run_id, None)
        if reading is not None:
            reading.close()

    def close(self) -> None:
        """Stop reading what belongs to it alone."""
        for reading in self.earlier.values():
            reading.close()
        self.earlier.clear()

    def stand(self) -> Committed:
        """Where this partition stands, moved or not. Only while it is live."""
        held_back = self.kept.read_from
        read_from = self.fold.fold_from() if held_back is None else min(held_back, self.fold.fold_from())
        return Committed(self.next_offset, fold_from_text(read_from))

    def to_commit(self) -> Committed | None:
        """As it stands. None where nothing moved, and while it is not live."""
        return self.stand() if super().to_commit() is not None else None

    @property
    def _read_last(self) -> int:
        """The offset of the event that is being followed."""
        return self.fold.position - 1

    def _concerns_us(self, event: RunEvent) -> bool:
        if self.kept.resting and event.kind is not _SKIPPED and split_node_run_id(event.run_id)[0] in self.kept.resting:
            return False
        if "/" in event.run_id or event.kind is _SKIPPED:
            return True
        detail = event.detail
        return (isinstance(detail, Pending) and detail.dag is not None) or event.run_id in self.dags

    def _follow_dag_run(self, event: RunEvent, offset: int) -> None:
        if event.kind in _BORN and isinstance(event.detail, Pending):
            dag = self.dags.get(event.run_id)
            if dag is None:
                run = self.fold.open[event.run_id]
                dag = self.dags[event.run_id] = OpenDag(event.run_id, run, event.detail.revision, event.detail.fire_at)
            dag.told(event, event.detail, offset)
            self._note_held(dag)
            self.to_decide[event.run_id] = None
        elif event.kind is EventKind.DAG_RESUMED:
            self.to_decide[event.run_id] = None
        self.kept.change(event.run_id, offset)

    def _follow_node(self, event: RunEvent, state: RunState) -> None:
        dag_run_id, key = split_node_run_id(event.run_id)
        dag = self.dags.get(dag_run_id)
        if dag is None:
            return
        if isinstance(event.detail, NodeSkipped):
            self._note(dag, event.run_id, key, NodeState(event.detail.counts_as, event.detail.result))
        elif state.final:
            result = event.detail.result if isinstance(event.detail, Ended) and dag.wants_result(key) else None
            end = end_of(state.status)
            self._note(dag, event.run_id, key, NodeState(end, result if end is NodeEnd.SUCCEEDED else None))
        elif event.kind is EventKind.PENDING:
            self._note(dag, event.run_id, key, NodeState())
        else:
            self.kept.change(event.run_id, self._read_last)

    def _follow_touched(self, run_id: str, state: RunState) -> None:
        """A node that ended with its DagRun's cancel, or a DagRun that runs, or has ended, by an event of a node."""
        dag_run_id, key = split_node_run_id(run_id)
        if not key:
            self.kept.change(run_id, self._read_last)
            self._forget_if_ended(run_id)
        elif state.final:
            self._note(self.dags[dag_run_id], run_id, key, NodeState(end_of(state.status)))
        else:
            self.kept.change(run_id, self._read_last)

    def _note(self, dag: OpenDag, node_id: str, key: str, node: NodeState) -> None:
        dag.know(key, node)
        self.kept.change(node_id, self._read_last, node)
        if node.end is not None or dag.is_strange:
            self.to_decide[dag.run_id] = None

    def _note_held(self, dag: OpenDag) -> None:
        if dag.run.state.held:
            self._held.setdefault(dag.job_id, {})[dag.run_id] = None
        else:
            self._no_longer_held(dag)

    def _no_longer_held(self, dag: OpenDag) -> None:
        of_job = self._held.get(dag.job_id)
        if of_job is not None:
            of_job.pop(dag.run_id, None)
            if not of_job:
                del self._held[dag.job_id]

    def _forget_if_ended(self, run_id: str) -> None:
        dag = self.dags.get(run_id)
        if dag is not None and dag.run.state.final:
            del self.dags[run_id]
            self._no_longer_held(dag)
            self.to_decide.pop(run_id, None)
            self.leave_earlier(run_id)
            self.kept.end(run_id, dag.run)
