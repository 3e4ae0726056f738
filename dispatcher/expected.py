"""What a job's next row must be, told by its versions alone: for whoever rebuilds rows, or looks for missing ones.

While everything goes well nobody needs this: the row of a fire is written by whoever loads the one before it. What
must hold: for a job of which nothing was lost, this is the row that stands there already (or its chain is loaded); so
writing it once more changes nothing.

The stamp. A row that has expired hides what is written below its own stamp, and none was ever written at or above its
fire time: so one that is due already is written with its fire time, and wins over its expired self. One that is still
to come cannot have expired; it gets the edge, which lies below the deletes of every command to come.

Its limit: where a command came late and changed a job's jitter, a fire that the older version had decided may be due
under the newer one as well (``commands._floor``). Nothing tells that afterwards; ``may_be_decided`` says of which fires
it could be so. For half an hour after an edit that is asked; by then the edge has passed them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from waterclock.model.ids import Instant, minute_of
from waterclock.model.job import JobStatus, JobVersion
from waterclock.model.timetable import due_of, fire_edge, last_of, next_of
from waterclock.model.timing import JITTER_US_MAX
from waterclock.store.port import TimeIndex

from .errands import Errand
from .legible import newest_below, versions_of_each
from .rows import Ahead, advance_wts, due_row, rows_ahead
from .shard import Shard
from .timeline import Chain


class Expected(NamedTuple):
    """The version's first fire that is still owed. ``ends_at``: later ones are a newer version's; None: none is.
    ``decided_at``: the job's edge."""

    version: JobVersion
    first_at: Instant
    edge_at: Instant
    ends_at: Instant | None
    decided_at: Instant


def versions_of(shard: Shard, index: TimeIndex, job_ids: Sequence[str]) -> Errand[list[list[JobVersion]]]:
    """Of each ACTIVE job its versions, newest first, as far back as they may owe a fire.

    Only commands that this owner has applied count. Older ones than the newest are read where they may matter.
    """
    limit = shard.revision_limit
    wanted = [(job_id, limit) for job_id in job_ids]
    found: list[JobVersion | None]
    found, _ = yield lambda: newest_below(index, wanted)
    newest = [version for version in found if version is not None and version.status is JobStatus.ACTIVE]
    edge_at = shard.progress.begins_at
    back_to = edge_at - JITTER_US_MAX
    revised = [each.job_id for each in newest if back_to < each.stamp_at and shard.has_older(each)]
    older: dict[str, list[JobVersion]] = (yield lambda: versions_of_each(index, revised, back_to)) if revised else {}
    return [
        [version, *(each for each in older.get(version.job_id, ()) if each.revision < version.revision)]
        for version in newest
        if older.get(version.job_id) != []  # this release cannot read what else may owe a fire
    ]


def expected(shard: Shard, versions: Sequence[JobVersion]) -> Iterator[Expected]:
    """Of each version that owes fires beyond the job's edge, the first one. ``versions``: see ``versions_of``."""
    ends_at: Instant | None = None
    first_tier = shard.first_tier_of(versions[0].job_id, versions) if versions else None
    for version in versions:
        edge_at = shard.edge_by(first_tier, version)
        if version.status is JobStatus.ACTIVE:
            after = max(version.stamp_at, fire_edge(version, edge_at), shard.fires_decided_to(version.job_id))
            first_at = next_of(version, after)
            if first_at is not None and (ends_at is None or first_at <= ends_at):
                yield Expected(version, first_at, min(after, edge_at), ends_at, edge_at)
        ends_at = version.stamp_at
        if ends_at <= edge_at - JITTER_US_MAX:
            return


def may_be_decided(owed: Expected, versions: Sequence[JobVersion]) -> bool:
    """Whether an older one of ``versions`` may have decided this very fire, which under another jitter was due sooner.

    It is so until the edge has passed the fire: for as long as its jitter, half an hour at most.
    """
    version, fire_at = owed.version, owed.first_at
    if not version.spec.timing.jitter_us:
        return False
    return any(
        known.revision < version.revision
        and known.status is JobStatus.ACTIVE
        and known.stamp_at < fire_at
        and last_of(known, fire_at - 1, fire_at) is not None
        and due_of(known, fire_at) <= owed.decided_at
        for known in versions
    )


def ahead_of(shard: Shard, owed: Expected, now: Instant, late_before: Instant = 0) -> Ahead:
    """The row of that fire; where its minute is loaded its chain as well, and so on to the first that is not loaded.

    ``late_before``: where the fire is due before then and its minute is loaded, that is all. It is a misfire, and
    whoever decides it decides all that the job owes, and writes what comes after.
    """
    version, first_at, edge_at, ends_at, _ = owed
    due_at = due_of(version, first_at)
    wts = advance_wts(first_at if due_at <= now else edge_at, version)
    if due_at < late_before and shard.is_loaded(version.job_id, minute_of(due_at)):
        row = due_row(version, first_at, wts)
        ahead = Ahead([row], [Chain(version, row, first_at)])
    else:
        ahead = rows_ahead(version, first_at, wts, lambda minute: shard.is_loaded(version.job_id, minute))
    if ends_at is None:
        return ahead
    chains = [chain for chain in ahead.chains if chain.next_at <= ends_at]
    for chain in chains:
        chain.until_at = min(chain.until_at, ends_at)
    return Ahead([row for row in ahead.rows if row.fire_at <= ends_at], chains)
