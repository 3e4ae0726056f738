"""Which version of a job owes which fires (design §6). Pure.

A fire belongs to the newest version stamped before its fire time, as far as the shard owner could know: what was
decided when a command was applied stays decided. So the fires that a job still owes beyond ``edge_at`` fall into
stretches, one per version.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from waterclock.model.ids import Instant
from waterclock.model.job import JobStatus, JobVersion


class Stretch(NamedTuple):
    """The fires of ``version`` in (``after``, ``until``]."""

    version: JobVersion
    after: Instant
    until: Instant


def stretches(versions: Sequence[JobVersion], edge_at: Instant, until: Instant) -> list[Stretch]:
    """The stretches in (``edge_at``, ``until``], oldest first, of the versions that were ACTIVE in them.

    ``versions``: newest first, as far back as the edge reaches (further ones change nothing).
    """
    found: list[Stretch] = []
    end = until
    for version in versions:
        after = max(version.stamp_at, edge_at)
        if after < end:
            if version.status is JobStatus.ACTIVE:
                found.append(Stretch(version, after, end))
            end = after
        if version.stamp_at <= edge_at:
            break
    found.reverse()
    return found


def in_force(versions: Sequence[JobVersion], fire_at: Instant) -> JobVersion | None:
    """The newest version stamped before ``fire_at``; ``versions`` newest first."""
    for version in versions:
        if version.stamp_at < fire_at:
            return version
    return None
