"""Promises about what waits: see ``checkers.py``. How long is by what others do meanwhile, for a world may sleep."""

from __future__ import annotations

from collections import Counter

from tests.oracle import late_acts, passed_over
from waterclock.model.ids import US_PER_S

from .dumps import Dumps

_EXPIRED_LATE_US = 8 * US_PER_S
"""Of 60 seeds the worst was 0.9 s; one sleep of the world counts for five."""

_HIDDEN_US = 10 * US_PER_S
"""So long after the heal an open transaction of who is gone may hide the end of the log from who would end them."""


def every_tier_is_served(dumps: Dumps, counts: Counter[str]) -> list[str]:
    """I15: of no tier does work wait while much of the others is begun."""
    complaints, found = passed_over.check(dumps.events, dumps.work, dumps.healed_at, dumps.swallowed, dumps.holders)
    counts.update(found)
    return [f"I15 {complaint}" for complaint in complaints]


def who_is_over_its_time_expires(dumps: Dumps, counts: Counter[str]) -> list[str]:
    """I6: a run that waits beyond its time is ended for that before much else goes on."""
    complaints, found = late_acts.expiries(
        dumps.chronicle, dumps.events, dumps.healed_at + _HIDDEN_US, _EXPIRED_LATE_US
    )
    counts.update(found)
    return [f"I6 {complaint}" for complaint in complaints]
