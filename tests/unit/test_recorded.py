"""What the recorder says of how far history is written is true when it is said, and stays true."""

from __future__ import annotations

from unittest import mock

from tests.unit.backfill_world import JOB, BackfillWorld
from tests.unit.dispatcher_world import NAMES
from waterclock.log.port import TopicPartition
from waterclock.model.errors import BackendDown
from waterclock.model.ids import parse_run_id
from waterclock.recorder.recorded import TELL_EVERY_S, RecordedPositions
from waterclock.store.made_runs import recorded_to
from waterclock.store.memory import MemoryStore


def test_a_word_is_said_every_few_seconds_and_only_of_what_has_moved() -> None:
    positions = RecordedPositions(3)
    assert positions.word(7, 0.0) == ()
    positions.reached(0, 10)
    positions.reached(1, 20)
    assert [(word.shard, word.generation, word.offset, word.at) for word in positions.word(7, 0.0)] == [
        (0, 3, 10, 7),
        (1, 3, 20, 7),
    ]
    positions.reached(0, 11)
    assert positions.word(8, TELL_EVERY_S / 2) == ()
    assert [word.shard for word in positions.word(8, TELL_EVERY_S)] == [0]
    assert positions.word(9, 3 * TELL_EVERY_S) == ()


def test_every_run_below_the_word_is_in_history_and_the_word_comes_to_the_end_at_rest() -> None:
    world = BackfillWorld()
    world.define()
    for _ in range(30):
        world.wait(20)
        said = recorded_to(world.store, 0, 1)
        below = [event for event, record in _events(world) if record.offset < said and event.startswith(JOB)]  # type: ignore[attr-defined]
        assert all(world.store.run(JOB, parse_run_id(run_id).fire_at, 0) for run_id in below)
    world.clock.advance(10_000_000)
    for _ in range(10):
        world.recorder.step()
    end = world.outside.high_watermark(TopicPartition(NAMES.run_events, 0))
    world.clock.advance(10_000_000)
    for _ in range(10):
        world.recorder.step()
    assert recorded_to(world.store, 0, 1) == end


def test_while_history_is_not_written_nothing_more_is_said() -> None:
    world = BackfillWorld()
    world.define()
    world.wait(60)
    said = recorded_to(world.store, 0, 1)
    with mock.patch.object(MemoryStore, "record", side_effect=BackendDown("cassandra", "away")):
        world.wait(180)
        assert recorded_to(world.store, 0, 1) == said
    world.wait(60)
    assert recorded_to(world.store, 0, 1) > said


def _events(world: BackfillWorld) -> list[tuple[str, object]]:
    records = world.records(NAMES.run_events)
    return [(event.run_id, record) for event, record in zip(world.events(), records, strict=True) if event.run_id]
