"""Events of nodes to rows (pure): what ``projection.py`` is for runs. A node that never ran has one event, and one row.

Must hold, as there: a row is a function of the node run and of its write stamp alone.
"""

from __future__ import annotations

from waterclock.model.dag_events import NodeSkipped
from waterclock.model.dag_work import end_of, split_node_run_id
from waterclock.model.events import Outcome, RunEvent, RunStatus
from waterclock.model.ids import Instant
from waterclock.model.reduce import RunState
from waterclock.store.dag_port import NodeRow

from .projection import Known, error_text, stamp_of


def node_row(known: Known, state: RunState) -> NodeRow:
    """The row of a node run as it is now."""
    pending, ended = known.pending, known.ended
    return NodeRow(
        known.job_id,
        pending.fire_at,
        known.series,
        known.node,
        pending.revision,
        pending.tier,
        state.status,
        state.outcome,
        state.attempt,
        known.dispatched_at,
        known.started_at,
        known.ended_at,
        state.worker,
        state.token,
        "" if state.outcome is Outcome.SUCCEEDED else error_text(ended),
        None if ended is None else ended.result,
        known.reason,
        stamp_of(known, state),
        known.next_attempt_at,
        state.cancel_requested,
        int(end_of(state.status) or 0),
    )


def skipped_node_row(dag_run: Known, event: RunEvent, skipped: NodeSkipped, recorded_at: Instant) -> NodeRow:
    """The one row of a node that never ran, or that a rerun keeps."""
    pending = dag_run.pending
    return NodeRow(
        event.job_id,
        pending.fire_at,
        dag_run.series,
        split_node_run_id(event.run_id)[1],
        pending.revision,
        pending.tier,
        RunStatus.SKIPPED,
        Outcome.NONE,
        0,
        recorded_at,
        0,
        event.at,
        "",
        0,
        "",
        skipped.result,
        event.reason,
        recorded_at,
        0,
        False,
        int(skipped.counts_as),
    )
