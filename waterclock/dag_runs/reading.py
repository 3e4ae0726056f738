"""A DagRun read from history: its row, its version, and how its nodes stand, as the engine would see it.

What must hold: the engine's own rule (``dag_release.py``) says what a branch, a mapped node or a node that waits stands
for; nothing here decides. How it fails: rows of one moment may not fit together, because history is written run by run;
then ``state`` is None, nodes are shown as they are, and a second later all fits.

A DagRun has 11,000 rows at most. They are read in pages; a result is kept where some node asks for it or where it is
short, so that a wide DagRun of large results does not fill the memory of whoever reads it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

from waterclock.model.dag import DagSpec
from waterclock.model.dag_events import NodeEnd
from waterclock.model.dag_graph import Graph
from waterclock.model.dag_payload import GIVEN_MAX
from waterclock.model.dag_release import DagRunState, rebuild
from waterclock.model.dag_steps import NodeState
from waterclock.model.errors import NotFound
from waterclock.model.events import EXPIRED, FINAL, RunStatus
from waterclock.model.ids import Instant, RunId
from waterclock.model.job import JobSpec, JobVersion
from waterclock.model.stored_spec import NOT_UNDERSTOOD
from waterclock.store.dag_port import DagReading, NodeRow
from waterclock.store.port import RunRow

PAGE = 500
RESULT_SHOWN_MAX = 1_024
"""Bytes of a result that is kept although no node asks for it."""


class Read(DagReading, Protocol):
    """What is asked of the store."""

    def run(self, job_id: str, fire_at: Instant, series: int) -> RunRow | None: ...

    def version(self, job_id: str, revision: int) -> JobVersion | None: ...


@dataclass(slots=True)
class DagRunSeen:
    """One DagRun. ``large``: keys whose result is left out.

    ``spec``, ``graph``: None where its version is gone, or is of a later release and not understood by this one.
    """

    row: RunRow
    spec: JobSpec | None = None
    graph: Graph | None = None
    nodes: dict[str, NodeRow] = field(default_factory=dict)
    large: set[str] = field(default_factory=set)
    state: DagRunState | None = None

    @property
    def dag(self) -> DagSpec | None:
        """Its Dag."""
        return None if self.spec is None else self.spec.dag

    @property
    def run_id(self) -> RunId:
        """Its place."""
        return RunId(self.row.job_id, self.row.fire_at, self.row.series)

    @property
    def is_open(self) -> bool:
        """It has not ended."""
        return self.row.status not in FINAL

    @property
    def is_ending(self) -> bool:
        """It was cancelled or is over its time: no node begins any more."""
        return self.is_open and (self.row.cancel_requested or self.row.reason == EXPIRED)

    @property
    def is_held(self) -> bool:
        """It waits for other runs of its job, and has not gone out."""
        return self.row.status is RunStatus.PENDING and bool(self.row.reason)

    @property
    def moved_at(self) -> Instant:
        """When it was last heard of."""
        own = max(self.row.dispatched_at, self.row.started_at, self.row.ended_at)
        return max((own, *(max(node.dispatched_at, node.started_at, node.ended_at) for node in self.nodes.values())))

    def fresh_state(self) -> DagRunState | None:
        """How its nodes stand, for somebody who will change it."""
        return _state(self)


def read_dag_run(store: Read, place: RunId) -> DagRunSeen | None:
    """The DagRun; None where history does not know it. Raises NotFound where it is a run like others, BackendDown."""
    row = store.run(place.job_id, place.fire_at, place.series)
    if row is None:
        return None
    if not row.is_dag:
        raise NotFound(f"{place} is no DagRun", hint="`waterclock run show` shows it; GET /api/v1/runs/{run_id}")
    seen = DagRunSeen(row)
    _read_version(store, seen)
    _read_nodes(store, seen)
    seen.state = _state(seen)
    return seen


def _read_version(store: Read, seen: DagRunSeen) -> None:
    try:
        version = store.version(seen.row.job_id, seen.row.revision)
        graph = None if version is None or version.spec.dag is None else Graph(version.spec.dag)
    except NOT_UNDERSTOOD:  # its DagRun waits for the release that wrote it; what history has of it is shown even so
        return
    if version is not None and graph is not None:
        seen.spec, seen.graph = version.spec, graph


def _read_nodes(store: DagReading, seen: DagRunSeen) -> None:
    kept_size: Counter[str] = Counter()
    for row in _rows(store, seen.run_id):
        result = row.result
        if result is not None and len(result) > RESULT_SHOWN_MAX:
            name = row.node.partition(".")[0]
            graph = seen.graph
            is_asked = graph is not None and name in graph.place and graph.needs_result(name)
            if not is_asked or kept_size[name] > GIVEN_MAX:  # by then no node can be given them
                row = row._replace(result=None)  # noqa: PLW2901 - the same row, without what is too much
                seen.large.add(row.node)
            else:
                kept_size[name] += len(result)
        seen.nodes[row.node] = row


def _rows(store: DagReading, place: RunId) -> Iterator[NodeRow]:
    after = ""
    while True:  # ends: a Dag has a bound of nodes, and each page reaches further
        rows = store.dag_nodes(place.job_id, place.fire_at, place.series, PAGE, after)
        yield from rows
        if len(rows) < PAGE:
            return
        after = rows[-1].node


def _state(seen: DagRunSeen) -> DagRunState | None:
    if seen.graph is None:
        return None
    known = {
        key: NodeState(NodeEnd(row.counts_as) if row.counts_as else None, row.result) for key, row in seen.nodes.items()
    }
    try:
        # Without a payload: history does not have the DagRun's own, and with the job's, which may be a large one, a
        # node that was released may seem to be given too much.
        return rebuild(seen.graph, known)
    except (KeyError, ValueError):
        return None
