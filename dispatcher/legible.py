"""Versions that this release can read: of a job that has one it cannot, none.

A row of ``job_versions`` may have a form of a later release, which a job has used already when an older one is put
back. Must hold: such a job stands still, and says so, and no other is held up by it, though many are read in one go.
Nor may it look like a job that is not there: a CREATE would begin it anew, and what waits of it would be given up. So
who asks is told which those are.
"""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from waterclock.model.ids import Instant
from waterclock.model.job import JobVersion
from waterclock.store.in_parts import read_in_parts
from waterclock.store.port import TimeIndex

log_ = structlog.get_logger("dispatcher")


def newest_below(index: TimeIndex, wanted: Sequence[tuple[str, int]]) -> tuple[list[JobVersion | None], set[str]]:
    """``index.versions_below``, and the jobs that cannot be read; for these it has None. Raises BackendDown."""
    if not wanted:
        return [], set()
    illegible: set[str] = set()

    def none(key: tuple[str, int], odd: Exception) -> list[JobVersion | None]:
        illegible.add(key[0])
        _say(key[0], odd)
        return [None]

    parts = read_in_parts(wanted, index.versions_below, none)
    return [version for part in parts for version in part], illegible


def versions_of_each(
    index: TimeIndex, job_ids: Sequence[str], back_to: Instant | None = None
) -> dict[str, list[JobVersion]]:
    """``index.versions``; a job that cannot be read has none of them, one that is not there is not among them."""
    if not job_ids:
        return {}

    def read(some: Sequence[str]) -> dict[str, list[JobVersion]]:
        return index.versions(some, back_to)

    def none(job_id: str, odd: Exception) -> dict[str, list[JobVersion]]:
        _say(job_id, odd)
        return {job_id: []}

    parts = read_in_parts(job_ids, read, none)
    return {job_id: versions for part in parts for job_id, versions in part.items()}


def _say(job_id: str, odd: Exception) -> None:
    log_.error("a job's version cannot be read: upgrade the dispatcher", job_id=job_id, cause=str(odd))
