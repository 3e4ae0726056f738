"""What the state topic holds of one partition's DagRuns, and what a round must tell it.

Of a DagRun or a node that changed a record is due once the change lies ``KEPT_BEHIND`` offsets back: until then the log
tells it, of which a successor reads that much anyway (``fold.WINDOW``), and most DagRuns have ended before. It is due
after ``KEPT_AFTER_S`` at the latest: else retention takes the only word of a DagRun that rests for weeks on a still
partition. What must hold: what is not in a record is read again, so the oldest change that was not written yet holds
back the offset from which a successor reads (:attr:`KeptDags.read_from`), also where its node has ended and the fold
holds nothing back for it. Records and tombstones ride in the round that commits the offsets they speak of, so the topic
tells what was so at the committed position. So does the tombstone of a DagRun: a successor that found the record would
read on behind its end. Those of its nodes, whose records mean nothing without it, may come rounds later. What no event
tells is written at once.

How it fails: a DagRun of which a record cannot be read, its own or that of a node, is left out whole, for half of it
would release nodes again; the log line names the record. It rests (:attr:`KeptDags.resting`): this release releases
nothing of it and follows none of its events, also where its beginning is read again. While there is one, successors
read from where this one did, for what had changed before and is in no record is read by nobody else. The release that
wrote it goes on with it; or an operator cancels it and runs it again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator
from itertools import islice, takewhile
from typing import NamedTuple, TypeAlias

import structlog

from waterclock.log.aged import Aged
from waterclock.log.port import Log, Outgoing, TopicPartition
from waterclock.log.reading import gather_newest
from waterclock.model.dag_events import NodeEnd
from waterclock.model.dag_state import KeptDagRun, KeptNode
from waterclock.model.dag_steps import NodeState
from waterclock.model.dag_work import split_node_run_id
from waterclock.model.errors import UndecodableRecord
from waterclock.model.fold import WINDOW, Fold, OpenRun
from waterclock.model.known_state import state_from_text, state_to_text
from waterclock.model.run_state import RunState
from waterclock.taking_over import PART
from waterclock.wire.codec import decode_dag_node, decode_dag_run
from waterclock.wire.messages import dag_node_message, dag_run_message, state_tombstone
from waterclock.wire.names import Names

from .open_dag import OpenDag

KEPT_BEHIND = WINDOW
"""Offsets."""

KEPT_AFTER_S = 60.0
"""Soon enough for any retention, also where a partition changes hands every few minutes; and so late that most DagRuns
on a busy one have ended before."""

FORGOTTEN_PER_ROUND = 1_000
KEPT_PER_ROUND = 500

_DagRun: TypeAlias = tuple[KeptDagRun, RunState]
_Node: TypeAlias = tuple[KeptNode, RunState, NodeState]
_Found: TypeAlias = tuple[dict[str, _DagRun], dict[str, _Node], set[str]]

_log = structlog.get_logger()


class _Change(NamedTuple):
    """Of one run what is in no record yet: since which offset, and of a node what it counts as, where it has ended."""

    since: int
    node: NodeState | None


class KeptDags:
    """The records of one partition. ``role`` names the topic."""

    __slots__ = (
        "_aged",
        "_at_once",
        "_behind",
        "_changed",
        "_ended",
        "_forgotten",
        "_has_more",
        "_names",
        "_partition",
        "_role",
        "_start_at",
        "_written",
        "resting",
    )

    def __init__(
        self, names: Names, role: str, partition: int, *, behind: int = KEPT_BEHIND, start_at: int = 0
    ) -> None:
        """``start_at``: from where on run-events are read."""
        self._names = names
        self._role = role
        self._partition = partition
        self._behind = behind
        self._changed: dict[str, _Change] = {}  # by run id, in the order of their offsets
        self._at_once: dict[str, None] = {}
        self._written: dict[str, dict[str, None]] = {}  # by DagRun its nodes that have a record
        self._ended: list[str] = []  # DagRuns of which the tombstone is due in the next round
        self._forgotten: deque[str] = deque()  # nodes, whose tombstones may wait
        self._aged = Aged(KEPT_AFTER_S)
        self._has_more = False
        self._start_at = start_at
        self.resting: frozenset[str] = frozenset()
        """DagRuns of which a record cannot be read."""

    @property
    def owes(self) -> bool:
        """Whether there is something to be forgotten yet, or more to be written than the last round took."""
        return self._has_more or bool(self._ended or self._forgotten)

    @property
    def read_from(self) -> int | None:
        """The oldest offset that a successor must read because of changes that are in no record; None without any."""
        if self.resting:
            return self._start_at
        return next((change.since for change in self._changed.values()), None)

    def change(self, run_id: str, offset: int, node: NodeState | None = None) -> None:
        """The event at ``offset`` has changed this DagRun or node."""
        known = self._changed.get(run_id)
        if known is None:
            self._changed[run_id] = _Change(offset, node)
        elif node is not None:
            self._changed[run_id] = known._replace(node=node)

    def write_at_once(self, run_id: str) -> None:
        """This DagRun is to be written in the next round: something of it stands in no event."""
        self._at_once[run_id] = None

    def end(self, run_id: str, run: OpenRun[None]) -> None:
        """A DagRun has ended: it and its nodes are to be forgotten."""
        self._changed.pop(run_id, None)
        self._at_once.pop(run_id, None)
        for each in [] if run.dag is None else [*run.dag.open, *run.dag.ended]:
            self._changed.pop(each, None)
        nodes = self._written.pop(run_id, None)
        if nodes is not None:
            self._ended.append(run_id)
            self._forgotten.extend(nodes)

    def messages(self, fold: Fold[None], dags: dict[str, OpenDag], now_s: float) -> Iterator[Outgoing]:
        """What this round must tell the topic; the fold knows then that a successor need not re-read it."""
        self._aged.note(fold.position, now_s)
        due = self._due(max(fold.position - self._behind, self._aged.below))
        self._has_more = len(due) >= KEPT_PER_ROUND
        for run_id in [*self._at_once, *due]:
            change = self._changed.pop(run_id, None)
            run = fold.open.get(run_id)
            if run is not None and run.state.is_dag and run.state.ending:
                continue  # which of its nodes' events came before that, only the log can say: its pin in the fold stays
            if run is not None:
                fold.keep(run_id)
            yield self._record(run_id, None if change is None else change.node, fold, dags)
        self._at_once.clear()
        for run_id in self._ended:
            yield state_tombstone(self._names, self._role, self._partition, run_id)
        self._ended.clear()
        for _ in range(min(FORGOTTEN_PER_ROUND, len(self._forgotten))):
            yield state_tombstone(self._names, self._role, self._partition, self._forgotten.popleft())

    def restoring(self, log: Log, fold: Fold[None]) -> Generator[None, None, list[OpenDag]]:
        """Read the topic to its high watermark as of now, and put what it holds into the fold, part by part.

        Raises BackendDown.
        """
        runs, nodes, strange = yield from self._reading(log)
        self.resting = frozenset(strange)
        dags: dict[str, OpenDag] = {}
        for number, (run_id, (kept, state)) in enumerate(runs.items(), 1):
            if number % PART == 0:
                yield
            if run_id not in strange:
                fold.restore(run_id, state, kept.first_offset, None, kept.folded_to)
                dags[run_id] = OpenDag.restored(kept, fold.open[run_id])
                self._written[run_id] = {}
        for number, (node_id, (node, state, known)) in enumerate(nodes.items(), 1):
            if number % PART == 0:
                yield
            dag_run_id, key = split_node_run_id(node_id)
            dag = dags.get(dag_run_id)
            if dag is not None:
                self._written[dag_run_id][node_id] = None
                if not fold.open[dag_run_id].state.is_dag:
                    continue  # written while it was held; it is to end since (``messages``), the log tells all of it
                fold.restore(node_id, state, node.first_offset, None, node.folded_to)
                dag.known[key] = known
            elif dag_run_id not in strange:
                self._forgotten.append(node_id)  # its DagRun was forgotten, and then somebody died
        return list(dags.values())

    def _due(self, before: int) -> list[str]:
        """The runs whose oldest change lies before that offset; so many as a round may write."""
        due = takewhile(lambda changed: changed[1].since < before, self._changed.items())
        return [run_id for run_id, _ in islice(due, KEPT_PER_ROUND)]

    def _reading(self, log: Log) -> Generator[None, None, _Found]:
        """By run id the DagRuns and the nodes, and the DagRuns of which some record cannot be read."""
        place = TopicPartition(self._names.state(self._role), self._partition)
        runs: dict[str, _DagRun] = {}
        nodes: dict[str, _Node] = {}
        strange: dict[str, str] = {}  # by record, why
        newest: dict[str, bytes] = {}
        yield from gather_newest(log, place, newest)
        for number, (run_id, value) in enumerate(newest.items(), 1):
            if number % PART == 0:
                yield
            try:
                if "/" in run_id:
                    nodes[run_id] = _read_node(value)
                else:
                    runs[run_id] = _read_dag_run(value)
            except (UndecodableRecord, ValueError) as odd:
                strange[run_id] = str(odd)
        for run_id, reason in strange.items():
            _log.error("kept record cannot be read: its DagRun rests", run_id=run_id, reason=reason)
        return runs, nodes, {split_node_run_id(run_id)[0] for run_id in strange}

    def _record(self, run_id: str, node: NodeState | None, fold: Fold[None], dags: dict[str, OpenDag]) -> Outgoing:
        state = fold.state(run_id)
        text, folded_to = state_to_text(state), fold.position
        dag_run_id, key = split_node_run_id(run_id)
        written = self._written.setdefault(dag_run_id, {})
        if key:
            written[run_id] = None
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
