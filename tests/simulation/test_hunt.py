"""What a hunt counts as a seed that fell short, and what as a promise that was broken."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from unittest import mock

from . import hunt as hunting
from .hunt import USUAL, hunt
from .plan import Plan, draw
from .play import Verdict

_ENOUGH = Counter({"port calls": hunting.CALLS_MIN, "run events": hunting.EVENTS_MIN})


def _without_people(seed: int) -> Plan:
    return replace(draw(seed), orders=(), garbage=(), troubles=())


def _hunted(*complaints: str) -> hunting.Catch:
    with mock.patch.object(hunting, "play_plan", return_value=Verdict(7, complaints, _ENOUGH, "")):
        return hunt(range(7, 8))


def test_a_seed_in_which_nobody_came_as_far_as_a_run_falls_short_and_breaks_nothing() -> None:
    caught = hunt(range(7, 8), kind=USUAL._replace(draws=_without_people))
    assert (caught.short, caught.violations) == ([7], {})
    assert _hunted("I12 an empty history: nothing was created").short == [7], "however much else was done in it"


def test_an_empty_history_beside_another_complaint_is_a_promise_broken() -> None:
    complaints = ("I1 a fire was lost", "I12 an empty history: nothing was created")
    assert _hunted(*complaints).violations == {7: complaints}


def test_a_seed_that_meets_the_bar_and_breaks_nothing_counts() -> None:
    caught = _hunted()
    assert (caught.short, caught.violations, caught.seeds) == ([], {}, 1)
