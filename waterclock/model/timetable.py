"""The fires of a job: those of its schedule, within its ends, each with its due time. Pure, and without a clock.

A fire time names a run; its *due time*, the fire time plus jitter, orders the timeline. Two things hold whatever the
schedule: a fire is never due before its fire time, and of two fires the earlier one is due earlier. So "all fires due
by some instant" is "all fires up to some instant" (:func:`fire_edge`), and the rest can be said in fire times.

``anchor_at``: see ``schedule.py``. Everything here raises as ``schedule.next_fire`` does.
"""

from __future__ import annotations

from hashlib import blake2b

from . import schedule
from .ids import Instant
from .job import JobSpec, JobVersion
from .timing import Timing

_SALT = b"jitter/1"
"""Of the offsets. On-disk format: with another one every job would fire at another moment."""


def next_fire(spec: JobSpec, anchor_at: Instant, after: Instant) -> Instant | None:
    """The first fire strictly after ``after``, or None where there is none any more."""
    timing = spec.timing
    found = schedule.next_fire(spec.schedule, anchor_at, max(after, timing.from_at - 1) if timing.from_at else after)
    return None if found is None or 0 < timing.until_at <= found else found


def last_fire(spec: JobSpec, anchor_at: Instant, after: Instant, until: Instant) -> Instant | None:
    """The newest fire in (after, until], or None."""
    after, until = _within(spec.timing, after, until)
    return schedule.last_fire(spec.schedule, anchor_at, after, until) if after < until else None


def count_fires(spec: JobSpec, anchor_at: Instant, after: Instant, until: Instant) -> int:
    """How many fires lie in (after, until]: by arithmetic, never one by one."""
    after, until = _within(spec.timing, after, until)
    return schedule.count_fires(spec.schedule, anchor_at, after, until) if after < until else 0


def next_of(version: JobVersion, after: Instant) -> Instant | None:
    """The version's first fire strictly after ``after``."""
    return next_fire(version.spec, version.anchor_at, after)


def last_of(version: JobVersion, after: Instant, until: Instant) -> Instant | None:
    """The version's newest fire in (after, until]."""
    return last_fire(version.spec, version.anchor_at, after, until)


def count_of(version: JobVersion, after: Instant, until: Instant) -> int:
    """How many of the version's fires lie in (after, until]."""
    return count_fires(version.spec, version.anchor_at, after, until)


def due_of(version: JobVersion, fire_at: Instant) -> Instant:
    """When a fire of this version is to be decided: the fire time plus jitter."""
    timing = version.spec.timing
    if not timing.jitter_us:
        return fire_at
    if not timing.jitter_per_fire:
        return fire_at + offset_of(version.job_id, timing.jitter_us)
    due_at = fire_at + offset_of(version.job_id, timing.jitter_us, fire_at)
    # The door refuses windows of more than half a gap, as far as it looks. Where a gap far off is smaller still, this
    # keeps the order: a fire that comes behind a later one would lie behind the cursor, and be lost.
    following = next_of(version, fire_at)
    return due_at if following is None else min(due_at, following - 1)


def offset_of(job_id: str, window_us: int, fire_at: Instant | None = None) -> int:
    """How much later than its fire time something is due, in microseconds: below ``window_us``, and always the same.

    ``fire_at``: of a jitter that is drawn for each fire anew. Golden: on-disk format.
    """
    text = job_id if fire_at is None else f"{job_id}@{fire_at}"
    return int.from_bytes(blake2b(text.encode(), digest_size=8, salt=_SALT).digest(), "big") % window_us


def fire_edge(version: JobVersion, edge_at: Instant) -> Instant:
    """The instant up to which exactly those of the version's fires lie that are due at or before ``edge_at``."""
    timing = version.spec.timing
    if not timing.jitter_us:
        return edge_at
    if not timing.jitter_per_fire:
        return edge_at - offset_of(version.job_id, timing.jitter_us)
    newest = last_of(version, edge_at - timing.jitter_us, edge_at)
    return edge_at if newest is None or due_of(version, newest) <= edge_at else newest - 1


def next_due(version: JobVersion, edge_at: Instant) -> Instant | None:
    """The version's first fire that is due after ``edge_at``."""
    return next_of(version, fire_edge(version, edge_at))


def _within(timing: Timing, after: Instant, until: Instant) -> tuple[Instant, Instant]:
    after = max(after, timing.from_at - 1) if timing.from_at else after
    return after, min(until, timing.until_at - 1) if timing.until_at else until
