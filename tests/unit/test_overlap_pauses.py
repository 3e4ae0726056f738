"""What waits for others while its job is paused until an instant: it goes on then, not with the resume before it."""

from __future__ import annotations

from unittest import mock

import pytest
from waterclock.dispatcher import window

from tests.oracle import beside
from tests.unit.dispatcher_world import NAMES, START, World, raw
from tests.unit.test_overlap import JOB, define, end, fire, rest, run, told
from waterclock.model.concurrency import Overlap
from waterclock.model.events import EventKind
from waterclock.model.ids import US_PER_S
from waterclock.model.job import CommandKind

RESUME_AT = START + 55 * US_PER_S


@pytest.fixture
def world():
    with mock.patch.object(window, "SLOTS_PER_SLICE", 256):
        yield World(partitions=1)


def paused_with_one_that_waits(world: World) -> None:
    """The second fire waits; the resume is applied, five seconds before its time."""
    define(world, Overlap.BUFFER_ALL)
    fire(world, 2)
    world.command(CommandKind.PAUSE, JOB, resume_at=RESUME_AT)
    rest(world)
    end(world, run(world, 1))
    go_on_to(world, RESUME_AT - 5 * US_PER_S)
    assert len(world.events(EventKind.REVISED)) == 3


def go_on_to(world: World, at: int) -> None:
    while world.clock.now() < at:
        world.clock.advance(min(US_PER_S, at - world.clock.now()))
        rest(world)


@pytest.mark.parametrize("crashes", [False, True])
def test_what_waits_goes_on_at_the_end_of_the_pause_and_not_with_its_resume(world: World, crashes: bool) -> None:
    paused_with_one_that_waits(world)
    if crashes:
        world.crash()
    go_on_to(world, RESUME_AT - 1)
    assert "PENDING 2" not in told(world)
    go_on_to(world, RESUME_AT)
    assert told(world)[-1] == "PENDING 2"


def test_an_edit_before_the_end_of_the_pause_leaves_what_waits(world: World) -> None:
    paused_with_one_that_waits(world)
    define(world, Overlap.ALLOW)
    go_on_to(world, RESUME_AT - 1)
    assert "PENDING 2" not in told(world)
    go_on_to(world, RESUME_AT)
    assert told(world)[-1] == "PENDING 2"


@pytest.mark.parametrize("crashes", [False, True])
def test_a_pause_and_a_resume_by_hand_before_the_end_of_the_pause_leave_what_waits(world: World, crashes: bool) -> None:
    """Both count from that end on."""
    paused_with_one_that_waits(world)
    world.command(CommandKind.PAUSE, JOB)
    rest(world)
    world.command(CommandKind.RESUME, JOB)
    rest(world)
    assert len(world.events(EventKind.REVISED)) == 5
    world.command(CommandKind.TRIGGER, JOB)
    rest(world)
    if crashes:
        world.crash()
        rest(world)
    (by_hand,) = [run_id for run_id in world.runs(JOB) if "~" in run_id]  # it may overtake, as during all of the pause
    end(world, by_hand)
    go_on_to(world, RESUME_AT - 1)
    assert "PENDING 2" not in told(world)
    go_on_to(world, RESUME_AT + US_PER_S)
    assert told(world)[-1] == "PENDING 2"
    topics = (NAMES.commands, NAMES.run_events)
    assert beside.check(*([raw(record) for record in world.records(topic)] for topic in topics))[0] == []


def test_what_people_ask_for_goes_on_until_the_pause_ends(world: World) -> None:
    paused_with_one_that_waits(world)
    world.command(CommandKind.TRIGGER, JOB)
    rest(world)
    assert told(world)[-1] == "PENDING 5~"
    (by_hand,) = [run_id for run_id in world.runs(JOB) if "~" in run_id]
    end(world, by_hand)
    go_on_to(world, RESUME_AT)
    assert told(world)[-1] == "PENDING 2"
