"""How a run is tried again, and how long it may take: the part of a job that speaks of its failures.

Values and their stored form. The stored form is compact JSON with the keys that differ from their defaults ("" where
none does); it stands in job rows, due rows and work records, so it is on-disk format: keys may be added, none may
change meaning. Trusted: only what ``policy_document.py`` has checked is stored.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import StrEnum
from functools import lru_cache
from typing import Any

import orjson

from .ids import US_PER_S

DELAY_US_MAX = 28 * 86_400 * US_PER_S
"""No wait is longer, whoever asks for it. Whoever claims a retry that waited reads its run back from where the wait
began, and ``run-events`` is kept for 30 days: two of them are left for a claim that comes late. Behind that the retry
would never begin."""


class Backoff(StrEnum):
    """How the waits between attempts grow."""

    EXPONENTIAL = "exponential"
    """``delays_us[0]`` doubled with each attempt, at most ``max_delay_us``; full jitter takes a wait from 0 to that."""

    FIXED = "fixed"
    """``delays_us[0]`` each time."""

    LIST = "list"
    """One after the other from ``delays_us``; the last one again when they are used up."""


@dataclass(frozen=True, slots=True)
class ClassRule:
    """Another rule for errors of one class. ``max_attempts`` 0 and ``delays_us`` (): as the policy says."""

    error_class: str
    max_attempts: int = 0
    delays_us: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class FailurePolicy:
    """When to try again, and when to stop. A crash of the worker counts as an attempt; a handing back does not.

    ``max_attempts`` counts the first one. ``never``: error classes that are not tried again. ``queue_timeout_us``: how
    long an attempt may wait for a worker; ``attempt_timeout_us``: how long one may run (0: as long as its executor's
    own time-out, or for ever); ``run_timeout_us``: the age at which the whole run is over, counted from its due time.
    0: no limit.
    """

    max_attempts: int = 4
    backoff: Backoff = Backoff.EXPONENTIAL
    delays_us: tuple[int, ...] = (US_PER_S,)
    max_delay_us: int = 3_600 * US_PER_S
    jitter: bool = True
    never: tuple[str, ...] = ()
    by_class: tuple[ClassRule, ...] = ()
    queue_timeout_us: int = 0
    attempt_timeout_us: int = 0
    run_timeout_us: int = 0


DEFAULT = FailurePolicy()


def policy_to_json(policy: FailurePolicy) -> str:
    """The stored form; "" for the default policy. Exact inverse: :func:`policy_from_json`."""
    if policy == DEFAULT:
        return ""
    return orjson.dumps(_stored(policy, DEFAULT)).decode()


def policy_from_json(stored: str) -> FailurePolicy:
    """The policy of a stored form. Trusted input: nothing is checked.

    Keys of a later release are dropped, and so is a backoff of one: a job waits otherwise then, and no router stops.
    """
    return DEFAULT if not stored else _from_json(stored)


def _stored(value: Any, default: Any) -> dict[str, Any]:
    kept = {field.name: getattr(value, field.name) for field in fields(value)}
    given = {name: part for name, part in kept.items() if default is None or part != getattr(default, name)}
    if "by_class" in given:
        given["by_class"] = [_stored(rule, None) for rule in given["by_class"]]
    return given


@lru_cache(maxsize=4_096)
def _from_json(stored: str) -> FailurePolicy:
    parts = _known(FailurePolicy, orjson.loads(stored))
    if "backoff" in parts:
        word = parts.pop("backoff")
        parts |= {"backoff": Backoff(word)} if word in set(Backoff) else {}
    if "by_class" in parts:
        parts["by_class"] = tuple(ClassRule(**_known(ClassRule, rule)) for rule in parts["by_class"])
    return FailurePolicy(**parts)


def _known(made: type[FailurePolicy | ClassRule], stored: dict[str, Any]) -> dict[str, Any]:
    names = {field.name for field in fields(made)}
    return {
        name: tuple(part) if isinstance(part, list) and name != "by_class" else part
        for name, part in stored.items()
        if name in names
    }
