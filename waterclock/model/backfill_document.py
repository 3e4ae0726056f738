"""A backfill as people see it: one document for the API and the command line."""

from __future__ import annotations

from typing import Any

from .backfill import Backfilled, eta_s, make_backfill_id
from .ids import Instant
from .time_text import format_rfc3339


def backfill_to_document(job_id: str, told: Backfilled, at: Instant, now: Instant) -> dict[str, Any]:
    """How it stands. ``at``: when that was told; between two words of a running one there are a few seconds."""
    eta = eta_s(told, now)
    return {
        "backfill_id": make_backfill_id(job_id, told.number),
        "job_id": job_id,
        "status": told.status.value,
        "reason": told.reason or None,
        "from": format_rfc3339(told.from_at),
        "to": format_rfc3339(told.to_at),
        "reached": format_rfc3339(told.position_at) if told.position_at >= told.from_at else None,
        "revision": told.revision,
        "tier": told.tier.word,
        "concurrency": told.concurrency,
        "fires": told.fire_count,
        "made": told.made_count,
        "left_out": told.left_count,
        "blocked": told.blocked_count,
        "remaining": told.fire_count - told.decided_count,
        "open": told.made_count - told.ended_count,
        "succeeded": told.succeeded_count,
        "failed": told.failed_count,
        "cancelled": told.cancelled_count,
        "eta_s": None if eta is None else round(eta),
        "asked_at": format_rfc3339(told.asked_at),
        "began_at": format_rfc3339(told.began_at) if told.began_at else None,
        "told_at": format_rfc3339(at),
        "actor": told.actor,
        "note": told.note or None,
    }
