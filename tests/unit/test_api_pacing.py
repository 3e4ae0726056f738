"""Many commands by one request: what was sent is told, what was not is left, and nothing lies in between."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.unit.failing_world import API, FailingWorld
from waterclock.api import pacing
from waterclock.api.outbox import Outbox
from waterclock.api.problems import Problem, busy
from waterclock.clock import SystemClock
from waterclock.log.port import Appender, Outgoing


def test_of_commands_that_belong_together_a_full_queue_takes_none() -> None:
    async def story() -> None:
        outbox = Outbox(cast("Appender", None), 3)
        message = Outgoing("waterclock.commands", b"default:j", b"")
        outbox.put_all([message])
        with pytest.raises(Problem, match="commands wait for the log"):
            outbox.put_all([message] * 3)
        assert outbox.depth == 1
        outbox.put_all([message] * 2)

    asyncio.run(story())


def test_what_was_sent_before_the_queue_was_full_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    async def give_all(_: Any, commands: list[Any]) -> list[None]:
        asked.append(len(commands))
        if len(asked) == 2:
            raise busy("full")
        return [None] * len(commands)

    monkeypatch.setattr(pacing, "give_all", give_all)
    services = SimpleNamespace(clock=SystemClock(), settings=SimpleNamespace(api=SimpleNamespace(queue_max=5_000)))
    sent = asyncio.run(pacing.send_paced(cast("Any", services), cast("Any", range(60)), 100.0))
    assert (len(sent.answers), asked) == (25, [25, 25])


def test_a_bulk_change_of_more_jobs_than_the_queue_holds_reaches_them_all() -> None:
    with FailingWorld(queue_max=2) as world:
        for number in range(5):
            world.create(name=f"b-{number}")
        body = {"action": "trigger", "prefix": "b-", "dry_run": False, "rate_per_s": 1_000}
        answer = world.client.post(f"{API}/jobs/bulk", json=body)
        assert (answer.status_code, answer.json()["applied"]) == (200, 5)
