"""Rounds keep their distance: as near as they may be where they are quick, further apart where they are slow."""

from __future__ import annotations

import pytest

from waterclock.clock import ManualClock
from waterclock.round_pace import LEAST_S, MOST_S, RoundPace


def paced(*took_ms: float) -> float:
    clock = ManualClock()
    pace = RoundPace(clock)
    for each in took_ms:
        with pace.committing():
            clock.advance(round(each * 1_000))
    return pace.distance_s


def aborted(clock: ManualClock, pace: RoundPace) -> None:
    with pace.committing():
        clock.advance(50_000)
        raise ValueError("aborted")


def test_quick_rounds_come_as_near_as_they_may() -> None:
    assert paced() == LEAST_S
    assert paced(*[3.0] * 100) == LEAST_S


def test_slow_rounds_take_a_third_of_the_time_and_no_more() -> None:
    assert paced(*[8.0] * 100) == pytest.approx(0.016, rel=0.01)


def test_however_slow_they_are_the_distance_has_a_bound() -> None:
    assert paced(*[500.0] * 100) == MOST_S


def test_one_slow_round_among_many_changes_little() -> None:
    assert paced(*[4.0] * 100, 30.0) < 0.015


def test_what_did_not_land_and_what_was_empty_does_not_count() -> None:
    clock = ManualClock()
    pace = RoundPace(clock)
    for _ in range(50):
        with pytest.raises(ValueError, match="aborted"):
            aborted(clock, pace)
    assert pace.distance_s == LEAST_S
    slow = RoundPace(clock)
    for took in (*[10_000] * 100, *[0] * 100):
        with slow.committing():
            clock.advance(took)
    assert slow.distance_s == pytest.approx(0.020, rel=0.01)
