"""Versions of jobs that were revised within the hour before a take-over: read when the first row of one is looked at.

Ghosts are told by them (``trusted.py``). Only the job's name is learnt at the take-over: of ten thousand one-offs that
job events wrote in that hour hardly one has a row that is still due, and reading the versions of all of them took most
of a take-over. What must hold: whoever is to believe a row, or makes one anew, comes by here first; from then on what
was read counts like what this owner has applied itself. A command needs nothing of it: it reads the versions below its
own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from waterclock.model.job import JobVersion
from waterclock.store.port import DueRow, TimeIndex

from .errands import Errand
from .shard import Shard


def read_for_rows(shard: Shard, index: TimeIndex, rows: Sequence[DueRow]) -> None:
    """Before these rows are believed, or their fires go on from them. Raises BackendDown."""
    unread = _unread(shard, rows)
    if unread:
        _learn(shard, unread, index.versions(unread, shard.unread_back_to))


def read_beside(shard: Shard, index: TimeIndex, rows: Sequence[DueRow]) -> Errand[None]:
    """The same as an errand: fires do not wait for it."""
    unread = _unread(shard, rows)
    if unread:
        found: dict[str, list[JobVersion]] = yield lambda: index.versions(unread, shard.unread_back_to)
        _learn(shard, unread, found)


def _unread(shard: Shard, rows: Sequence[DueRow]) -> list[str]:
    return [job_id for job_id in dict.fromkeys(row.job_id for row in rows if not row.entry) if job_id in shard.unread]


def _learn(shard: Shard, job_ids: Iterable[str], found: Mapping[str, Sequence[JobVersion]]) -> None:
    """Those of commands that are not applied here are a zombie's, that ran ahead."""
    for job_id in job_ids:
        if shard.unread.pop(job_id, None) is None:
            continue  # meanwhile somebody else has read it, or it was forgotten
        known = [version for version in found.get(job_id, ()) if version.revision < shard.revision_limit]
        if known:
            shard.lately[job_id] = known
