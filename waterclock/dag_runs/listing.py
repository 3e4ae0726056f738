"""The DagRuns among a job's runs, newest first: what is no DagRun (a skipped fire) takes no place of theirs."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from waterclock.model.ids import Instant
from waterclock.store.port import RunRow

PAGE = 500
LOOKED_AT_MAX = 10_000
"""Runs that one list looks at; the next one goes on behind them."""


class Runs(Protocol):
    """What is asked of the store."""

    def runs(
        self, job_id: str, limit: int, before: Instant | None = None, before_series: int | None = None
    ) -> list[RunRow]: ...


class Listed(NamedTuple):
    """``last``: (fire time, series) of the run behind which the list goes on; None: that is all."""

    rows: list[RunRow]
    last: tuple[Instant, int] | None


def dag_runs_of(
    store: Runs, job_id: str, limit: int, before: Instant | None = None, before_series: int | None = None
) -> Listed:
    """At most ``limit`` DagRuns, from where ``Store.runs`` would begin. Raises BackendDown."""
    found: list[RunRow] = []
    for _ in range(LOOKED_AT_MAX // PAGE):
        page = store.runs(job_id, PAGE, before, before_series)
        for row in page:
            before, before_series = row.fire_at, row.series
            if row.is_dag:
                found.append(row)
            if len(found) == limit:
                return Listed(found, (before, before_series))
        if len(page) < PAGE:
            return Listed(found, None)
    assert before is not None  # a whole page was read
    assert before_series is not None
    return Listed(found, (before, before_series))
