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

from .errands import Errand, do_at_once
from .legible import versions_of_each
from .shard import Shard


def read_for_rows(shard: Shard, index: TimeIndex, rows: Sequence[DueRow]) -> None:
    """Before these rows are believed, or their fires go on from them. Raises BackendDown."""
    do_at_once(read_beside(shard, index, rows))


def read_beside(shard: Shard, index: TimeIndex, rows: Sequence[DueRow]) -> Errand[None]:
    """The same as an errand: fires do not wait for it."""
    unread = [job for job in dict.fromkeys(row.job_id for row in rows if not row.entry) if job in shard.unread]
    if unread:
        found: dict[str, list[JobVersion]] = yield lambda: versions_of_each(index, unread, shard.unread_back_to)
        _learn(shard, unread, found)


def _learn(shard: Shard, job_ids: Iterable[str], found: Mapping[str, Sequence[JobVersion]]) -> None:
    """Those of commands that are not applied here are a zombie's, that ran ahead."""
    for job_id in job_ids:
        if shard.unread.pop(job_id, None) is None:
            continue  # meanwhile somebody else has read it, or it was forgotten
        known = [version for version in found.get(job_id, ()) if version.revision < shard.revision_limit]
        if job_id in found and not found[job_id]:
            shard.illegible.add(job_id)
        elif known:
            shard.lately[job_id] = known
