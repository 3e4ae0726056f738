"""When a job's schedule counts, how its fires are spread, and what becomes of those that were missed (time.md §9, §10).

Values and their stored form. The stored form is compact JSON with the keys that differ from their defaults ("" where
none does); it stands in job rows, due rows and commands, so it is on-disk format: keys may be added, none may change
meaning. Trusted: only what ``timing_document.py`` has checked is stored.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from enum import StrEnum
from functools import lru_cache
from typing import Any, NamedTuple

import orjson

from .ids import US_PER_S, Instant

JITTER_US_MAX = 1_800 * US_PER_S
"""The widest jitter: half an hour. A shard's owner remembers for an hour which jobs were revised, and an older
revision's fire that is still to come must be decided within that (ARCHITECTURE.md)."""


class Misfire(StrEnum):
    """What becomes of the fires that a job owes once one of them is later than the grace."""

    LATEST = "latest"
    """The newest runs, however late; the others are SKIPPED(coalesced)."""

    SKIP = "skip"
    """Those within the grace run; the older ones are SKIPPED(misfire)."""

    ALL = "all"
    """The newest ``catch_up_max`` run; the older ones are SKIPPED(cap)."""


class CatchUpOrder(StrEnum):
    """In which order the runs of one catch-up are handed out."""

    OLDEST = "oldest"
    NEWEST = "newest"


class OnCalendar(StrEnum):
    """What becomes of a fire on a time that one of the job's calendars blocks."""

    SKIP = "skip"
    """It is SKIPPED(calendar)."""

    NEXT_ALLOWED = "next_allowed"
    """It is moved to the same local time on the next day that allows it, and merged with a fire that is there."""


class CalendarUse(NamedTuple):
    """A calendar of a job's version, as it was when that was saved: its content stands here, not by reference.

    ``version`` only grows with each change of the calendar; ``compiled`` is the text of ``calendar.py``.
    """

    name: str
    version: int
    compiled: str


@dataclass(frozen=True, slots=True)
class Timing:
    """What a job says of its schedule's fires, whatever its kind.

    ``from_at``, ``until_at``: fires lie in [from, until); 0: no such end. ``jitter_us``: the window over which fires
    are spread, 0: none; ``jitter_per_fire``: each fire has an offset of its own, else all of the job's have one.
    ``expect_within_us``: a run should have succeeded within so long before any moment; 0: nobody waits for one. It
    decides nothing, it is told (``waterclock/recorder/overdue.py``).
    ``catch_up_window_us``: what is later than that when a misfire is decided is SKIPPED(expired), whatever the policy.
    ``balanced``: that one offset is the least loaded second of the window, ``placed_us``, which was picked when the job
    was saved; -1: nobody picked, and the offset is the usual one.
    ``pause_after_failures``: how many of its runs in a row end FAILED before the job is paused; 0: however many.
    ``max_runs``: how many runs its schedule makes, 0: any number; skips do not count.
    """

    from_at: Instant = 0
    until_at: Instant = 0
    misfire: Misfire = Misfire.LATEST
    catch_up_max: int = 100
    catch_up_window_us: int = 86_400 * US_PER_S
    catch_up_order: CatchUpOrder = CatchUpOrder.OLDEST
    jitter_us: int = 0
    jitter_per_fire: bool = False
    expect_within_us: int = 0
    calendars: tuple[CalendarUse, ...] = ()
    on_calendar: OnCalendar = OnCalendar.SKIP
    balanced: bool = False
    placed_us: int = -1
    pause_after_failures: int = 0
    max_runs: int = 0

    @property
    def moves(self) -> bool:
        """Whether its calendars move fires, so that they are not those of the schedule alone."""
        return bool(self.calendars) and self.on_calendar is OnCalendar.NEXT_ALLOWED

    @property
    def compiled(self) -> tuple[str, ...]:
        """The compiled texts of its calendars."""
        return tuple(use.compiled for use in self.calendars)


PLAIN = Timing()
"""No ends, no jitter, ``latest``."""

_TYPES = {"misfire": Misfire, "catch_up_order": CatchUpOrder, "on_calendar": OnCalendar}
_WORDS: dict[str, frozenset[str]] = {name: frozenset(words) for name, words in _TYPES.items()}


def timing_to_json(timing: Timing) -> str:
    """The stored form; "" for the plain one. Exact inverse: :func:`timing_from_json`."""
    if timing == PLAIN:
        return ""
    kept = {field.name: getattr(timing, field.name) for field in fields(timing)}
    stored: dict[str, Any] = {name: part for name, part in kept.items() if part != getattr(PLAIN, name)}
    if timing.calendars:
        stored["calendars"] = uses_to_stored(timing.calendars)
    return orjson.dumps(stored).decode()


def timing_from_json(stored: str) -> Timing:
    """The timing of a stored form. Trusted input: nothing is checked but that calendars are such.

    Keys of a later release are dropped, and so are words of one: no dispatcher stops because of them.
    """
    return PLAIN if not stored else _from_json(stored)


@lru_cache(maxsize=4_096)
def _from_json(stored: str) -> Timing:
    names = {field.name for field in fields(Timing)}
    parts = {name: part for name, part in orjson.loads(stored).items() if name in names}
    parts = {name: part for name, part in parts.items() if name not in _WORDS or part in _WORDS[name]}
    if "calendars" in parts:
        parts["calendars"] = uses_from_stored(parts["calendars"])
    return Timing(**parts | {name: _TYPES[name](part) for name, part in parts.items() if name in _TYPES})


def uses_to_stored(uses: tuple[CalendarUse, ...]) -> list[list[Any]]:
    """Lists of name, version and compiled text. On-disk format: parts may be appended."""
    return [list(use) for use in uses]


def uses_from_stored(stored: list[list[Any]]) -> tuple[CalendarUse, ...]:
    """The inverse of :func:`uses_to_stored`. Raises TypeError, ValueError for what it never wrote: commands are
    anybody's, and a version that is no number could not even be compared."""
    found: list[CalendarUse] = []
    for name, version, compiled in (use[:3] for use in stored):
        if not (isinstance(name, str) and type(version) is int and isinstance(compiled, str)):
            raise ValueError("a calendar is a name, a version and a compiled text")
        found.append(CalendarUse(name, version, compiled))
    return tuple(found)


def with_newer(timing: Timing, offered: tuple[CalendarUse, ...]) -> Timing:
    """The timing with those of the offered calendars that it uses in an older version; itself where there is none."""
    newer = {use.name: use for use in offered}
    kept = tuple(
        newer[use.name] if use.name in newer and newer[use.name].version > use.version else use
        for use in timing.calendars
    )
    return timing if kept == timing.calendars else replace(timing, calendars=kept)
