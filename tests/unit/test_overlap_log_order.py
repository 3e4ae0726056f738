"""Runs that wait for one another, and events that stand on the log before the run that they name is made."""

from __future__ import annotations

from unittest import mock

import pytest
from waterclock.dispatcher import window
from waterclock.dispatcher.flow import Flow

from tests.unit.dispatcher_world import NAMES, START, World
from tests.unit.test_overlap import EVERY_US, JOB, define, fire, rest, say, start
from waterclock.log.port import Isolation, TopicPartition
from waterclock.log.reading import read_range
from waterclock.model.concurrency import Concurrency, Overlap, concurrency_to_json
from waterclock.model.events import Ended, EventKind, Origin, RunEvent, RunStatus
from waterclock.model.flow_state import JobFlow, RunFlow
from waterclock.model.ids import US_PER_S, make_run_id
from waterclock.model.job import CommandKind, Tier
from waterclock.model.known_state import state_to_text
from waterclock.model.reduce import RunState
from waterclock.wire import codec
from waterclock.wire.codec import decode_event
from waterclock.wire.messages import FLOW_PREFIX


@pytest.fixture
def world():
    with mock.patch.object(window, "SLOTS_PER_SLICE", 256):
        yield World(partitions=1)


def _cancelled_ahead(world: World) -> str:
    """The run of the job's next fire, whose cancel is on the log already."""
    define(world, Overlap.SKIP)
    world.clock.advance(7 * US_PER_S)
    rest(world)
    run_id = make_run_id(JOB, START + EVERY_US)
    world.command(CommandKind.CANCEL, JOB, run_id=run_id)
    world.steps(1)
    return run_id


def test_what_stands_on_the_log_before_a_run_is_made_moves_nothing(world: World) -> None:
    """Given a cancel of a run that is made later, which the arbiter refuses, the run is open until it really ends."""
    run_id = _cancelled_ahead(world)
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
    run_id = _cancelled_ahead(world)
    world.clock.advance(3 * US_PER_S)
    while not world.runs():
        world.steps(1)
    world.crash()
    rest(world)
    fire(world)
    assert world.runs() == [run_id]


@pytest.mark.parametrize("crashes", [False, True])
@pytest.mark.parametrize("cancelled_again", [False, True])
def test_what_stands_on_the_log_before_a_run_is_held_ends_it_for_nobody(
    world: World, crashes: bool, cancelled_again: bool
) -> None:
    """Given a cancel of a run that is held later, the run waits and goes out, whoever owns it; a later one ends it."""
    define(world, Overlap.BUFFER_ALL)
    fire(world)
    first = world.runs()[0]
    token = start(world, first)
    rest(world)
    held = make_run_id(JOB, START + (int((world.clock.now() - START) // EVERY_US) + 1) * EVERY_US)
    world.command(CommandKind.CANCEL, JOB, run_id=held)
    rest(world)
    fire(world)
    assert [event.run_id for event in world.events(EventKind.HELD)] == [held]
    if cancelled_again:
        say(world, held, EventKind.CANCEL_REQUESTED)
    if crashes:
        world.crash()
    rest(world)
    say(world, first, EventKind.ATTEMPT_SUCCEEDED, token=token, detail=Ended(0))
    rest(world)
    assert (held in world.runs()) is not cancelled_again
    fire(world)
    assert len(world.runs()) == 2, "one at a time, in order"


def test_a_run_whose_beginning_retention_took_ends_when_it_is_cancelled(world: World) -> None:
    define(world, Overlap.SKIP)
    fire(world)
    (run_id,) = world.runs()
    place = TopicPartition(NAMES.run_events, 0)
    low = world.outside.high_watermark(place)
    world.cluster.delete_records(place, low)

    def made_since() -> int:
        left = read_range(world.outside, Isolation.COMMITTED, place, low, world.outside.high_watermark(place))
        return sum(decode_event(record.value or b"").kind is EventKind.PENDING for record in left)

    world.crash()
    rest(world)
    fire(world)
    assert made_since() == 0, "it is open"
    say(world, run_id, EventKind.CANCEL_REQUESTED)
    rest(world)
    fire(world)
    assert made_since() == 1


@pytest.mark.parametrize("is_held_behind", [False, True])
def test_an_end_read_at_a_take_over_counts_where_the_run_was_held_before_it(is_held_behind: bool) -> None:
    """Given a run that a predecessor held, and a reading that may begin behind that, it ends once all is read."""
    first, second = make_run_id(JOB, START), make_run_id(JOB, START + EVERY_US)
    limits = concurrency_to_json(Concurrency(Overlap.BUFFER_ALL, max_concurrent=1))
    kept = RunFlow(
        first, "", START, 1, Tier.HIGH, Origin.SCHEDULE, state=state_to_text(RunState(RunStatus.PENDING)), folded_to=5
    )
    waits = RunFlow(second, "overlap", START + EVERY_US, 1, Tier.HIGH, Origin.SCHEDULE)
    records = [(FLOW_PREFIX + JOB, codec.encode_flow_job(JobFlow(JOB, limits)))]
    records += [(FLOW_PREFIX + each.run_id, codec.encode_flow_run(each)) for each in (kept, waits)]
    flow = Flow()
    assert flow.restore(records, 9, 0) == []
    job = flow.jobs[JOB]
    flow.apply(job, RunEvent(EventKind.CANCEL_REQUESTED, JOB, second, START), 6, START, START)
    if is_held_behind:
        flow.apply(job, RunEvent(EventKind.HELD, JOB, second, START), 7, START, START)
    flow.settle_held()
    assert list(job.held) == [second], "what is behind it is still to be read"
    flow.position = 9
    flow.settle_held()
    assert list(job.held) == ([second] if is_held_behind else [])
    flow.apply(job, RunEvent(EventKind.CANCEL_REQUESTED, JOB, second, START), 10, START, START)
    assert not job.held
