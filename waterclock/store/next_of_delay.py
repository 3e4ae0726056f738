"""When a job with a fixed delay fires next, as far as history tells: for people, from its newest runs. Pure.

Only the owner of its shard knows. History may lag, and a clock that is wrong counts otherwise there. What a run of an
older spec was is not asked: whether its end counts for this one, its row does not say.
"""

from __future__ import annotations

from collections.abc import Sequence

from waterclock.model.delay_rules import next_after
from waterclock.model.events import Origin, RunStatus
from waterclock.model.ids import Instant
from waterclock.model.job import Delay, JobStatus

from .port import JobRow, RunRow


def next_of_delay(row: JobRow, newest_runs: Sequence[RunRow]) -> Instant | None:
    """The fire after the newest run of this spec; None while that is open, where there is none, and of any other job.

    ``newest_runs``: newest fire first, so many that triggers and redrives do not hide
    the chain (``standing.RUNS_LOOKED_AT``).
    """
    schedule, timing = row.spec.schedule, row.spec.timing
    if not isinstance(schedule, Delay) or row.status is not JobStatus.ACTIVE:
        return None
    own = (run for run in newest_runs if run.revision >= row.spec_revision)
    last = next((run for run in own if not run.series and run.origin in ("", Origin.SCHEDULE.value)), None)
    if last is None or last.is_last:
        return None
    skipped_at = max(last.fire_at, last.skipped_to) if last.status is RunStatus.SKIPPED else 0
    counts_from = skipped_at or last.ended_at
    if not counts_from:
        return None
    found = next_after(max(counts_from, last.fire_at), schedule.delay_us, row.updated_at + 1)
    return None if 0 < timing.until_at <= found else found
