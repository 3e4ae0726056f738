"""Which kill explains an aborted record: the counting under ``dispatcher-kill`` must not flatter."""

from __future__ import annotations

from tests.acceptance.kills import Kill, split_by_kill

S = 1_000_000
KILLS = [Kill("dispatcher-1", 10 * S, True), Kill("dispatcher-2", 20 * S, True), Kill("dispatcher-1", 21 * S, False)]


def test_an_aborted_record_belongs_to_the_kill_right_after_it() -> None:
    assert split_by_kill(KILLS, [20 * S - 5_000, 10 * S - 5_000, 20 * S - 6_000]) == [1, 2, 0]


def test_a_record_that_no_kill_explains_counts_for_none() -> None:
    aborted_long_before, aborted_after_all = 15 * S, 22 * S
    assert split_by_kill(KILLS, [aborted_long_before, aborted_after_all]) == [0, 0, 0]


def test_a_kill_without_aborted_records_was_not_inside_a_transaction() -> None:
    assert split_by_kill(KILLS, []) == [0, 0, 0]
