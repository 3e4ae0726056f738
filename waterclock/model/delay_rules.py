"""A fixed delay: each fire comes so long after the end of the run before it (time.md §9). Pure.

The words. A *chain* is what one job makes so: fire, run, end, fire. It *counts from* the newest end, or from a fire
that was skipped, which ends at once. A version of the job makes no fire before its *floor*, the first instant behind
its stamp, and behind all that was decided when its command was applied. So a fire belongs to the version that makes it,
and no older one can have decided it.

What must hold: fires of a chain rise, and each is at least its delay behind what it counts from. A clock that is wrong
costs no chain more than its own delay and a minute: an end counts not before its run's fire time, not behind its stamp
in the log (on run-events its writer's), and not from further ahead of its owner's clock than ``AHEAD_US``.
How it fails: RequestError for what cannot go with a fixed delay.
"""

from __future__ import annotations

from typing import NoReturn

from .concurrency import Concurrency
from .errors import RequestError
from .ids import US_PER_MINUTE, Instant
from .job import Delay, Schedule
from .timing import PLAIN, Timing

STAMP_US = 1_000
"""Stamps of the log have no finer parts: an end may lie so much behind its own."""

AHEAD_US = US_PER_MINUTE
"""So far ahead of the owner's clock no end is believed, whatever the log says: on topics whose stamps are those of the
writers, a worker a year ahead would stop its jobs' chains for as long."""


def counted_end(at: Instant, stamped_at: Instant, fire_at: Instant, now: Instant) -> Instant:
    """From when an end counts. ``at``: by whoever ended the run; ``stamped_at``: by the log; ``fire_at``: of the run.

    ``now``: by the owner that reads it.
    """
    ended_at = min(at, stamped_at + STAMP_US)
    if ended_at > now + AHEAD_US:
        ended_at = now
    return max(ended_at, fire_at)


def next_after(counts_from: Instant, delay_us: int, floor_at: Instant) -> Instant:
    """The fire after an end, or after a skipped fire. ``counts_from`` 0: there was none, the chain begins."""
    return max(counts_from + delay_us, floor_at) if counts_from else floor_at


def last_by(first_at: Instant, delay_us: int, until: Instant) -> Instant:
    """The newest of the fires ``first_at``, and so on by the delay, up to ``until``: what a stretch skips. At or after
    ``first_at``, which lies within it."""
    return first_at + max(0, until - first_at) // delay_us * delay_us


def count_of(from_at: Instant, to_at: Instant, delay_us: int) -> int:
    """How many fires a skipped range has: the first, and one for each delay after it."""
    return (to_at - from_at) // delay_us + 1


def check_delay(schedule: Schedule, timing: Timing, concurrency: Concurrency) -> None:
    """Refuse what cannot go with a fixed delay: RequestError. Cheap: for every command, which may be no document's."""
    if not isinstance(schedule, Delay):
        return
    if not concurrency.is_free:
        key = "/overlap" if concurrency.overlap.value != "allow" else "/max_concurrent"
        _refuse(key, "Runs of a fixed delay never overlap", "Leave it out: each begins after the end of the one before")
    if timing.jitter_us:
        _refuse("/jitter", "A fixed delay has no jitter", "Leave it out: its fires follow its runs, and spread by that")
    if timing.moves:
        _refuse("/on_calendar", "next_allowed does not go with a fixed delay", "Use skip: it tries again a delay later")
    if timing.misfire is not PLAIN.misfire:
        _refuse("/misfire", "A fixed delay misses no fire", "Leave it out: the one that is due runs, however late")
    catch_up = (timing.catch_up_max, timing.catch_up_window_us, timing.catch_up_order)
    if catch_up != (PLAIN.catch_up_max, PLAIN.catch_up_window_us, PLAIN.catch_up_order):
        _refuse("/catch_up", "A fixed delay has nothing to catch up", "Leave it out: only one run is due at a time")


def _refuse(pointer: str, message: str, hint: str) -> NoReturn:
    raise RequestError(message, pointer=pointer, hint=hint)
