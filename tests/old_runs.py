"""Rows of ``runs``, the table that held history before the drawers, as the releases before wrote them.

Nothing of ours writes them any more, but they are there for 30 days after an upgrade.
"""

from __future__ import annotations

from waterclock.store.cells import Put
from waterclock.store.port import RunRow
from waterclock.store.tables import RUNS

_ORIGINS = ("", "SCHEDULE", "TRIGGER", "UNKNOWN", "REDRIVE", "BACKFILL")
_DAY_US = 86_400_000_000


def old_put(run: RunRow) -> Put:
    """The write of its row."""
    cells = (run.revision, run.tier, _ORIGINS.index(run.origin), run.status, run.outcome, run.attempt,
             run.dispatched_at, run.started_at, run.ended_at, run.worker, run.fence, run.error, run.result, run.reason,
             run.zone, run.tzdata, run.skipped_count, run.skipped_to, run.wts, run.next_attempt_at, run.linked_run,
             run.cancel_requested, run.is_last, run.is_dag, run.paused, " ".join(run.rerun_from),
             run.job_id.partition(":")[0])  # fmt: skip
    return Put(RUNS, (run.job_id, run.fire_at // _DAY_US, run.fire_at, run.series, *cells), run.wts)
