"""Backfills as people read them: a row for each, made by the recorder of what run-events tell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from waterclock.model.backfill import Backfilled
from waterclock.model.ids import Instant


class BackfillRow(NamedTuple):
    """How a backfill stands. ``at``: when it was told."""

    job_id: str
    told: Backfilled
    at: Instant

    @property
    def wts(self) -> int:
        """The stamp to write with: it rises with what is told, is the same at every replay, and lies near the clock,
        as Cassandra's windows want it and as the bound on stamps ahead of the clock demands."""
        return self.told.asked_at + self.told.seq


class Recorded(NamedTuple):
    """A recorder's word that every run event of a shard below ``offset`` is in history. ``at``: when it says so."""

    shard: int
    generation: int
    offset: int
    at: Instant


class BackfillReading(Protocol):
    """Who shows backfills. Kept for 30 days after they were told of last. Raises BackendDown."""

    def backfill(self, job_id: str, number: int) -> BackfillRow | None:
        """The one with this number."""
        ...

    def backfills_of_job(self, job_id: str, limit: int) -> Sequence[BackfillRow]:
        """Newest first."""
        ...

    def backfills(self, tenant: str, limit: int, after: tuple[str, int] | None = None) -> Sequence[BackfillRow]:
        """By job, from the last name to the first, newest first; ``after``: the (job id, number) of the last one."""
        ...
