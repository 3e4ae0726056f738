"""When a job's schedule counts, how its fires are spread, and what becomes of those that were missed (time.md §9, §10).

Values and their stored form. The stored form is compact JSON with the keys that differ from their defaults ("" where
none does); it stands in job rows, due rows and commands, so it is on-disk format: keys may be added, none may change
meaning. Trusted: only what ``timing_document.py`` has checked is stored.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import StrEnum
from functools import lru_cache

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


@dataclass(frozen=True, slots=True)
class Timing:
    """What a job says of its schedule's fires, whatever its kind.

    ``from_at``, ``until_at``: fires lie in [from, until); 0: no such end. ``jitter_us``: the window over which fires
    are spread, 0: none; ``jitter_per_fire``: each fire has an offset of its own, else all of the job's have one.
    ``catch_up_window_us``: what is later than that when a misfire is decided is SKIPPED(expired), whatever the policy.
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
    pause_after_failures: int = 0
    max_runs: int = 0


PLAIN = Timing()
"""No ends, no jitter, ``latest``."""

_WORDS = {"misfire": frozenset(Misfire), "catch_up_order": frozenset(CatchUpOrder)}
_TYPES = {"misfire": Misfire, "catch_up_order": CatchUpOrder}


def timing_to_json(timing: Timing) -> str:
    """The stored form; "" for the plain one. Exact inverse: :func:`timing_from_json`."""
    if timing == PLAIN:
        return ""
    kept = {field.name: getattr(timing, field.name) for field in fields(timing)}
    return orjson.dumps({name: part for name, part in kept.items() if part != getattr(PLAIN, name)}).decode()


def timing_from_json(stored: str) -> Timing:
    """The timing of a stored form. Trusted input: nothing is checked.

    Keys of a later release are dropped, and so are words of one: no dispatcher stops because of them.
    """
    return PLAIN if not stored else _from_json(stored)


@lru_cache(maxsize=4_096)
def _from_json(stored: str) -> Timing:
    names = {field.name for field in fields(Timing)}
    parts = {name: part for name, part in orjson.loads(stored).items() if name in names}
    parts = {name: part for name, part in parts.items() if name not in _WORDS or part in _WORDS[name]}
    return Timing(**parts | {name: _TYPES[name](part) for name, part in parts.items() if name in _TYPES})
