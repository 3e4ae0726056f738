"""DagRuns as documents: the same for the API and for ``waterclock dag show -o json``. Absent things are null."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from waterclock.model.events import RunStatus
from waterclock.model.ids import US_PER_S, Instant, RunId, make_run_id
from waterclock.model.stuck_nodes import Stuck
from waterclock.model.time_text import format_rfc3339
from waterclock.store.port import RunRow

from .acting import Plan
from .picture import NodeSeen, critical_names
from .reading import RESULT_SHOWN_MAX, DagRunSeen

_ERROR_MAX = 300
"""Characters of an error in a picture; the run itself has all of it."""


def dag_run_view(row: RunRow) -> dict[str, Any]:
    """One DagRun, without its nodes."""
    return {
        "run_id": make_run_id(row.job_id, row.fire_at, row.series),
        "job_id": row.job_id,
        "status": row.status.name,
        "fire_time": _instant(row.fire_at),
        "made_by": row.origin.lower(),
        "revision": row.revision,
        "paused": row.paused,
        "cancel_requested": row.cancel_requested,
        "dispatched_at": _instant(row.dispatched_at),
        "started_at": _instant(row.started_at),
        "ended_at": _instant(row.ended_at),
        "took_s": _seconds(row.dispatched_at, row.ended_at),
        "reason": row.reason or None,
        "held": (row.reason or None) if row.status is RunStatus.PENDING else None,
        "linked_run": row.again_of or None,
        "triggered_by": row.triggered_by or None,
        "rerun_from": list(row.rerun_from),
    }


def dag_run_in_full(
    seen: DagRunSeen, nodes: Sequence[NodeSeen], stuck: Sequence[Stuck], now: Instant
) -> dict[str, Any]:
    """The same, with its nodes, what took longest, and what is stuck."""
    return {
        **dag_run_view(seen.row),
        "nodes": [_node_view(seen, each, now) for each in nodes],
        "critical_path": critical_names(nodes),
        "stuck": [stuck_view(str(seen.run_id), each) for each in stuck],
    }


def stuck_view(run_id: str, stuck: Stuck) -> dict[str, Any]:
    """One finding."""
    return {
        "run_id": run_id,
        "node": stuck.node,
        "reason": stuck.reason.value,
        "since": _instant(stuck.since),
        "why": stuck.why,
        "behind": stuck.behind,
    }


def plan_view(run_id: RunId, plan: Plan) -> dict[str, Any]:
    """What an act comes to."""
    return {"dry_run": True, "run_id": str(run_id), **{name: list(names) for name, names in plan._asdict().items()}}


def took_us(node: NodeSeen, now: Instant, *, is_open: bool) -> Instant:
    """How long a node took, or has taken until now; 0: it has not begun, or never ran."""
    if not node.began_at or node.status is RunStatus.SKIPPED:
        return 0
    return max(0, (node.ended_at or (now if is_open else node.began_at)) - node.began_at)


def _node_view(seen: DagRunSeen, each: NodeSeen, now: Instant) -> dict[str, Any]:
    row, node = each.row, each.node
    took = took_us(each, now, is_open=seen.is_open)
    result = None if row is None or each.items else row.result
    is_left_out = node.name in seen.large or len(result or b"") > RESULT_SHOWN_MAX
    return {
        "node": node.name,
        "status": None if each.status is None else each.status.name,
        "counts_as": None if each.counts_as is None else each.counts_as.name,
        "run_id": None if row is None else str(seen.run_id._replace(node=row.node)),
        "after": list(node.after),
        "trigger_rule": node.trigger_rule.value,
        "handler": node.label,
        "pool": node.pool or (seen.spec.pool if seen.spec else ""),
        "attempt": row.attempt if row is not None and row.attempt and not each.items else None,
        "began_at": _instant(each.began_at),
        "started_at": _instant(each.started_at),
        "ended_at": _instant(each.ended_at),
        "took_s": round(took / US_PER_S, 3) if took else None,
        "critical": each.is_critical,
        "items": dict(each.items) or None,
        "result": None if is_left_out else _result(result),
        "result_left_out": is_left_out,
        "error": None if row is None else row.error[:_ERROR_MAX] or None,
        "reason": None if row is None else row.reason or None,
        "next_attempt_at": None if row is None else _instant(row.next_attempt_at),
        "waits_for": each.waits_for or None,
    }


def _result(result: bytes | None) -> Any:
    if not result:
        return None
    try:
        return orjson.loads(result)
    except orjson.JSONDecodeError:
        return f"<{len(result)} bytes>"


def _instant(at: Instant) -> str | None:
    return format_rfc3339(at) if at else None


def _seconds(began_at: Instant, ended_at: Instant) -> float | None:
    return round((ended_at - began_at) / US_PER_S, 3) if began_at and ended_at else None
