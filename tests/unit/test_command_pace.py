"""Commands that come one by one share a round, and nobody waits for it who waits for an answer himself."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import cast

import pytest
from waterclock.dispatcher import command_pace
from waterclock.dispatcher.command_pace import LINGER_S, REST_MAX_S, CommandPace

from tests.unit.dispatcher_world import START, World, every
from waterclock.clock import ManualClock
from waterclock.log.memory_consumer import MemoryConsumer
from waterclock.log.port import Consumer, Polled, Record
from waterclock.model.ids import US_PER_S
from waterclock.model.job import CommandKind
from waterclock.transact import Rounds

_WAIT_S = 0.05


class Arrivals:
    """Stands for the log: commands arrive at these seconds, and a poll lingers as the port says.

    ``senders``: so many send their first at 0, and the next 2 ms after each answer, which is there after a round.
    ``late_s``: so late a sleeper wakes up.
    """

    def __init__(
        self, *at_s: float, senders: int = 0, round_s: float = 0.008, late_s: float = 0.0, room: int = 500
    ) -> None:
        self.clock = ManualClock()
        self.at_s = sorted(round(each, 6) for each in [*at_s, *[0.0] * senders])
        self.is_early = False
        self.answers = senders > 0
        self._round_s = round_s
        self._late_s = late_s
        self._room = room
        self._pace = CommandPace(self.clock)

    def taken(self, seconds: float, wait_s: float = _WAIT_S) -> list[tuple[float, int]]:
        """When commands were handed out, and how many each time."""
        found: list[tuple[float, int]] = []
        while self.clock.monotonic_s() < seconds:
            records = self._pace.poll(cast("Rounds", self), cast("Consumer", None), self._room, wait_s).records
            if records:
                found.append((self.clock.monotonic_s(), len(records)))
                self._go_to(self.clock.monotonic_s() + self._round_s)
                if self.answers:
                    self.at_s += [self.clock.monotonic_s() + 0.002 + 0.0001 * n for n in range(len(records))]
                    self.at_s.sort()
        return found

    def poll(self, consumer: Consumer, max_records: int, timeout_s: float, linger_s: float) -> Polled:
        began_s = self.clock.monotonic_s()
        assert 0 <= linger_s <= min(LINGER_S, timeout_s)
        first_s = max(began_s, min(self.at_s, default=float("inf")))
        if first_s > began_s + timeout_s:
            self._go_to(began_s + timeout_s)
            return Polled([])
        self._go_to(first_s)
        waited_s = self.clock.monotonic_s() - began_s
        if began_s + linger_s > first_s:
            self._go_to(began_s + linger_s + self._late_s)
        found = [each for each in self.at_s if each <= self.clock.monotonic_s() + 1e-9][:max_records]
        self.at_s = self.at_s[len(found) :]
        return Polled(
            [Record("commands", 0, 0, round(each * US_PER_S), None, None, ()) for each in found], waited_s=waited_s
        )

    def _go_to(self, second: float) -> None:
        self.clock.advance(max(0, round((second - self.clock.monotonic_s()) * US_PER_S)))


def each(*rounds: tuple[float, int]) -> list[tuple[object, int]]:
    return [(pytest.approx(second), count) for second, count in rounds]


def per_s(log: Arrivals, wait_s: float) -> float:
    return sum(count for _, count in log.taken(20.0, wait_s)) / 20.0


def rounds(at_s: Sequence[float], round_s: float) -> int:
    return len(Arrivals(*at_s, round_s=round_s).taken(at_s[-1] + 0.1))


def test_a_command_after_a_while_goes_at_once() -> None:
    assert Arrivals(1.0, 1.2).taken(2.0) == each((1.0, 1), (1.2, 1))


def test_commands_that_come_one_by_one_share_a_round() -> None:
    """52 a second: half as many rounds, and none waits for longer than it may."""
    at_s = [0.019 * number for number in range(1, 521)]
    taken = Arrivals(*at_s).taken(10.0)
    assert sum(count for _, count in taken) == 520
    assert len(taken) <= 262
    assert taken[1] == (pytest.approx(at_s[0] + LINGER_S), 2)


@pytest.mark.parametrize("round_s", [0.008, 0.015])
@pytest.mark.parametrize("per_second", [52, 100])
def test_so_do_those_that_come_by_chance(per_second: int, round_s: float, monkeypatch: pytest.MonkeyPatch) -> None:
    dice = random.Random(7)
    at_s, now_s = [], 0.0
    while now_s < 60.0:
        now_s += dice.expovariate(per_second)
        at_s.append(now_s)
    lingering = rounds(at_s, round_s)
    monkeypatch.setattr(command_pace, "LINGER_S", 0.0)
    assert lingering < 0.75 * rounds(at_s, round_s)


@pytest.mark.parametrize("wait_s", [0.02, 0.03, 0.05])
@pytest.mark.parametrize("late_ms", [0, 6, 20])
@pytest.mark.parametrize("round_s", [0.008, 0.021, 0.030])
@pytest.mark.parametrize("senders", [1, 2, 8])
def test_senders_that_wait_for_their_answers_are_hardly_made_to_wait(
    senders: int, round_s: float, late_ms: int, wait_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long rounds take, also where the machine is so full that a sleeper wakes up late."""
    taken = per_s(Arrivals(senders=senders, round_s=round_s, late_s=late_ms / 1_000), wait_s)
    monkeypatch.setattr(command_pace, "LINGER_S", 0.0)
    at_once = per_s(Arrivals(senders=senders, round_s=round_s), wait_s)
    assert taken > (0.88 if late_ms < 20 else 0.75) * at_once


