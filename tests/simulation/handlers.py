"""User code that is none: how long an attempt takes, how it ends, and whether it listens, are drawn.

``called`` is told each start, and ``in_hand`` what is held: the ledgers outside the system. Must hold: what a run's
code emits is the same in each call of it; what is deaf stops neither when it is asked nor by force, and comes back even
after it was forgotten, as the port allows for a thread that nobody can stop.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from waterclock.workers.executors import ending
from waterclock.workers.executors.emitting import Emissions, Outlet
from waterclock.workers.executors.port import Attempt, EndedAttempt

from waterclock.clock import Clock
from waterclock.model.errors import LeaseLost
from waterclock.model.events import Outcome
from waterclock.model.ids import US_PER_S, murmur2

from .in_hand import InHand

OUTPUTS = "sim.outputs"
_GONE = "sim.gone"
"""A topic that was there when the handler emitted to it, and is not when the round is sent."""

LIST, WAY = "sim.list", "sim.way"
"""Code of a Dag's nodes: the one makes a list, the other follows some of the ways that its payload names."""

HANDLERS = ("sim.ok", "sim.emits", "sim.emits", "sim.fails", "sim.flaky", "sim.flaky", "sim.slow", "sim.deaf")
_USUAL_US = (50_000, 500_000, 4_000_000)
_SLOW_US = (6_000_000, 14_000_000, 25_000_000)
_CLASSES = ("Drawn", "Drawn", "Drawn", "Odd", "Never", "gone")
_ASKED_S_MAX = 2.0


def emits_count(handler: str, run_id: str) -> int:
    """How many records the code of a run sends: the same in each call of it."""
    return murmur2(run_id.encode()) % 4 if handler in ("sim.emits", "sim.slow", "sim.deaf") else 0


@dataclass(slots=True, eq=False)
class _Task:
    """One attempt in hand: its code begins and ends at these monotonic instants."""

    attempt: Attempt
    begins_at_s: float
    ends_at_s: float
    end: EndedAttempt
    has_begun: bool = False
    is_deaf: bool = False


