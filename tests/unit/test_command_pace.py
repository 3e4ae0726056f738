"""Commands that come one by one share a round, and nobody waits for it who is alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import pytest
from waterclock.dispatcher.command_pace import ALONE_S, LINGER_S, CommandPace

from waterclock.clock import ManualClock
from waterclock.log.port import Consumer, Polled, Record
from waterclock.model.ids import US_PER_S
from waterclock.transact import Rounds

_WAIT_S = 0.05


class Arrivals:
    """Stands for the log: commands arrive at these seconds, and a poll lingers as the port says."""

    def __init__(self, clock: ManualClock, *at_s: float) -> None:
        self._clock = clock
        self.at_s = list(at_s)

    def poll(self, consumer: Consumer, max_records: int, timeout_s: float, linger_s: float) -> Polled:
        began_s = self._clock.monotonic_s()
        first_s = max(began_s, min(self.at_s, default=float("inf")))
        if first_s > began_s + timeout_s:
            self._go_to(began_s + timeout_s)
            return Polled([])
        self._go_to(max(first_s, began_s + linger_s))
        found = [each for each in self.at_s if each <= self._clock.monotonic_s() + 1e-9]
        self.at_s = self.at_s[len(found) :]
        record = Record("commands", 0, 0, 0, None, None, ())
        return Polled([record] * len(found))

    def _go_to(self, second: float) -> None:
        self._clock.advance(max(0, round((second - self._clock.monotonic_s()) * US_PER_S)))


def polled(at_s: Sequence[float], *, wait_s: float = _WAIT_S, polls: int = 30) -> list[tuple[float, int]]:
    """When commands were handed out, and how many, if they arrive at these seconds, in order."""
    clock = ManualClock()
    log, pace = Arrivals(clock, *at_s), CommandPace(clock)
    found = []
    for _ in range(polls):
        records = pace.poll(cast("Rounds", log), cast("Consumer", None), 500, wait_s).records
        if records:
            found.append((clock.monotonic_s(), len(records)))
    return found


def test_a_command_after_a_while_goes_at_once() -> None:
    assert polled([1.0, 1.2]) == [(pytest.approx(1.0), 1), (pytest.approx(1.2), 1)]


def test_commands_that_come_one_by_one_share_a_round() -> None:
    """52 a second: half as many rounds as commands, and none waits for longer than it may."""
    at_s = [0.019 * number for number in range(1, 53)]
    rounds = polled(at_s, polls=200)
    assert sum(count for _, count in rounds) == 52
    assert len(rounds) <= 27
    assert rounds[1] == (pytest.approx(at_s[0] + LINGER_S), 2)


def test_a_fire_does_not_wait_for_commands() -> None:
    """A poll lingers no longer than until the next fire is due."""
    rounds = polled([0.010, 0.012, 0.030], wait_s=0.004)
    assert [second for second, _ in rounds] == [pytest.approx(0.010), pytest.approx(0.014), pytest.approx(0.030)]


class Waiting(Arrivals):
    """One sender, which asks again as soon as it was answered."""

    def poll(self, consumer: Consumer, max_records: int, timeout_s: float, linger_s: float) -> Polled:
        answered = super().poll(consumer, max_records, timeout_s, linger_s)
        if answered.records:
            self.at_s.append(self._clock.monotonic_s() + 0.002)
        return answered


def test_a_sender_that_waits_for_each_answer_is_made_to_wait_once_a_second() -> None:
    clock = ManualClock()
    log, pace, count = Waiting(clock, 0.0), CommandPace(clock), 0
    while clock.monotonic_s() < 10 * ALONE_S:
        count += len(pace.poll(cast("Rounds", log), cast("Consumer", None), 500, _WAIT_S).records)
    assert count > 0.9 * 10 * ALONE_S / 0.002


def test_a_command_that_came_later_than_the_poll_lingers_was_not_alone() -> None:
    """It waited for nobody, so it says nothing of who comes next: those behind it are collected."""
    rounds = polled([0.010, 0.070, 0.080, 0.090])
    assert rounds[1:] == [(pytest.approx(0.070), 1), (pytest.approx(0.110), 2)]
