"""The promise of fixed delays, held against the log; see ``checkers.py``."""

from __future__ import annotations

from collections import Counter

from tests.oracle import delays
from waterclock.model.ids import US_PER_S

from .dumps import Dumps

_KNOWN_US = 60 * US_PER_S
"""As long as a transaction that died open may hide an end from its owner, and turns of a slow process on top; and all
the while that the whole world sleeps: who wakes may hear of a command before it hears of an end."""


def delays_count_from_ends(dumps: Dumps, counts: Counter[str]) -> list[str]:
    """I1, I14: of a fixed delay each run begins so long after the end of the one before, and the chain goes on."""
    complaints, found = delays_found(dumps)
    counts.update(found)
    return [f"I1 {complaint}" for complaint in complaints]


def delays_found(dumps: Dumps, *, knows_sleep: bool = True) -> tuple[list[str], Counter[str]]:
    """What the judge of delays says. ``knows_sleep`` False: as one who only sees the clock, and not that nobody was
    awake while it went on."""
    known_us = _KNOWN_US + (dumps.asleep_us if knows_sleep else 0)
    bounds = delays.Bounds(known_us, dumps.bounds.within)
    complaints, counts = delays.check(dumps.commands, dumps.events, dumps.until, dumps.healed_at, bounds, dumps.rules)
    return complaints, counts