def test_it_lingers_again_when_somebody_else_comes() -> None:
    """After a rest that is bounded, however long senders waited for their answers before."""
    log = Arrivals(senders=1)
    log.taken(60.0)
    log.answers = False
    begins_s = log.clock.monotonic_s() + REST_MAX_S
    log.at_s = [begins_s + 0.019 * number for number in range(521)]
    assert len(log.taken(begins_s + 10.0)) <= 290


def test_a_round_for_commands_comes_before_the_next_fire() -> None:
    """However soon that is due."""
    assert Arrivals(0.010, 0.012).taken(0.1, wait_s=0.025) == each((0.010, 1), (0.033, 1))  # from 18 ms on for 15
    assert Arrivals(0.010, 0.012).taken(0.1, wait_s=0.015) == each((0.010, 1), (0.018, 1))  # 5 ms spare no round


def test_nothing_lingers_where_a_herd_is_about_to_be_committed() -> None:
    log = Arrivals(0.010, 0.020)
    log.is_early = True
    assert log.taken(0.1) == each((0.010, 1), (0.020, 1))


def test_nothing_lingers_where_one_poll_does_not_take_all_that_stands_there() -> None:
    """A flood is limited by what its commands cost, and by nothing else."""
    taken = Arrivals(*[0.0] * 50, room=10).taken(0.1)
    assert taken == each(*((0.008 * number, 10) for number in range(5)))


def test_a_dispatcher_lingers_behind_a_command_and_not_before_a_fire(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.command(CommandKind.CREATE, "t:a", every(60.0, start_at=START + 10 * US_PER_S))
    world.run(9.9)
    asked: list[float] = []
    poll = MemoryConsumer.poll

    def seen(self: MemoryConsumer, limit: int, timeout_s: float, linger_s: float = 0.0) -> Polled:
        asked.append(linger_s)
        return poll(self, limit, timeout_s, linger_s)

    monkeypatch.setattr(MemoryConsumer, "poll", seen)
    world.command(CommandKind.TRIGGER, "t:a")
    world.steps(2)
    assert asked == [0.0, pytest.approx(LINGER_S)]
    world.clock.advance(95_000)  # 5 ms before its fire
    world.command(CommandKind.TRIGGER, "t:a")
    world.steps(2)
    assert asked[2:] == [0.0, 0.0]
