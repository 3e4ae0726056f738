"""Runs that wait for one another, and events that stand on the log before the run that they name is made."""

from __future__ import annotations

from unittest import mock

import pytest
from waterclock.dispatcher import window

from tests.unit.dispatcher_world import START, World
from tests.unit.test_overlap import EVERY_US, JOB, define, fire, rest, say, start
from waterclock.model.concurrency import Overlap
from waterclock.model.events import Ended, EventKind
from waterclock.model.ids import US_PER_S, make_run_id
from waterclock.model.job import CommandKind


@pytest.fixture
def world():
    with mock.patch.object(window, "SLOTS_PER_SLICE", 256):
        yield World(partitions=1)


def test_what_stands_on_the_log_before_a_run_is_made_moves_nothing(world: World) -> None:
    """Given a cancel of a run that is made later, which the arbiter refuses, the run is open until it really ends."""
    define(world, Overlap.SKIP)
    world.clock.advance(7 * US_PER_S)
    rest(world)
    run_id = make_run_id(JOB, START + EVERY_US)
    world.command(CommandKind.CANCEL, JOB, run_id=run_id)
    world.steps(1)
    fire(world)
    assert world.runs() == [run_id]
    token = start(world, run_id)
    rest(world)
    fire(world)
    assert world.runs() == [run_id], "it is open, so the next fire is skipped"
    world.crash()
    rest(world)
    fire(world)
    assert world.runs() == [run_id], "a successor knows that, too"
    say(world, run_id, EventKind.ATTEMPT_SUCCEEDED, token=token, detail=Ended(0))
    rest(world)
    fire(world)
    assert len(world.runs()) == 2


def test_a_successor_believes_no_end_from_before_its_predecessors_run(world: World) -> None:
    define(world, Overlap.SKIP)
    world.clock.advance(7 * US_PER_S)
    rest(world)
    run_id = make_run_id(JOB, START + EVERY_US)
    world.command(CommandKind.CANCEL, JOB, run_id=run_id)
    world.steps(1)
    world.clock.advance(3 * US_PER_S)
    while not world.runs():
        world.steps(1)
    world.crash()
    rest(world)
    fire(world)
    assert world.runs() == [run_id]
