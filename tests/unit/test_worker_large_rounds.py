"""What a worker records is made smaller where its rounds do not land: the brokers may not take so much in time."""

from __future__ import annotations

import pytest
from waterclock.workers.executors.port import EndedAttempt

from waterclock.model.errors import RoundInDoubt
from waterclock.model.events import Outcome
from waterclock.transact import Rounds

from .worker_world import World

_TAKEN_MAX = 1_000_000
"""Bytes that the brokers take before a round's time is over: a quota, or a slow link."""


def _slow_link(monkeypatch: pytest.MonkeyPatch) -> None:
    send = Rounds._send

    def slow(self: Rounds, producer: object, draft: object, early: object) -> None:
        if sum(len(message.value or b"") for message in draft.messages) > _TAKEN_MAX:  # type: ignore[attr-defined]
            raise RoundInDoubt("its time was over")
        send(self, producer, draft, early)  # type: ignore[arg-type]

    monkeypatch.setattr(Rounds, "_send", slow)


def test_outcomes_that_are_too_much_for_one_round_go_out_in_several(monkeypatch: pytest.MonkeyPatch) -> None:
    """Given 2.4 MB of results at once, and 5 s for a round that does not land: three quarters of the lease are 11 s."""
    world = World()
    worker, executors = world.worker(slots=400)
    run_ids = world.fire(300)
    world.settle(worker)
    _slow_link(monkeypatch)
    for attempt in list(executors.running):
        executors.running.remove(attempt)
        executors.ended.append(EndedAttempt(attempt, Outcome.SUCCEEDED, result=b"1" * 8_000))
    for _ in range(4):
        world.turn(worker, us=2_500_000)
    world.turn(worker, count=200)
    assert world.succeeded() == sorted(run_ids)
    assert executors.forgotten_count == 0, "it lived on"
