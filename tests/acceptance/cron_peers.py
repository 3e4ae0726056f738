"""Where croniter and cronsim differ from the brute-force walk, by kind: wrong, or another rule.

A difference is *wrong* where no rule about clock changes explains it: a time that exists once is left out, a fire comes
at a time that nobody named, an instant comes twice, the search does not end. It is *another rule* where it is about a
time that exists twice or not at all. Both run under a limit of processor time: cronsim has loops without an end.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias
from zoneinfo import ZoneInfo

from croniter import croniter
from cronsim import CronSim, CronSimError

from tests.oracle import brute_force

LIMIT_S = 1.0
"""Of processor time for one stretch; the slowest that ends takes a twentieth of it."""
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
WRONG, RULE, NONE = "wrong", "another rule", "not compared"

Nominal: TypeAlias = tuple[list[tuple[int, bool]], list[tuple[int, int, list[datetime]]]]
"""What ``brute_force.nominal`` says of a stretch."""


class Kind(NamedTuple):
    """A kind of difference: of which library, at what change of the clock, what, and whether it is wrong."""

    library: str
    change: str
    what: str
    verdict: str


class OutOfTime(Exception):
    """The library did not come back."""


def differences(zone: str, text: str, begin: int, end: int, seen: Nominal, change: str) -> Iterator[tuple[Kind, str]]:
    """How each library differs under our default rules: the kinds, each with an example."""
    meant = brute_force.ruled(*seen, *brute_force.rules(text))
    for library, walk in (("croniter", _croniter), ("cronsim", _cronsim)):
        found, ended = _within(walk, zone, text, begin, end)
        for what, verdict in sorted(_kinds(found, meant, seen, ended)):
            example = f"{text!r} in {zone} from {_shown(begin)}: {difference(found, meant)}"
            yield Kind(library, change, what, verdict), example


def _kinds(found: list[int], meant: list[int], seen: Nominal, ended: str) -> set[tuple[str, str]]:
    named, gaps = seen
    once = {minute for minute, second_time in named if not second_time}
    twice = {minute for minute, second_time in named if second_time}
    gap_ends = {minute for minute, _, _ in gaps}
    kinds = {(ended, NONE if ended.startswith("refuses") else WRONG)} if ended else set()
    if ended.startswith("refuses"):
        return kinds
    for minute in () if ended else set(meant) - set(found):
        if minute in once:
            kinds.add(("leaves out a time that exists", WRONG))
        elif minute in twice:
            kinds.add(("leaves out the repeated hour of a wild schedule", RULE))
        else:
            kinds.add(("leaves out what fell into a gap", RULE))
    for minute in set(found) - set(meant):
        if minute in twice:
            kinds.add(("fires in both hours of a fold", RULE))
        elif minute in gap_ends:
            kinds.add(("fires at the end of a gap, for nothing or for a wild schedule", RULE))
        else:
            kinds.add(("fires at a time that nobody named", WRONG))
    return kinds


def _within(walk: Callable[..., Iterator[int]], zone: str, text: str, begin: int, end: int) -> tuple[list[int], str]:
    """The minutes that it found in [begin, end), and how it failed; "" where it did not."""
    found: list[int] = []
    last = begin - 1
    try:
        with _limit():
            for minute in walk(zone, text, begin - 1):
                if minute >= end:
                    break
                if minute <= last:
                    return found, "comes to the same instant again"
                found.append(last := minute)
    except OutOfTime:
        return found, "does not come back"
    except (CronSimError, ValueError, TypeError) as error:
        return found, f"refuses the expression ({type(error).__name__})"
    except StopIteration:
        pass
    return found, ""


def _croniter(zone: str, text: str, after: int) -> Iterator[int]:
    start = (EPOCH + timedelta(minutes=after)).astimezone(ZoneInfo(zone))
    walk = croniter(text, start)
    while True:
        yield _minute(walk.get_next(datetime))


def _cronsim(zone: str, text: str, after: int) -> Iterator[int]:
    start = (EPOCH + timedelta(minutes=after)).astimezone(ZoneInfo(zone))
    for at in CronSim(_spelt_for_cronsim(text), start):
        yield _minute(at)


def _spelt_for_cronsim(text: str) -> str:
    """Its last weekday is ``5L`` where ours is ``L5``; ranges that wrap around it takes as lists alone."""
    minute, hour, day, month, weekday = text.split()
    if re.fullmatch(r"\d+-\d+", hour):
        hour = ",".join(str(value) for value in sorted(brute_force.values(hour, 0, 23)))
    if re.fullmatch(r"[a-z]+-[a-z]+", weekday):
        weekday = ",".join(str(value) for value in sorted(brute_force.values(weekday, 0, 6)))
    return " ".join((minute, hour, day, month, re.sub(r"\bl(\d)", r"\1L", weekday)))


def _minute(at: Any) -> int:
    return int((at.astimezone(UTC) - EPOCH) // timedelta(minutes=1))


@contextmanager
def _limit() -> Iterator[None]:
    def over(*_: object) -> None:
        raise OutOfTime

    before = signal.signal(signal.SIGPROF, over)
    signal.setitimer(signal.ITIMER_PROF, LIMIT_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def change_in(window: list[tuple[datetime, bool, int]]) -> str:
    """What the clock does inside: ``gap of 60 min``, and where it is a rare one the local time at which it begins."""
    for (left, _, before), (_, _, offset) in pairwise(window):
        if offset != before:
            at = left + timedelta(minutes=1)
            size = abs(offset - before)
            usual = size == 60 and at.minute == 0 and at.hour != 0
            where = "" if usual else f" at {at:%H:%M}" if at.hour == 0 or at.minute else ""
            return f"{'gap' if offset > before else 'fold'} of {size} min{where}"
    return "none"


def difference(found: list[int], meant: list[int]) -> str:
    """The first few minutes that are missing, and that are too much."""
    missing, extra = sorted(set(meant) - set(found)), sorted(set(found) - set(meant))
    return f"lacks {[_shown(minute) for minute in missing[:3]]}, adds {[_shown(minute) for minute in extra[:3]]}"


def _shown(minute: int) -> str:
    return f"{EPOCH + timedelta(minutes=minute):%Y-%m-%dT%H:%MZ}"
