"""Fires that a command finds behind, due by the edge and decided by nobody: they are decided at once (design §6). Pure.

Of a one-off: its only fire, where it lies at or behind the edge, or before its first command. Of any other schedule:
what the version before still held back by a wider jitter (``edges.moved_up``).
"""

from __future__ import annotations

from collections.abc import Sequence

from waterclock.model.ids import Instant
from waterclock.model.job import JobVersion, Once
from waterclock.model.timetable import due_of, next_of

from .edges import Edges, is_decided, moved_up
from .misfire import SkipRange, decide_one


def decide_behind(
    after: JobVersion, versions: Sequence[JobVersion], edge_at: Instant, edges: Edges, grace_us: int
) -> tuple[list[tuple[SkipRange, str]], tuple[Instant, ...]]:
    """What becomes of the fires that an ACTIVE version finds behind, each by itself: skips, and which of them run.

    ``versions``: older, newest first; ``edges``: with its own, if that says anything. Raises Busy.
    """
    if isinstance(after.spec.schedule, Once):
        fires = _one_off(after, versions, edge_at, edges)
    else:
        fires = moved_up(after, versions, edge_at, edges)
    # As of the edge or the stamp, which a replay repeats, and not of somebody's clock.
    late_as_of = max(edge_at, after.stamp_at)
    reasons = [(fire_at, decide_one(after, fire_at, late_as_of, grace_us)) for fire_at in fires]
    skipped = [(SkipRange(after, at, at, 1), reason) for at, reason in reasons if reason]
    return skipped, tuple(at for at, reason in reasons if not reason)


def due_apart(version: JobVersion, fire_at: Instant) -> Instant:
    """When a fire that a command decides is due: a one-off that was over by then has no jitter, it is due at once."""
    return fire_at if fire_at <= version.stamp_at else due_of(version, fire_at)


def _one_off(after: JobVersion, versions: Sequence[JobVersion], edge_at: Instant, edges: Edges) -> list[Instant]:
    """Whatever the command does: a resume and a calendar that come late find it behind, too: it has no later fire."""
    at = next_of(after, -1)
    if at is None:
        return []  # it lies outside the job's own ends
    is_over = at <= after.stamp_at
    if not versions:
        return [at] if is_over or due_of(after, at) <= edge_at else []
    is_behind = not is_over and due_of(after, at) <= edge_at
    return [at] if is_behind and not is_decided(at, versions, edges, edge_at) else []
