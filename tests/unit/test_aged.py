"""How far a reader had come some time ago."""

from __future__ import annotations

import pytest

from waterclock.log.aged import Aged


@pytest.mark.parametrize("every_s", [0.5, 2.0, 7.0, 60.0])
def test_an_offset_is_old_after_its_time_and_not_much_later(every_s: float) -> None:
    """A twelfth of the time and one interval later at most, at whatever rhythm it is told."""
    aged, after_s, now_s = Aged(120.0), 120.0, 5.0
    read_at_s: list[float] = []
    while now_s < 1_000.0:
        read_at_s.append(now_s)
        aged.note(len(read_at_s), now_s)
        for offset in range(aged.below):
            assert now_s - read_at_s[offset] >= after_s
        if aged.below < len(read_at_s):
            assert now_s - read_at_s[aged.below] < after_s + after_s / 12 + 2 * every_s
        now_s += every_s


def test_it_remembers_a_dozen_marks_however_often_it_is_told() -> None:
    aged = Aged(60.0)
    for second in range(100_000):
        aged.note(second, second / 100)
    assert len(aged._marks) <= 13
