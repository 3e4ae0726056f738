"""What the state topic holds of one partition's DagRuns, and what a round must tell it.

A record of a DagRun or a node is written in the round that read what has changed it, and once more where an open
attempt would make a successor re-read more than ``KEPT_BEHIND`` offsets. What must hold: records and tombstones ride in
the round that commits the offsets they speak of, so the topic tells what was so at the committed position. So does the
tombstone of a DagRun: a successor that found the record would read on behind its end. Those of its nodes, whose records
mean nothing without it, may come rounds later.

How it fails: a DagRun of which a record cannot be read, its own or that of a node, is left out whole, for half of it
would release nodes again; the log line names the record. It rests: this release releases nothing of it, and what
happens to it meanwhile is read by nobody who could go on with it. An operator cancels it and runs it again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TypeAlias

import structlog

from waterclock.log.port import Isolation, Log, Outgoing, TopicPartition
from waterclock.log.reading import read_range
from waterclock.model.dag_events import NodeEnd
from waterclock.model.dag_state import KeptDagRun, KeptNode
from waterclock.model.dag_steps import NodeState
from waterclock.model.dag_work import split_node_run_id
from waterclock.model.errors import UndecodableRecord
from waterclock.model.fold import Fold, OpenRun
from waterclock.model.known_state import state_from_text, state_to_text
from waterclock.model.run_state import RunState
from waterclock.wire.codec import decode_dag_node, decode_dag_run
from waterclock.wire.messages import dag_node_message, dag_run_message, state_tombstone
from waterclock.wire.names import Names

from .open_dag import OpenDag

KEPT_BEHIND = 100_000
"""Offsets; folding so many takes about a second."""

FORGOTTEN_PER_ROUND = 1_000
_PER_ROUND = 500

_DagRun: TypeAlias = tuple[KeptDagRun, RunState]
_Node: TypeAlias = tuple[KeptNode, RunState, NodeState]

_log = structlog.get_logger()


class KeptDags:
    """The records of one partition. ``role`` names the topic."""

    __slots__ = ("_behind", "_changed", "_ended", "_forgotten", "_names", "_partition", "_role")

    def __init__(self, names: Names, role: str, partition: int, *, behind: int = KEPT_BEHIND) -> None:
        self._names = names
        self._role = role
        self._partition = partition
        self._behind = behind
        # By run id what changed since the last round; of a node what it counts as, None where only its attempt moved.
        self._changed: dict[str, NodeState | None] = {}
        self._ended: list[str] = []  # DagRuns of which the tombstone is due in the next round
        self._forgotten: deque[str] = deque()  # nodes, whose tombstones may wait

    @property
    def owes(self) -> bool:
        """Whether there is something to be forgotten yet."""
        return bool(self._ended or self._forgotten)

    def change(self, run_id: str, node: NodeState | None = None) -> None:
        """This DagRun or node is to be written in the next round."""
        self._changed[run_id] = node

    def end(self, run_id: str, run: OpenRun[None]) -> None:
        """A DagRun has ended: it and its nodes are to be forgotten."""
        self._changed.pop(run_id, None)
        self._ended.append(run_id)
        for each in [] if run.dag is None else [*run.dag.open, *run.dag.ended]:
            self._changed.pop(each, None)
            self._forgotten.append(each)

    def messages(self, fold: Fold[None], dags: dict[str, OpenDag]) -> Iterator[Outgoing]:
        """What this round must tell the topic; the fold knows then that a successor need not re-read it."""
        for run_id in fold.pinned_below(fold.position - self._behind, _PER_ROUND):
            self._changed.setdefault(run_id, None)
        for run_id, node in self._changed.items():
            run = fold.open.get(run_id)
            if run is not None and run.state.is_dag and run.state.ending:
                continue  # which of its nodes' events came before that, only the log can say: it is read from there
            if run is not None:
                fold.keep(run_id)
            yield self._record(run_id, node, fold, dags)
        self._changed.clear()
        for run_id in self._ended:
            yield state_tombstone(self._names, self._role, self._partition, run_id)
        self._ended.clear()
        for _ in range(min(FORGOTTEN_PER_ROUND, len(self._forgotten))):
            yield state_tombstone(self._names, self._role, self._partition, self._forgotten.popleft())

    def restore(self, log: Log, fold: Fold[None]) -> list[OpenDag]:
        """Read the topic to its high watermark as of now, and put what it holds into the fold. Raises BackendDown."""
        runs, nodes, strange = self._read(log)
        dags: dict[str, OpenDag] = {}
        for run_id, (kept, state) in runs.items():
            if run_id not in strange:
                fold.restore(run_id, state, kept.first_offset, None, kept.folded_to)
                dags[run_id] = OpenDag.restored(kept, fold.open[run_id])
        for node_id, (node, state, known) in nodes.items():
            dag_run_id, key = split_node_run_id(node_id)
            dag = dags.get(dag_run_id)
            if dag is not None:
                fold.restore(node_id, state, node.first_offset, None, node.folded_to)
                dag.known[key] = known
            elif dag_run_id not in strange:
                self._forgotten.append(node_id)  # its DagRun was forgotten, and then somebody died
        return list(dags.values())

    def _read(self, log: Log) -> tuple[dict[str, _DagRun], dict[str, _Node], set[str]]:
        """By run id the DagRuns and the nodes, and the DagRuns of which some record cannot be read."""
        place = TopicPartition(self._names.state(self._role), self._partition)
        runs: dict[str, _DagRun] = {}
        nodes: dict[str, _Node] = {}
        strange: dict[str, str] = {}  # by record, why
        for record in read_range(log, Isolation.COMMITTED, place, log.low_watermark(place), log.high_watermark(place)):
            run_id = (record.key or b"").decode(errors="replace")
            for each in (runs, nodes, strange):
                each.pop(run_id, None)
            if record.value is None:
                continue
            try:
                if "/" in run_id:
                    nodes[run_id] = _read_node(record.value)
                else:
                    runs[run_id] = _read_dag_run(record.value)
            except (UndecodableRecord, ValueError) as odd:
                strange[run_id] = str(odd)
        for run_id, reason in strange.items():
            _log.error("kept record cannot be read: its DagRun rests", run_id=run_id, reason=reason)
        return runs, nodes, {split_node_run_id(run_id)[0] for run_id in strange}

    def _record(self, run_id: str, node: NodeState | None, fold: Fold[None], dags: dict[str, OpenDag]) -> Outgoing:
        state = fold.state(run_id)
        text, folded_to = state_to_text(state), fold.position
        dag_run_id, key = split_node_run_id(run_id)
        if key:
            first_offset = fold.open[run_id].first_offset if run_id in fold.open else -1
            counts_as = 0 if node is None or node.end is None else int(node.end)
            result = None if node is None else node.result
            kept_node = KeptNode(run_id, first_offset, text, folded_to, counts_as, result)
            return dag_node_message(self._names, self._role, self._partition, kept_node)
        dag = dags[dag_run_id]
        what = (dag.revision, dag.fire_at, dag.began_at, dag.start.payload, dag.start.rerun_from, dag.linked_run)
        kept = KeptDagRun(run_id, dag.first_offset, text, folded_to, *what)
        return dag_run_message(self._names, self._role, self._partition, kept)


def _read_dag_run(value: bytes) -> _DagRun:
    """Raises UndecodableRecord, ValueError."""
    kept = decode_dag_run(value)
    return kept, _state(kept.state)


def _read_node(value: bytes) -> _Node:
    """Raises UndecodableRecord, ValueError."""
    node = decode_dag_node(value)
    return node, _state(node.state), NodeState(NodeEnd(node.counts_as) if node.counts_as else None, node.result)


def _state(text: str) -> RunState:
    state = state_from_text(text)
    if state is None:
        raise ValueError("it says nothing of how the run stands")
    return state
