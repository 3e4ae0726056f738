"""Hours in which little happens break no promise, and bugs that only hours show are caught (``long_plan.py``).

Each bug is looked for in a seed that is known to catch it, and where what is drawn has changed since in others;
``make show NAME=long-seeds`` looks in fresh ones.
"""

from __future__ import annotations

import os

import pytest

from .hunt import LONG, catch_planted, hunt
from .plan_text import plan_from_text, plan_to_text
from .planted_hours import PLANTED_IN_HOURS
from .play import play_plan
from .slice import first_seed

FIRST_SEED = first_seed()
SEEDS = 6
CAUGHT_BY = {
    "rows of an owner that looked further ahead stay": 3,
    "reconciler does not ask the rungs": 6,
}
OTHERS = 40
"""So many seeds are tried where the known one does not catch the bug any more: a test that is slower, and no other."""


def test_no_promise_is_broken_in_hours_of_fresh_seeds() -> None:
    caught = hunt(range(FIRST_SEED, FIRST_SEED + SEEDS), processes=os.cpu_count() or 1, kind=LONG)
    assert caught.violations == {}
    assert len(caught.short) <= 1, "one of 200 is: all is paused, say, before anybody wakes"
    assert caught.counts["take-over by one that looks less far"], "owners of other look-aheads follow one another"


@pytest.mark.parametrize("name", PLANTED_IN_HOURS)
def test_a_bug_that_only_hours_show_is_caught(name: str) -> None:
    caught = catch_planted(name, (CAUGHT_BY[name], *range(OTHERS)), LONG)
    assert caught is not None
    assert play_plan(LONG.draws(caught.seed)).complaints == (), "without the bug nothing is wrong"


def test_a_long_plan_is_the_same_after_it_was_kept() -> None:
    for seed in range(FIRST_SEED, FIRST_SEED + 20):
        plan = LONG.draws(seed)
        assert plan_from_text(plan_to_text(plan)) == plan
