"""The fires of a job: those of its schedule, within its ends, each with its due time. Pure, and without a clock.

Calendars that move fires make other instants of them (``moving.py``). A fire on a time that a calendar blocks is owed
like any other, and makes no run: :func:`is_blocked`.

A fire time names a run; its *due time*, the fire time plus jitter, orders the timeline. Two things hold whatever the
schedule: a fire is never due before its fire time, and of two fires the earlier one is due earlier. So "all fires due
by some instant" is "all fires up to some instant" (:func:`fire_edge`), and the rest can be said in fire times.

``anchor_at``: see ``schedule.py``. What is asked of a spec raises as ``schedule.next_fire`` does. A *version* was
accepted once: one whose schedule does not compile any more (``untellable.py``) has no fires here, so that it stands in
nobody's way where the versions of a job are set against one another.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b

from . import schedule
from .blocks import Blocks, blocks_of
from .cron_walk import SEARCH_YEARS
from .errors import RequestError
from .ids import US_PER_S, Instant
from .job import JobSpec, JobVersion
from .moving import moving, zone_of
from .timing import Timing
from .untellable import schedule_error

_SEARCH_US = SEARCH_YEARS * 366 * 86_400 * US_PER_S
_SALT = b"jitter/1"
"""Of the offsets. On-disk format: with another one every job would fire at another moment."""


def next_fire(spec: JobSpec, anchor_at: Instant, after: Instant) -> Instant | None:
    """The first fire strictly after ``after``, or None where there is none any more."""
    timing = spec.timing
    if timing.moves:
        return moving(spec.schedule, anchor_at, timing).next(after)
    found = schedule.next_fire(spec.schedule, anchor_at, max(after, timing.from_at - 1) if timing.from_at else after)
    return None if found is None or 0 < timing.until_at <= found else found


def last_fire(spec: JobSpec, anchor_at: Instant, after: Instant, until: Instant) -> Instant | None:
    """The newest fire in (after, until], or None."""
    if spec.timing.moves:
        return moving(spec.schedule, anchor_at, spec.timing).last(after, until) if after < until else None
    after, until = _within(spec.timing, after, until)
    return schedule.last_fire(spec.schedule, anchor_at, after, until) if after < until else None


def count_fires(spec: JobSpec, anchor_at: Instant, after: Instant, until: Instant) -> int:
    """How many fires lie in (after, until]: by arithmetic, never one by one (but for those that calendars move)."""
    if spec.timing.moves:
        return moving(spec.schedule, anchor_at, spec.timing).count(after, until) if after < until else 0
    after, until = _within(spec.timing, after, until)
    return schedule.count_fires(spec.schedule, anchor_at, after, until) if after < until else 0


def is_blocked(spec: JobSpec, at: Instant) -> bool:
    """Whether a calendar of the job blocks the instant: a fire there makes no run."""
    blocks = _blocks_of(spec)
    return blocks is not None and blocks.covers(at)


def free_from(spec: JobSpec, at: Instant) -> Instant | None:
    """The first instant at or after ``at`` that no calendar of the job blocks; None where there is none within some
    forty years."""
    blocks = _blocks_of(spec)
    return at if blocks is None else blocks.free_from(at)


def next_run(spec: JobSpec, anchor_at: Instant, after: Instant) -> Instant | None:
    """The first fire after ``after`` that no calendar blocks; None where there is none within some forty years.

    Goes from one blocked time to the next.
    """
    blocks = _blocks_of(spec)
    found = next_fire(spec, anchor_at, after)
    while found is not None and blocks is not None and blocks.covers(found):
        free_at = blocks.free_from(found)
        if free_at is None or free_at > after + _SEARCH_US:
            return None
        found = next_fire(spec, anchor_at, free_at - 1)
    return found


def blocked_parts(spec: JobSpec, after: Instant, until: Instant) -> Iterator[tuple[Instant, Instant]]:
    """The parts (start, end] of (after, until] that the job's calendars block, in the order of time."""
    blocks = _blocks_of(spec)
    return iter(()) if blocks is None else blocks.between(after, until)


def count_blocked(version: JobVersion, after: Instant, until: Instant) -> int:
    """How many of the version's fires in (after, until] make no run because of its calendars."""
    return sum(count_of(version, *part) for part in blocked_parts(version.spec, after, until))


def next_of(version: JobVersion, after: Instant) -> Instant | None:
    """The version's first fire strictly after ``after``."""
    try:
        return next_fire(version.spec, version.anchor_at, after)
    except RequestError:
        if not schedule_error(version.spec.schedule):
            raise
        return None


def last_of(version: JobVersion, after: Instant, until: Instant) -> Instant | None:
    """The version's newest fire in (after, until]."""
    try:
        return last_fire(version.spec, version.anchor_at, after, until)
    except RequestError:
        if not schedule_error(version.spec.schedule):
            raise
        return None


def count_of(version: JobVersion, after: Instant, until: Instant) -> int:
    """How many of the version's fires lie in (after, until]."""
    try:
        return count_fires(version.spec, version.anchor_at, after, until)
    except RequestError:
        if not schedule_error(version.spec.schedule):
            raise
        return 0


def count_planned(version: JobVersion, after: Instant, until: Instant) -> int:
    """How many fires the schedule names in (after, until], wherever calendars move them. Always by arithmetic: what
    :func:`count_of` costs of a job whose calendars move fires goes by this."""
    after, until = _within(version.spec.timing, after, until)
    return schedule.count_fires(version.spec.schedule, version.anchor_at, after, until) if after < until else 0


def due_of(version: JobVersion, fire_at: Instant) -> Instant:
    """When a fire of this version is to be decided: the fire time plus jitter."""
    timing = version.spec.timing
    if not timing.jitter_us:
        return fire_at
    if _keeps_distances(timing):
        return fire_at + _offset(version)
    due_at = fire_at + _offset(version, fire_at)
    # The door refuses windows of more than half a gap, as far as it looks, and knows nothing of fires that calendars
    # move to one another. Where a gap is smaller still, this keeps the order: a fire that comes behind a later one
    # would lie behind the cursor, and be lost.
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
    if _keeps_distances(timing):
        return edge_at - _offset(version)
    newest = last_of(version, edge_at - timing.jitter_us, edge_at)
    return edge_at if newest is None or due_of(version, newest) <= edge_at else newest - 1


def next_due(version: JobVersion, edge_at: Instant) -> Instant | None:
    """The version's first fire that is due after ``edge_at``."""
    return next_of(version, fire_edge(version, edge_at))


def _keeps_distances(timing: Timing) -> bool:
    """Whether all fires are due later by one offset, and stand as far apart as those of the schedule."""
    return not (timing.jitter_per_fire or timing.moves)


def _offset(version: JobVersion, fire_at: Instant | None = None) -> int:
    """How much later a fire is due: by the second that was picked for the job, by the usual one, or by its own."""
    timing = version.spec.timing
    if timing.placed_us >= 0:
        return timing.placed_us
    return offset_of(version.job_id, timing.jitter_us, fire_at if timing.jitter_per_fire else None)


def _blocks_of(spec: JobSpec) -> Blocks | None:
    """None: nothing is blocked. Where the zone of a schedule is gone, so are the days of its calendars."""
    if not spec.timing.calendars or schedule_error(spec.schedule):
        return None
    return blocks_of(spec.timing.compiled, zone_of(spec.schedule))


def _within(timing: Timing, after: Instant, until: Instant) -> tuple[Instant, Instant]:
    after = max(after, timing.from_at - 1) if timing.from_at else after
    return after, min(until, timing.until_at - 1) if timing.until_at else until
