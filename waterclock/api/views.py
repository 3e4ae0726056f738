"""Rows as the JSON that clients see. Names and statuses are those of the command line; absent things are null."""

from __future__ import annotations

from typing import Any

import orjson
from starlette.responses import Response

from waterclock.model.document import spec_to_document
from waterclock.model.events import Answered, Outcome, RunEvent, RunStatus
from waterclock.model.ids import Instant, make_run_id, split_job_id
from waterclock.model.job import JobVersion, Pause
from waterclock.model.time_text import format_rfc3339
from waterclock.model.untellable import schedule_error
from waterclock.model.upcoming import due_times, next_fire_of
from waterclock.store.dag_port import NodeRow
from waterclock.store.expecting import Expectation
from waterclock.store.port import AttemptRow, JobRow, RunRow
from waterclock.store.request_port import Operation
from waterclock.store.run_rows import node_as_run
from waterclock.store.standing import Standing
from waterclock.wire.headers import WORDS

from .problems import TITLES, TYPE_PREFIX
from .tail import Seen

_HIDDEN_IN_LISTS = ("payload", "payload_base64")


def reply(status: int, document: object, **headers: str) -> Response:
    """A JSON answer; header names are given with underscores for hyphens."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Response(orjson.dumps(document), status, named, "application/json")


def job_view(row: JobRow, now: Instant, *, in_list: bool = False) -> dict[str, Any]:
    """A job: what it is, how it stands, when it fires next. Payloads can be large: a list leaves them out."""
    definition = spec_to_document(row.spec)
    if in_list:
        definition = _without_payloads(definition)
    next_at = next_fire_of(row.spec, row.status, row.anchor_at, now)
    due_at = None if next_at is None else due_times(row.job_id, row.spec, row.anchor_at, [next_at])[0]
    return {
        "job_id": row.job_id,
        "name": split_job_id(row.job_id)[1],
        "status": row.status.name.lower(),
        "next_fire_time": instant(next_at),
        "next_due_time": instant(due_at),
        **definition,
        "schedule_error": schedule_error(row.spec.schedule) or None,
        "pause": pause_view(row.pause),
        "revision": row.revision,
        "created_at": instant(row.created_at),
        "updated_at": instant(row.updated_at),
        **_calendar_versions(row),
    }


def _without_payloads(definition: dict[str, Any]) -> dict[str, Any]:
    """Also without those of a Dag's nodes."""
    kept = {key: value for key, value in definition.items() if key not in _HIDDEN_IN_LISTS}
    if "dag" in kept:
        kept["dag"] = kept["dag"] | {"nodes": [_without_payloads(node) for node in kept["dag"]["nodes"]]}
    return kept


def expectation_view(found: Expectation | None) -> dict[str, Any] | None:
    """Whether a job should have succeeded by now; null where nobody waits."""
    if found is None:
        return None
    return {"succeeded_at": instant(found.succeeded_at), "by": instant(found.by), "overdue": found.is_overdue}


def _calendar_versions(row: JobRow) -> dict[str, Any]:
    uses = row.spec.timing.calendars
    return {"calendar_versions": {use.name: use.version for use in uses}} if uses else {}


def pause_view(pause: Pause | None) -> dict[str, Any] | None:
    """Why a job is paused; null where it is not, or was paused by an earlier release."""
    if pause is None:
        return None
    return {
        "actor": pause.actor,
        "note": pause.note or None,
        "paused_at": instant(pause.paused_at),
        "resume_at": instant(pause.resume_at),
    }


def version_view(version: JobVersion) -> dict[str, Any]:
    """One version of a job, without its definition."""
    return {
        "revision": version.revision,
        "action": version.action or None,
        "actor": version.actor,
        "note": version.note or None,
        "at": instant(version.stamp_at),
        "status": version.status.name.lower(),
        "from_revision": version.from_revision or None,
        "pause": pause_view(version.pause),
    }


def status_view(row: JobRow, standing: Standing) -> dict[str, Any]:
    """How a job stands."""
    last = standing.last_run
    return {
        "job_id": row.job_id,
        "status": row.status.name.lower(),
        "last_run": instant(last.started_at or last.fire_at) if last else None,
        "last_run_id": make_run_id(last.job_id, last.fire_at, last.series) if last else None,
        "last_run_status": last.status.name if last else None,
        "next_run": instant(standing.next_run_at),
        "retry_count": standing.retry_count,
        "pool": row.spec.pool,
        "revision": row.revision,
        "pause": pause_view(row.pause),
    }


