"""The fires of any schedule: the next one, those between two instants, the newest, and how many.

All in int microseconds, UTC, and without a clock. Intervals start from an anchor that the caller has resolved:
``anchor_at`` is the ``start_at`` of the schedule, or else the stamp of the command that brought it (it is ignored for
the other kinds, and for an interval with a ``start_at`` of its own).

A fixed delay has no fires here: they follow from the ends of its runs, which only its shard's owner knows.

What must hold: the four functions agree with one another, and every one is cheap whatever the span: a year of a
per-second schedule is counted, never walked. ``fires_between`` returns at most ``limit``, the oldest first.
How it fails: RequestError from compiling a cron schedule, which :func:`check_schedule` finds at the door.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import assert_never

from .cron import compile_cron
from .cron_lint import refuse_from_seven
from .errors import RequestError
from .ids import US_PER_S, Instant
from .job import Cron, Dates, Delay, Every, Once, Schedule

EVERY_US_MIN = US_PER_S
"""The shortest interval."""

EVERY_US_MAX = 3_650 * 86_400 * US_PER_S
"""The longest interval: ten years."""

AT_MAX: Instant = 7_258_118_400 * US_PER_S
"""The year 2200: a one-off or a start at or beyond it is a slip of the pen (or milliseconds taken for seconds)."""

DATES_MAX = 1_000
"""Instants in one list."""


def next_fire(schedule: Schedule, anchor_at: Instant, after: Instant, *, job_id: str = "") -> Instant | None:
    """The first fire strictly after ``after``, or None where there is none any more.

    ``job_id`` is needed only where a cron text holds ``H``. Raises RequestError where the cron text does not compile.
    """
    match schedule:
        case Cron():
            return compile_cron(schedule, job_id).next(after)
        case Every():
            anchor, first = _line(schedule, anchor_at)
            return anchor + max(first, (after - anchor) // schedule.every_us + 1) * schedule.every_us
        case Once():
            return schedule.at if schedule.at > after else None
        case Dates():
            place = bisect_right(schedule.times, after)
            return schedule.times[place] if place < len(schedule.times) else None
        case Delay():
            return None
        case _:
            assert_never(schedule)


def last_fire(
    schedule: Schedule, anchor_at: Instant, after: Instant, until: Instant, *, job_id: str = ""
) -> Instant | None:
    """The newest fire in (after, until], or None. Raises as :func:`next_fire`."""
    match schedule:
        case Cron():
            return compile_cron(schedule, job_id).last(after, until)
        case Every():
            anchor, first = _line(schedule, anchor_at)
            number = (until - anchor) // schedule.every_us
            newest = anchor + number * schedule.every_us
            return newest if number >= first and newest > after else None
        case Once():
            return schedule.at if after < schedule.at <= until else None
        case Dates():
            place = bisect_right(schedule.times, until)
            return schedule.times[place - 1] if place and schedule.times[place - 1] > after else None
        case Delay():
            return None
        case _:
            assert_never(schedule)


def count_fires(schedule: Schedule, anchor_at: Instant, after: Instant, until: Instant, *, job_id: str = "") -> int:
    """How many fires lie in (after, until]. Raises as :func:`next_fire`."""
    match schedule:
        case Cron():
            return compile_cron(schedule, job_id).count(after, until)
        case Every():
            anchor, first = _line(schedule, anchor_at)
            from_number = max(first, (after - anchor) // schedule.every_us + 1)
            return max(0, (until - anchor) // schedule.every_us - from_number + 1)
        case Once():
            return int(after < schedule.at <= until)
        case Dates():
            return max(0, bisect_right(schedule.times, until) - bisect_right(schedule.times, after))
        case Delay():
            return 0
        case _:
            assert_never(schedule)


def fires_between(
    schedule: Schedule, anchor_at: Instant, after: Instant, until: Instant, limit: int, *, job_id: str = ""
) -> list[Instant]:
    """The fires in (after, until], oldest first, at most ``limit`` of them: ask :func:`count_fires` for the rest."""
    fires: list[Instant] = []
    while len(fires) < limit:
        found = next_fire(schedule, anchor_at, after, job_id=job_id)
        if found is None or found > until:
            break
        fires.append(found)
        after = found
    return fires


def check_schedule(schedule: Schedule, job_id: str = "") -> None:
    """Refuse a schedule that cannot be kept: RequestError with the pointer of its field in a job document.

    ``NEVER`` too: whether a job may do without fires, ``check_fires`` says.
    """
    match schedule:
        case Cron():
            compile_cron(schedule, job_id)
            refuse_from_seven(schedule.text, seconds=schedule.seconds)
        case Every():
            if not EVERY_US_MIN <= schedule.every_us <= EVERY_US_MAX or schedule.every_us % US_PER_S:
                raise RequestError(
                    "The interval is out of range", pointer="/every", hint="Whole seconds, from 1s to 3650d"
                )
            if schedule.start_at is not None:
                _check_instant(schedule.start_at, "/start_at")
        case Once():
            _check_instant(schedule.at, "/at")
        case Dates():
            _check_dates(schedule.times)
        case Delay():
            if not EVERY_US_MIN <= schedule.delay_us <= EVERY_US_MAX or schedule.delay_us % US_PER_S:
                raise RequestError(
                    "The delay is out of range", pointer="/delay", hint="Whole seconds, from 1s to 3650d"
                )
        case _:
            assert_never(schedule)


def _line(schedule: Every, anchor_at: Instant) -> tuple[Instant, int]:
    """The anchor of an interval and the number of its first fire: a ``start_at`` fires itself, a stamp does not."""
    if schedule.start_at is not None:
        return schedule.start_at, 0
    return anchor_at, 1


def _check_dates(times: tuple[Instant, ...]) -> None:
    if not 1 <= len(times) <= DATES_MAX:
        raise RequestError(
            f"{len(times)} dates are no list of dates", pointer="/dates", hint=f"Give 1 to {DATES_MAX} instants"
        )
    for place, at in enumerate(times):
        _check_instant(at, f"/dates/{place}")
        if place and at <= times[place - 1]:
            raise RequestError(
                "The dates do not rise", pointer=f"/dates/{place}", hint="Send the job as a document, which sorts them"
            )


def _check_instant(at: Instant, pointer: str) -> None:
    if not 0 <= at < AT_MAX:
        raise RequestError("The instant is out of range", pointer=pointer, hint="From 1970 to 2199")
