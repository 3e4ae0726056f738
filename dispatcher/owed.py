"""Which version of a job owes which fires (design §6). Pure.

A fire belongs to the newest version stamped before its fire time, as far as the shard owner could know: what was
decided when a command was applied stays decided. So the fires that a job still owes beyond ``edge_at`` fall into
stretches, one per version.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from waterclock.model.ids import Instant
from waterclock.model.job import JobStatus, JobVersion, Tier
from waterclock.model.timetable import fire_edge, last_of
from waterclock.model.timing import JITTER_US_MAX

from .edges import Edges, begins_after


class Stretch(NamedTuple):
    """The fires of ``version`` in (``after``, ``until``]."""

    version: JobVersion
    after: Instant
    until: Instant


def stretches(
    versions: Sequence[JobVersion],
    edge_at: Instant,
    due_until: Instant | None = None,
    *,
    fires_after: Instant = 0,
    fires_until: Instant | None = None,
    edges: Edges = (),
) -> list[Stretch]:
    """What is due after ``edge_at``, oldest first, of the versions that were ACTIVE at its fire times.

    The other bounds, where they are given: due at ``due_until`` at the latest, with fire times in (``fires_after``,
    ``fires_until``]. ``versions``: newest first, as far back as fires due after the edge reach. ``edges``: under which
    late ones of them were applied.
    """
    found: list[Stretch] = []
    ends_at = fires_until
    for number, version in enumerate(versions):
        until = ends_at if due_until is None else fire_edge(version, due_until)
        if until is not None and ends_at is not None:
            until = min(until, ends_at)
        begins = begins_after(version, versions[number + 1 :], edges) if edges else version.stamp_at
        after = max(begins, fire_edge(version, edge_at), fires_after)
        if version.status is JobStatus.ACTIVE and until is not None and after < until:
            found.append(Stretch(version, after, until))
        ends_at = version.stamp_at if ends_at is None else min(ends_at, version.stamp_at)
        if version.stamp_at <= edge_at - JITTER_US_MAX:
            break  # whatever an older one owed was due by the edge
    found.reverse()
    return found


def first_tier(versions: Sequence[JobVersion], due_at: Instant, fires_after: Instant, edges: Edges) -> Tier | None:
    """The tier that places what a job has due at ``due_at``; None: that tells nothing, any version may ask its own.

    With a jitter several versions may have a fire then: all of these go at the place of the first (``timeline.py``).
    """
    if not any(version.spec.timing.jitter_us for version in versions):
        return None
    owed = stretches(versions, due_at - 1, due_at, fires_after=fires_after, edges=edges)
    return min((each.version.spec.tier for each in owed if last_of(*each) is not None), default=None)


def in_force(versions: Sequence[JobVersion], fire_at: Instant) -> JobVersion | None:
    """The newest version stamped before ``fire_at``; ``versions`` newest first."""
    for version in versions:
        if version.stamp_at < fire_at:
            return version
    return None
