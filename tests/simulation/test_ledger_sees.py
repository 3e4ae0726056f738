"""The product's ledger sees bugs of the dispatcher by itself: its own faults, not the books', are looked at here."""

from __future__ import annotations

from collections import Counter

import pytest

from waterclock.ledger.sums import FaultKind

from .ledger_checkers import judged_by_ledger, the_ledger_agrees_with_the_books
from .planted import PLANTED
from .play import leave
from .story import Story

SEEDS_MAX = 40
"""Each of these is seen in one of the first few."""


@pytest.mark.parametrize(
    ("name", "kind"),
    [("pause is not heeded", FaultKind.WRONG), ("next row not written ahead", FaultKind.MISSING)],
)
def test_a_planted_bug_is_a_fault_of_the_ledger_and_the_books_say_so_too(name: str, kind: FaultKind) -> None:
    for seed in range(SEEDS_MAX):
        dumps = leave(seed, Story(), PLANTED[name])
        sums = judged_by_ledger(dumps).values()
        found = {kind for each in sums for hour in each.hours.values() for kind in hour.faults}
        if kind in found:
            assert the_ledger_agrees_with_the_books(dumps, Counter()) == []
            return
    raise AssertionError(f"{name}: nothing {kind.value} in {SEEDS_MAX} seeds")


def test_a_ledger_that_sees_what_the_books_do_not_is_a_complaint() -> None:
    dumps = leave(1, Story())
    assert the_ledger_agrees_with_the_books(dumps, Counter()) == []
    sums = judged_by_ledger(dumps)
    busiest = max(sums, key=lambda job_id: sum(hour.owed for hour in sums[job_id].hours.values()))
    del dumps.versions[busiest]
    (complaint,) = the_ledger_agrees_with_the_books(dumps, Counter())
    assert busiest in complaint