def run_view(row: RunRow | NodeRow) -> dict[str, Any]:
    """A run, or a node of a DagRun, as history has it."""
    run = node_as_run(row) if isinstance(row, NodeRow) else row
    node = row.node if isinstance(row, NodeRow) else ""
    is_skipped = run.status is RunStatus.SKIPPED and not node
    return {
        "run_id": make_run_id(run.job_id, run.fire_at, run.series, node),
        "job_id": run.job_id,
        "status": run.status.name,
        "fire_time": instant(run.fire_at),
        "made_by": run.origin.lower(),
        "tier": run.tier.word,
        "revision": run.revision,
        "attempt": run.attempt,
        "outcome": None if run.outcome is Outcome.NONE else run.outcome.name.lower(),
        "dispatched_at": instant(run.dispatched_at),
        "started_at": instant(run.started_at),
        "ended_at": instant(run.ended_at),
        "worker": run.worker or None,
        "fencing_token": run.fence or None,
        "result": _result(run.result),
        "error": run.error or None,
        "reason": run.reason or None,
        "held": held_of(run) or None,
        "next_attempt_at": instant(run.next_attempt_at),
        "cancel_requested": run.cancel_requested,
        "linked_run": run.again_of or None,
        "triggered_by": run.triggered_by or None,
        "is_last": run.is_last,
        "skipped_count": run.skipped_count if is_skipped else None,
        "skipped_to": instant(run.skipped_to) if is_skipped else None,
        "is_dag": run.is_dag,
    }


def held_of(row: RunRow) -> str:
    """Why a run waits for others of its job; "" where it does not."""
    return row.reason if row.status is RunStatus.PENDING else ""


def attempt_view(row: AttemptRow) -> dict[str, Any]:
    """An attempt that was followed by another."""
    return {
        "attempt": row.attempt,
        "outcome": row.outcome.name.lower(),
        "started_at": instant(row.started_at),
        "ended_at": instant(row.ended_at),
        "worker": row.worker or None,
        "fencing_token": row.fence or None,
        "error": row.error or None,
    }


def operation_view(operation: Operation, answer: Answered | None) -> dict[str, Any]:
    """A command that outlasted its request: pending, or what became of it."""
    document: dict[str, Any] = {
        "operation_id": operation.operation_id,
        "status": "pending" if answer is None else answer.verdict,
        "action": operation.action.lower(),
        "job_id": operation.job_id,
        "accepted_at": instant(operation.at),
        "revision": None,
        "run_id": None,
        "problem": None,
    }
    if answer is not None:
        document |= {"revision": answer.revision or None, "run_id": answer.run_id or None}
        if answer.problem:
            slug = {"conflict": "stale"}.get(answer.problem, answer.problem)
            known = slug if slug in TITLES else "invalid"
            document["problem"] = {"type": TYPE_PREFIX + known, "title": TITLES[known], "detail": answer.message}
    return document


def event_view(seen: Seen) -> dict[str, Any]:
    """A run event, as the stream tells it. No payload and no result is in it."""
    event: RunEvent = seen.event
    return {
        "event": WORDS[event.kind],
        "job_id": event.job_id,
        "run_id": event.run_id or None,
        "at": instant(event.at),
        "attempt": event.attempt or None,
        "worker": event.worker or None,
        "reason": event.reason or None,
        **_detail(event),
    }


def instant(at: Instant | None) -> str | None:
    """RFC 3339 in UTC; null for none (0 in tables)."""
    return format_rfc3339(at) if at else None


_SHOWN = ("tier", "pool", "handler", "fire_at", "revision", "action", "fire_count", "from_at", "to_at", "error_class",
          "error_message")  # fmt: skip


def _detail(event: RunEvent) -> dict[str, Any]:
    """The fields of the detail that people look for, if the event has them."""
    found: dict[str, Any] = {}
    for name in _SHOWN:
        value = getattr(event.detail, name, None)
        if value in (None, ""):
            continue
        if name == "tier":
            value = value.word
        found["fire_time" if name == "fire_at" else name] = instant(value) if name.endswith("_at") else value
    return found


def _result(result: bytes | None) -> Any:
    """What a handler returned is kept as JSON; anything else is told by its size."""
    if not result:
        return None
    try:
        return orjson.loads(result)
    except orjson.JSONDecodeError:
        return f"<{len(result)} bytes>"