class DrawnExecutors:
    """See ``workers/executors/port.py``."""

    def __init__(
        self,
        clock: Clock,
        rng: random.Random,
        prefix: str,
        called: Callable[[Attempt], None],
        in_hand: InHand,
        is_closing: Callable[[], bool] = lambda: False,
    ) -> None:
        self._clock = clock
        self._rng = rng
        self._outlet = Outlet(prefix, lambda _: True)
        self._called = called
        self._in_hand = in_hand
        self._is_closing = is_closing
        self._tasks: list[_Task] = []
        self._allowed_until_s = float("inf")
        self._has_lapsed = False

    @property
    def busy(self) -> bool:
        """Whether user code is running, or about to."""
        return bool(self._tasks)

    @property
    def is_due(self) -> bool:
        """Whether some of it should begin by now, or has ended."""
        now_s = self._clock.monotonic_s()
        return any((task.ends_at_s if task.has_begun else task.begins_at_s) <= now_s for task in self._tasks)

    def submit(self, attempts: Sequence[Attempt]) -> None:
        now_s, rng = self._clock.monotonic_s(), self._rng
        for attempt in attempts:
            handler = attempt.work.handler
            begins_at_s = now_s + rng.choice((0.0, 0.0, 0.0, 0.4))
            usual_us = _SLOW_US if handler in ("sim.slow", "sim.deaf") else _USUAL_US
            usual_us = _USUAL_US[:1] if self._is_closing() else usual_us
            ends_at_s = begins_at_s + rng.choice(usual_us) / US_PER_S
            task = _Task(attempt, begins_at_s, ends_at_s, self._end(attempt), is_deaf=handler == "sim.deaf")
            self._tasks.append(task)
            self._in_hand.take(attempt)
        self._begin()

    def take_ended(self) -> list[EndedAttempt]:
        self._in_hand.note_turn()
        self._lapse()
        self._begin()
        now_s = self._clock.monotonic_s()
        ended = [task for task in self._tasks if task.has_begun and task.ends_at_s <= now_s]
        self._leave([task for task in self._tasks if task not in ended])
        return [task.end for task in ended]

    def wait(self, enough: int, timeout_s: float) -> None:
        """The schedule moves the clock."""
        self._lapse()

    def allow_until(self, monotonic_s: float) -> None:
        self._lapse()
        if self._has_lapsed:
            raise LeaseLost("three quarters of the lease were over, and what listens was cancelled")
        self._allowed_until_s = monotonic_s

    def ask(self, attempts: Sequence[Attempt]) -> None:
        """Half of those who listen give up soon; the others finish what they do."""
        for task in self._those(attempts):
            task.attempt.is_asked_to_stop = True
            self._in_hand.ask(task.attempt)
            if not task.is_deaf and self._rng.random() < 0.5:
                self._stop(task, self._rng.random() * _ASKED_S_MAX)

    def force(self, attempts: Sequence[Attempt]) -> None:
        for task in self._those(attempts):
            if not task.is_deaf:
                self._stop(task, 0.0)

    def withdraw(self) -> list[Attempt]:
        waiting = [task for task in self._tasks if not task.has_begun]
        self._leave([task for task in self._tasks if task.has_begun])
        return [task.attempt for task in waiting]

    def forget(self) -> None:
        self._allowed_until_s, self._has_lapsed = float("inf"), False
        self._drop()

    def stop(self, grace_s: float) -> None:
        self._leave([])

    def _lapse(self) -> None:
        """Past the lease, what can be stopped is, and nobody is told: only ``forget`` makes room for a new lease."""
        if self._clock.monotonic_s() > self._allowed_until_s:
            self._has_lapsed = True
            self._drop()

    def _drop(self) -> None:
        self._leave([task for task in self._tasks if task.has_begun and task.is_deaf])

    def _leave(self, kept: list[_Task]) -> None:
        """Only these go on."""
        for task in self._tasks:
            if task not in kept:
                self._in_hand.leave(task.attempt)
        self._tasks = kept

    def _begin(self) -> None:
        now_s = self._clock.monotonic_s()
        for task in self._tasks:
            if not task.has_begun and task.begins_at_s <= now_s:
                task.has_begun = True
                self._called(task.attempt)

    def _those(self, attempts: Sequence[Attempt]) -> list[_Task]:
        return [task for task in self._tasks if any(task.attempt is attempt for attempt in attempts)]

    def _stop(self, task: _Task, after_s: float) -> None:
        at_s = max(self._clock.monotonic_s() + after_s, task.begins_at_s)
        if at_s < task.ends_at_s:
            task.ends_at_s = at_s
            task.end = EndedAttempt(
                task.attempt, Outcome.FAILED, error_class="Stopped", error_message="it was asked to"
            )

    def _end(self, attempt: Attempt) -> EndedAttempt:
        handler, rng = attempt.work.handler, self._rng
        if self._is_closing():
            return self._well(attempt)
        if handler == "sim.fails" or (handler == "sim.flaky" and rng.random() < 0.6):
            return self._failing(attempt)
        if emits_count(handler, attempt.work.run_id):
            return self._emitting(attempt)
        return ending.succeeded(attempt, self._value(attempt))

    def _value(self, attempt: Attempt) -> Any:
        """What the code returns; a node's now and then more than is kept, or what is no JSON."""
        handler, rng = attempt.work.handler, self._rng
        if "/" in attempt.work.run_id and rng.random() < (0.25 if handler in (LIST, WAY) else 0.1):
            return rng.choice((["item"] * 2_000, {"item"}))
        if handler == LIST:
            return [f"item{number}" for number in range(rng.choice((0, 1, 2, 2, 3, 5)))]
        if handler != WAY:
            return 1
        given = orjson.loads(attempt.work.payload)
        ways = given.get("payload", given)["ways"]
        return rng.choice((ways[0], ways, rng.sample(ways, rng.randint(0, len(ways))), "nobody"))

    def _failing(self, attempt: Attempt) -> EndedAttempt:
        rng = self._rng
        if rng.random() < 0.15:
            return EndedAttempt(attempt, Outcome.TIMED_OUT, error_class="timed-out", error_message="it took too long")
        retry_after_us = rng.choice((0, 0, 0, 2 * US_PER_S))
        return EndedAttempt(
            attempt,
            Outcome.FAILED,
            error_class=rng.choice(_CLASSES),
            error_message="it was to fail",
            retry_after_us=retry_after_us,
        )

    def _emitting(self, attempt: Attempt) -> EndedAttempt:
        """Some fail after they have emitted, and some emit to a topic that is gone: nothing of either may be seen."""
        draw = self._rng.random()
        if draw > 0.9:
            return EndedAttempt(attempt, Outcome.FAILED, error_class="Drawn", error_message="it was to fail")
        return self._well(attempt, draw)

    def _well(self, attempt: Attempt, draw: float = 1.0) -> EndedAttempt:
        emissions, run_id = Emissions(self._outlet, attempt.work), attempt.work.run_id
        for number in range(emits_count(attempt.work.handler, run_id)):
            emissions.emit(_GONE if number == 0 and draw < 0.05 else OUTPUTS, f"k{number}", run_id)
        return EndedAttempt(attempt, Outcome.SUCCEEDED, emitted=emissions.close())
