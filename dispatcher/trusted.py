"""Rows of the time index that may be believed, and the versions that they stand for (design §6, ghosts).

A row is a hint: a zombie may have written it late, or its deletion may have been lost. ``job_versions`` is the truth,
read only for jobs that were revised lately (they are in memory) and for rows that were written long ago.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import structlog

from waterclock.model.errors import RequestError, UndecodableRecord
from waterclock.model.ids import US_PER_S
from waterclock.model.job import JobStatus, JobVersion
from waterclock.model.untellable import schedule_error
from waterclock.store.port import DueRow, TimeIndex

from .envelope import unseal
from .lately import read_for_rows
from .legible import versions_of_each
from .owed import in_force
from .shard import Shard

log_ = structlog.get_logger("dispatcher")

_LONG_AGO_US = 93_600 * US_PER_S
"""Rows written more than 26 h before they are due are checked against job_versions: their deletion may have been
purged on one replica and missed on another (cassandra.md 2c). 26 h spares daily jobs on the day of 25 hours."""


def trusted_rows(shard: Shard, index: TimeIndex, found: Sequence[DueRow]) -> list[DueRow]:
    """Of each job, revision and minute the first row, if it is no ghost; none with an entry. Raises BackendDown."""
    rows = first_of_each(found)
    read_for_rows(shard, index, rows)
    known = _checked_versions(shard, index, rows)
    return [row for row in rows if _trusted(shard, row, known)]


def first_of_each(rows: Iterable[DueRow]) -> list[DueRow]:
    """One row for each job and revision of a minute: the earliest stands for all fires from it on.

    Two can exist where a command was replayed with another edge. Rows with an entry are deferred attempts.
    """
    first: dict[tuple[str, int, int], DueRow] = {}
    for row in rows:
        key = (row.job_id, row.revision, row.minute)
        if not row.entry and (key not in first or row.due_at < first[key].due_at):
            first[key] = row
    return list(first.values())


def version_of(row: DueRow, index: TimeIndex) -> JobVersion:
    """The version that the row stands for, whose fires can be told.

    Raises UndecodableRecord where nothing says which it is, RequestError where its schedule does not compile any more.
    """
    version = _version_of(row, index)
    if error := schedule_error(version.spec.schedule):
        raise RequestError(error)
    return version


def _version_of(row: DueRow, index: TimeIndex) -> JobVersion:
    """By its envelope; where that cannot be read, from job_versions: the truth behind the hint."""
    try:
        stamp_at, anchor_at, spec, _ = unseal(row.env)
    except UndecodableRecord as error:
        for version in versions_of_each(index, [row.job_id]).get(row.job_id, []):
            if version.revision == row.revision:
                log_.warning("envelope rebuilt from job_versions", job_id=row.job_id, cause=str(error))
                return version
        raise
    return JobVersion(row.job_id, row.revision, spec, JobStatus.ACTIVE, "", stamp_at, anchor_at)


def _checked_versions(shard: Shard, index: TimeIndex, rows: list[DueRow]) -> dict[str, list[JobVersion]]:
    old = [
        row.job_id
        for row in rows
        if row.job_id not in shard.lately and (row.due_at - row.wts > _LONG_AGO_US or is_stale(row))
    ]
    return versions_of_each(index, old)


def is_stale(row: DueRow) -> bool:
    """Written under other transitions of its zone: its fire may be none, and a newer version's deletes missed it."""
    try:
        return unseal(row.env).is_stale
    except UndecodableRecord:
        return False  # it is rebuilt, or said


def _trusted(shard: Shard, row: DueRow, known: dict[str, list[JobVersion]]) -> bool:
    if not shard.trusts(row.job_id, row.revision, row.fire_at):
        return False
    versions = known.get(row.job_id)
    if versions is None:
        return True
    version = in_force([one for one in versions if one.revision < shard.revision_limit], row.fire_at)
    return version is not None and version.revision == row.revision and version.status is JobStatus.ACTIVE
