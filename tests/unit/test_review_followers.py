"""Records on run-events that decode and yet name no run: they stop neither the recorder nor the retry router."""

from __future__ import annotations

import pytest

from tests.unit.router_world import World as RouterWorld
from tests.unit.test_recorder import World as RecorderWorld
from waterclock.model.events import EventKind, Origin, Pending, RunStatus
from waterclock.model.job import Tier

NO_RUN = "acme:nightly@never~9"


@pytest.mark.parametrize("kind", [EventKind.PENDING, EventKind.HELD])
def test_an_event_that_names_no_run_does_not_stop_the_recorder(kind: EventKind) -> None:
    world = RecorderWorld()
    recorder = world.recorder()
    detail = Pending(1, 1_000_000, None, Tier.HIGH, Origin.SCHEDULE) if kind is EventKind.PENDING else None
    world.event(kind, NO_RUN, detail=detail)
    run_id = world.succeeded()
    world.turn(recorder)
    assert world.row(run_id).status is RunStatus.SUCCEEDED


@pytest.mark.parametrize("kind", [EventKind.PENDING, EventKind.HELD])
def test_an_event_that_names_no_run_does_not_stop_the_retry_router(kind: EventKind) -> None:
    world = RouterWorld()
    router = world.router()
    world.turn(router)
    detail = Pending(1, 1_000_000, None, Tier.HIGH, Origin.SCHEDULE) if kind is EventKind.PENDING else None
    world.event(kind, NO_RUN, detail=detail)
    run_id = world.failed()
    world.turn(router)
    assert [letter.run_id for letter in world.letters()] == [run_id]
