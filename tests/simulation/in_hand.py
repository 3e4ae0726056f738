"""What the processes of workers have in hand, and when it was asked to stop: a ledger outside the system, of user code.

It is kept where user code would run, and knows nothing of why it was asked. Must hold: a turn is noted after the
worker has tended what it holds and before it takes what has ended, so that whoever was to be asked in a turn was asked
before it is noted; ``*_turns`` are how many turns of the process were noted before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from waterclock.workers.executors.port import Attempt

from waterclock.clock import Clock
from waterclock.model.ids import Instant

NEVER = -1


class Turn(NamedTuple):
    """``at``: by the brokers' clock; ``at_s``: by the monotonic one, which a step of the clock does not move."""

    at: Instant
    at_s: float


@dataclass(slots=True, eq=False)
class _Held:
    attempt: Attempt
    since: Turn
    asked_at_s: float = NEVER
    asked_turns: int = NEVER
    gone_turns: int = NEVER


class InHand:
    """Of one process. ``clock``: the brokers'."""

    def __init__(self, clock: Clock, process: str) -> None:
        self.process = process
        self.turns: list[Turn] = []
        """Those in which something was in hand."""
        self._clock = clock
        self._all: list[_Held] = []
        self._now: dict[Attempt, _Held] = {}

    def take(self, attempt: Attempt) -> None:
        """It begins, or waits to begin."""
        held = self._now[attempt] = _Held(attempt, self._turn())
        self._all.append(held)

    def ask(self, attempt: Attempt) -> None:
        """It is asked to stop, or forced; the first time counts."""
        held = self._now.get(attempt)
        if held is not None and held.asked_turns == NEVER:
            held.asked_at_s, held.asked_turns = self._clock.monotonic_s(), len(self.turns)

    def note_turn(self) -> None:
        """The worker looks what has ended."""
        if self._now:
            self.turns.append(self._turn())

    def leave(self, attempt: Attempt) -> None:
        """It has ended, or was dropped."""
        held = self._now.pop(attempt, None)
        if held is not None:
            held.gone_turns = len(self.turns)

    def rows(self) -> list[dict[str, object]]:
        """All that was ever in hand, as plain values."""
        return [self._row(held) for held in self._all]

    def _turn(self) -> Turn:
        return Turn(self._clock.now(), self._clock.monotonic_s())

    def _row(self, held: _Held) -> dict[str, object]:
        work = held.attempt.work
        return {
            "run_id": work.run_id,
            "attempt": work.attempt,
            "token": held.attempt.token,
            "process": self.process,
            "policy": work.policy,
            "at": held.since.at,
            "at_s": held.since.at_s,
            "asked_at_s": held.asked_at_s,
            "asked_turns": held.asked_turns,
            "gone_turns": held.gone_turns,
        }
