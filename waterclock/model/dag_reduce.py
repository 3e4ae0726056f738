"""The part of the reducer that speaks of DagRuns and their nodes (design §4): what is valid, and what it does.

A node is a run like any other once it is known. It becomes known only while its DagRun is open and not to end. A
DagRun has no attempt: it runs from its first node's event, and ends by the engine's word, or, once cancelled or over
its time, when no attempt of its nodes is open. So one event may change two runs or many: :func:`inherit` says what an
event of a DagRun makes of each of its nodes, :func:`after_node` what a node's makes of its DagRun.
"""

from __future__ import annotations

from .events import EventKind, RunEvent, RunStatus
from .run_state import DagView, Ignored, RunState, Verdict, refuse

_NOW_PENDING = Verdict(RunState(RunStatus.PENDING), True)
_NOW_SKIPPED = Verdict(RunState(RunStatus.SKIPPED), True)
_ENDS = {EventKind.DAG_SUCCEEDED: RunStatus.SUCCEEDED, EventKind.DAG_FAILED: RunStatus.FAILED}
_PAUSES = {EventKind.DAG_PAUSED: True, EventKind.DAG_RESUMED: False}
_FATES = {EventKind.CANCEL_REQUESTED: RunStatus.CANCELLED, EventKind.RUN_EXPIRED: RunStatus.FAILED}
_REFUSED = {
    EventKind.PENDING: Ignored.KNOWN_RUN,
    EventKind.HELD: Ignored.KNOWN_RUN,
    EventKind.SKIPPED: Ignored.KNOWN_RUN,
    EventKind.CANCEL_REQUESTED: Ignored.ALREADY_REQUESTED,
    EventKind.RUN_EXPIRED: Ignored.NOT_WAITING,
    EventKind.DAG_PAUSED: Ignored.ALREADY_REQUESTED,
    EventKind.DAG_RESUMED: Ignored.NOT_PAUSED,
}
_NEVER_OF_NODES = frozenset({EventKind.HELD, EventKind.SKIPPED, *_ENDS, *_PAUSES})


def reduce_node(state: RunState | None, event: RunEvent, dag: DagView) -> Verdict | None:
    """A node's event, where it is not the same as any run's (None)."""
    kind = event.kind
    if kind in _NEVER_OF_NODES:
        return Verdict(state, False, Ignored.NOT_OF_NODES)
    if kind is not EventKind.PENDING and kind is not EventKind.NODE_SKIPPED:
        return None
    if state is not None:
        return refuse(state, Ignored.KNOWN_RUN)
    if dag.run is None or not dag.run.is_dag:
        return Verdict(None, False, Ignored.NO_DAG_RUN)
    if dag.run.final or dag.run.ending:
        return Verdict(None, False, Ignored.DAG_RUN_OVER)
    return _NOW_PENDING if kind is EventKind.PENDING else _NOW_SKIPPED


def reduce_dag_run(state: RunState, event: RunEvent, dag: DagView) -> Verdict:
    """An event of a DagRun that is known. ``dag``: what is known of its nodes."""
    kind = event.kind
    if kind in _ENDS:
        return _engine_ended(state, _ENDS[kind], dag.open_nodes)
    if kind is EventKind.CANCEL_REQUESTED and not state.ending:
        return _ended_or_ending(state._replace(cancel_requested=True), state, dag.open_attempts)
    if kind is EventKind.RUN_EXPIRED and not state.ending:
        return _ended_or_ending(state._replace(expired=True), state, dag.open_attempts)
    if kind in _PAUSES and state.paused is not _PAUSES[kind] and not (state.final or state.ending):
        return Verdict(state._replace(paused=_PAUSES[kind]), True)
    return refuse(state, _REFUSED.get(kind, Ignored.NOT_OF_DAG_RUNS))


def _engine_ended(state: RunState, status: RunStatus, open_nodes: int) -> Verdict:
    if state.ending:
        return refuse(state, Ignored.DAG_RUN_OVER)
    if state.final or open_nodes:
        return refuse(state, Ignored.NODES_OPEN)
    return Verdict(state._replace(status=status), True)


def _ended_or_ending(state: RunState, before: RunState, open_attempts: int) -> Verdict:
    if before.final:
        return refuse(before, Ignored.FINAL)
    return Verdict(_ended(state) if not open_attempts else state, True)


def _ended(state: RunState) -> RunState:
    """One that is to end, with nothing left to wait for."""
    return state._replace(status=RunStatus.FAILED if state.expired else RunStatus.CANCELLED)


def after_node(dag_run: RunState, open_attempts: int) -> RunState:
    """A DagRun after an event of one of its nodes was accepted; ``open_attempts`` of its nodes are running then."""
    if dag_run.final:
        return dag_run
    if dag_run.ending and not open_attempts:
        return _ended(dag_run)
    return dag_run if dag_run.status is RunStatus.RUNNING else dag_run._replace(status=RunStatus.RUNNING)


def inherit(node: RunState, kind: EventKind) -> RunState:
    """A node after an accepted event of its DagRun: what waits ends at once, what runs is to end."""
    if node.final:
        return node
    status = node.status if node.attempt_open else _FATES.get(kind, node.status)
    if kind is EventKind.CANCEL_REQUESTED:
        return node._replace(status=status, cancel_requested=True)
    return node._replace(status=status, expired=True) if kind is EventKind.RUN_EXPIRED else node
