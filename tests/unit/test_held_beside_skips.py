"""A range of skips speaks of the fires of one revision: what waits of another one between them is not skipped by it."""

from __future__ import annotations

from tests.unit.dispatcher_world import NAMES, START, World, store_away
from waterclock.model.concurrency import Concurrency, Overlap
from waterclock.model.events import Ended, EventKind, RunEvent, Skipped, Started
from waterclock.model.fold import Fold
from waterclock.model.ids import US_PER_S, make_run_id, ordinal
from waterclock.model.job import CommandKind, Every, JobSpec
from waterclock.model.timing import Timing
from waterclock.wire import codec
from waterclock.wire.messages import event_message

JOB = "t:job"
BUFFER = Concurrency(Overlap.BUFFER_ALL)
FIRE = START + 60 * US_PER_S


def say(world: World, run_id: str, kind: EventKind, **more: object) -> int:
    event = RunEvent(kind, JOB, run_id, world.clock.now(), 1, "w", 1, **more)  # type: ignore[arg-type]
    appender = world.outside.appender()
    ticket = appender.append(event_message(NAMES, event))
    appender.flush(1.0)
    assert ticket.offset is not None
    return ordinal(1, ticket.offset)


def test_what_waits_of_an_older_revision_goes_out_though_skips_of_the_newer_one_lie_around_it() -> None:
    """Given an edit of schedule and jitter that came late, over a fire of the old schedule that waits: the new one
    still owes a fire before it, and after an absence skips that with later ones."""
    world = World(partitions=1)
    world.command(CommandKind.CREATE, JOB, JobSpec("demo.noop", Every(3_600 * US_PER_S, FIRE), concurrency=BUFFER))
    world.run(1)
    world.command(CommandKind.TRIGGER, JOB)
    world.run(50)
    (first,) = world.runs(JOB)
    world.tables.on_call = store_away
    timing = Timing(jitter_us=30 * US_PER_S, balanced=True, placed_us=28 * US_PER_S)
    newer = JobSpec("demo.noop", Every(60 * US_PER_S, FIRE - 2 * US_PER_S), concurrency=BUFFER, timing=timing)
    world.command(CommandKind.UPDATE, JOB, newer)
    world.run(15)
    world.tables.on_call = None
    world.run(10)
    held = make_run_id(JOB, FIRE)
    assert [each.run_id for each in world.events(EventKind.HELD)] == [held]
    world.clock.advance(300 * US_PER_S)  # the machine slept
    world.crash()
    world.run(20)
    token = say(world, first, EventKind.STARTED, detail=Started("x", 0, 0))
    say(world, first, EventKind.ATTEMPT_SUCCEEDED, token=token, detail=Ended(0))
    world.run(5)
    assert held in world.runs(JOB)
    fold: Fold[None] = Fold(generation=1)
    refused: list[RunEvent] = []
    for record in world.records(NAMES.run_events):
        event = codec.decode_event(record.value)  # type: ignore[attr-defined]
        if not fold.apply(event, record.offset).accepted:  # type: ignore[attr-defined]
            refused.append(event)
    assert refused == []
    skips = [each.detail for each in world.events(EventKind.SKIPPED) if isinstance(each.detail, Skipped)]
    assert sum(each.fire_count for each in skips) == 4
