"""A run that was just made is waited for, a second at most: also one that keeps the fire time of another."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from waterclock.api import appearing, runs
from waterclock.api.services import Services
from waterclock.clock import ManualClock
from waterclock.model.ids import parse_run_id

NOW = 1_795_000_000_000_000


class LateHistory:
    """Shows a run at the third look."""

    def __init__(self) -> None:
        self.clock = ManualClock(NOW)
        self.store = self
        self.looks = 0

    async def call(self, work: Callable[..., Any], *args: Any) -> Any:
        return work(*args)

    def run(self, *place: Any) -> str | None:
        self.looks += 1
        return str(place) if self.looks > 2 else None

    def has(self, run_id: str) -> bool:
        return asyncio.run(runs.run_row(cast("Services", self), parse_run_id(run_id))) is not None


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(appearing, "_LOOK_AGAIN_S", 0.0)


def test_a_redrive_or_rerun_of_an_old_run_is_waited_for() -> None:
    assert LateHistory().has("acme:nightly@20260901T090000Z~281474976710700")


def test_a_run_of_this_moment_is_waited_for() -> None:
    assert LateHistory().has("acme:nightly@20261118T110640Z")


def test_an_old_run_of_the_schedule_is_looked_for_once() -> None:
    history = LateHistory()
    assert not history.has("acme:nightly@20260901T090000Z")
    assert history.looks == 1
