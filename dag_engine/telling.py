"""What leaves the engine for one DagRun: nodes released and skipped, its end, its being over time. As records.

What must hold: PENDING and work of a released node leave in one round; skips go before the end that follows from them;
control hears of a DagRun that is over its time before run-events does.
"""

from __future__ import annotations

from collections.abc import Mapping

import structlog

from waterclock.model.dag_steps import DagEnd, NodeState, Steps
from waterclock.model.dag_work import end_event, kept_skip, pending_event, skipped_event, work_record
from waterclock.model.events import EXPIRED, Control, ControlKind, EventKind, RunEvent
from waterclock.model.ids import Instant
from waterclock.transact import Round
from waterclock.wire.messages import control_message, event_message, work_message
from waterclock.wire.names import Names

from .open_dag import OpenDag

REVISION_GONE = "revision-gone"
"""The reason of a DAG_FAILED: the version that it is made of is not there, or does not have all its nodes.

Of a CANCEL_REQUESTED where nodes of it are open.
"""
RERUN_GONE = "rerun-gone"
"""Of a rerun: the log does not tell any more how the nodes of the older DagRun ended."""

_log = structlog.get_logger()


def tell(draft: Round, names: Names, dag: OpenDag, steps: Steps, now: Instant) -> None:
    """Put what follows into the round."""
    dag_run = dag.dag_run()
    assert dag.made is not None
    graph = dag.made.graph
    for skip in steps.skips:
        draft.append(event_message(names, skipped_event(dag.run_id, skip, now)))
    for release in steps.releases:
        node = graph.nodes[graph.place[release.node]]
        draft.append(event_message(names, pending_event(dag_run, node, release, now)))
        draft.append(work_message(names, work_record(dag_run, node, release, now)))
    if steps.end is not None:
        _log.info("DagRun ends", run_id=dag.run_id, succeeded=steps.end.succeeded)
        draft.append(event_message(names, end_event(dag.run_id, steps.end, now)))


def keep(draft: Round, names: Names, dag: OpenDag, kept: Mapping[str, NodeState], now: Instant) -> None:
    """Say which nodes a rerun keeps as they were, with their results."""
    for name, node in kept.items():
        draft.append(event_message(names, skipped_event(dag.run_id, kept_skip(name, node), now, node.result)))


def give_up(draft: Round, names: Names, dag: OpenDag, reason: str, now: Instant) -> None:
    """End a DagRun that cannot be gone on with. Where nodes of it are open it is cancelled: it ends with the last."""
    if dag.run.dag is not None and dag.run.dag.open:
        draft.go_ahead([control_message(names, Control(ControlKind.CANCEL_REQUESTED, dag.job_id, dag.run_id, now))])
        asked = RunEvent(EventKind.CANCEL_REQUESTED, dag.job_id, dag.run_id, now, reason=reason)
        draft.append(event_message(names, asked))
        return
    end = end_event(dag.run_id, DagEnd(succeeded=False), now)
    draft.append(event_message(names, end._replace(reason=reason)))


def over_time(draft: Round, names: Names, dag: OpenDag, now: Instant) -> None:
    """Say that a DagRun is over its time: its nodes are to end, and it with them."""
    _log.info("DagRun is over its time", run_id=dag.run_id)
    draft.go_ahead([control_message(names, Control(ControlKind.RUN_EXPIRED, dag.job_id, dag.run_id, now))])
    event = RunEvent(EventKind.RUN_EXPIRED, dag.job_id, dag.run_id, now, reason=EXPIRED)
    draft.append(event_message(names, event))
