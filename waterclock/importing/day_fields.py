"""Where others read the two day fields of a cron expression otherwise than we do, so that it would fire on other days.

Ours: where both restrict, a day matches that either means; a full range, such as ``1-31``, restricts nothing.
"""

from __future__ import annotations

from typing import TypeAlias

from waterclock.model.cron import compile_cron
from waterclock.model.errors import RequestError
from waterclock.model.job import Cron

Difference: TypeAlias = tuple[str, str]
"""Why, and what to do."""

_FULL_RANGE = (
    "a full range of days makes every day match there, and restricts nothing in Waterclock",
    "Write * for both day fields, or for the full one if the other was meant to restrict",
)
_BOTH = (
    "cron fires where day of month and day of week both match, Waterclock where either does",
    "Restrict one of them and let the command check the other; the second Monday is mon#2",
)
_ALL_DAYS = (1 << 32) - 2
_ALL_WEEKDAYS = (1 << 7) - 1
_STARS = {"*", "?", "*/1", "?/1"}


def vixie_days_differ(cron: str) -> Difference | None:
    """Why cron(8) would fire on other days; None where it would not, or the door refuses the text anyway.

    Vixie's cron wants both fields to match where one *starts* with ``*``, also as ``*/2``; else either.
    """
    words = cron.split()
    restricted = _restricted(words)
    if restricted is None:
        return None
    starred = words[2].startswith("*") or words[4].startswith("*")
    if all(restricted) and starred:
        return _BOTH
    return _FULL_RANGE if any(restricted) and not all(restricted) and not starred else None


def kubernetes_days_differ(cron: str) -> Difference | None:
    """The same for Kubernetes: both fields must match where one is a bare ``*`` or ``?``; else either."""
    words = cron.split()
    restricted = _restricted(words)
    if restricted is None or all(restricted) or not any(restricted):
        return None
    return None if _STARS & {words[2], words[4]} else _FULL_RANGE


def _restricted(words: list[str]) -> tuple[bool, bool] | None:
    """Whether day of month and day of week restrict, in our reading."""
    if len(words) != 5:
        return None
    try:
        days = compile_cron(Cron(" ".join(words)), "default:import").days
    except RequestError:
        return None
    return days.last or days.days != _ALL_DAYS, bool(days.nth) or days.weekdays != _ALL_WEEKDAYS
