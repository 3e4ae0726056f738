"""A failing plan, made smaller for as long as the same promise stays broken: what is left is what it takes.

Orders, troubles, garbage and whole processes are left out, halves first and then one by one. Bounded: after
``PLAYS_MAX`` plays the smallest plan so far is it. Must hold: every step is a play of its own, judged by all checkers;
the promise is named by the first word of its complaint (``I1``); a play in which nothing happens breaks another one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

from .plan import ALWAYS, Plan
from .play import play_plan

PLAYS_MAX = 400
_PARTS = ("troubles", "orders", "garbage")
_EMPTY = " an empty history"


@dataclass(slots=True)
class Shrunk:
    """The smallest plan found, the complaints of its play, and how many plays that took."""

    plan: Plan
    complaints: tuple[str, ...]
    plays: int = 0


def shrink(
    plan: Plan,
    planted: Callable[[], AbstractContextManager[None]] = nullcontext,
    *,
    plays_max: int = PLAYS_MAX,
) -> Shrunk:
    """Raises ValueError where the plan breaks no promise."""
    verdict = play_plan(plan, planted=planted)
    if not verdict.complaints:
        raise ValueError("this plan breaks no promise: there is nothing to shrink")
    promise = _promise(verdict.complaints[0])
    found = Shrunk(plan, verdict.complaints, 1)
    is_smaller = True
    while is_smaller and found.plays < plays_max:
        is_smaller = False
        for smaller in _smaller(found):
            if found.plays >= plays_max:
                break
            verdict = play_plan(smaller, planted=planted)
            found.plays += 1
            if any(_promise(complaint) == promise for complaint in verdict.complaints):
                found.plan, found.complaints = smaller, verdict.complaints
                is_smaller = True
    return found


def _smaller(found: Shrunk) -> Iterator[Plan]:
    """Plans with something less than the smallest one so far, which changes while this goes on."""
    for part in _PARTS:
        size = len(getattr(found.plan, part))
        while size:
            at = 0
            while at < len(getattr(found.plan, part)):
                items: Sequence[Any] = getattr(found.plan, part)
                yield replace(found.plan, **{part: (*items[:at], *items[at + size :])})
                if getattr(found.plan, part) == items:
                    at += size  # that part is needed
            size //= 2
    for slot in found.plan.slots:
        if slot not in ALWAYS:
            yield _without(found.plan, slot)
    for horizon in (found.plan.horizon // 4, found.plan.horizon // 2):
        last = max((each.at for part in _PARTS for each in getattr(found.plan, part)), default=0)
        if last < horizon:
            yield replace(found.plan, horizon=horizon)


def _without(plan: Plan, slot: str) -> Plan:
    """Without a process. Whose doors nobody serves: their orders stay, and wait in vain."""
    troubles = tuple(trouble for trouble in plan.troubles if trouble.slot != slot)
    return replace(plan, slots=tuple(each for each in plan.slots if each != slot), troubles=troubles)


def _promise(complaint: str) -> str:
    return complaint.partition(" ")[0] + (_EMPTY if _EMPTY in complaint else "")
