"""How a job stands, from its row and its newest runs: last run, next run, retries. One place for API and command line.

Pure. History may lag behind what has happened; so does what is said here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from waterclock.model.events import RunStatus
from waterclock.model.ids import Instant
from waterclock.model.upcoming import next_fire_of

from .next_of_delay import next_of_delay
from .port import JobRow, RunRow

RUNS_LOOKED_AT = 20
"""So many of the newest runs are looked at for one that was not skipped."""


class Standing(NamedTuple):
    """``last_run``: the newest run that was not skipped. ``retry_count``: its attempts after the first."""

    last_run: RunRow | None
    next_run_at: Instant | None
    retry_count: int


def standing_of(row: JobRow, newest_runs: Sequence[RunRow], now: Instant) -> Standing:
    """``newest_runs``: newest fire first, at least ``RUNS_LOOKED_AT`` of them where there are so many."""
    last = next((run for run in newest_runs if run.status is not RunStatus.SKIPPED), None)
    retries = max(0, last.attempt - 1) if last else 0
    next_at = next_of_delay(row, newest_runs) or next_fire_of(row.spec, row.status, row.anchor_at, now)
    return Standing(last, next_at, retries)
