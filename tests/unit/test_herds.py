"""A herd stands in the log before its instant, and is committed at it: that, and nothing but what was decided then."""

from __future__ import annotations

from dataclasses import replace
from unittest import mock

import pytest
from waterclock.dispatcher import deciding, herds
from waterclock.dispatcher.pace import Pace

from tests.unit.dispatcher_world import NAMES, START, World, every
from tests.unit.test_overlap import say
from tests.unit.test_overlap import start as begin
from waterclock.log.port import Isolation, TopicPartition
from waterclock.log.reading import read_range
from waterclock.model.backfill import make_backfill_id
from waterclock.model.concurrency import Concurrency, Overlap
from waterclock.model.errors import BackendDown, RoundAborted, RoundInDoubt
from waterclock.model.events import Ended, EventKind
from waterclock.model.ids import US_PER_S, make_run_id, ordinal
from waterclock.model.job import CommandKind, Cron, JobSpec, Once
from waterclock.store.memory import MemoryCells
from waterclock.wire import codec

_DUE_AT = START + 30 * US_PER_S
_COUNT = 200
_PACE = Pace(herd_fires=100, herd_lead_s=0.5)


def _world(count: int = _COUNT, pace: Pace = _PACE, before: int = 0) -> World:
    """Just before the herd of ``count`` is sent; ``before``: so many fires are due a tenth of a second before it."""
    world = World(pace=pace)
    world.run(1)
    for number in range(before):
        world.command(CommandKind.CREATE, f"t:before-{number}", JobSpec("demo.noop", Once(_DUE_AT - 100_000)))
    for number in range(count):
        world.command(CommandKind.CREATE, f"t:once-{number}", JobSpec("demo.noop", Once(_DUE_AT)))
    world.run(28, step_s=0.1)
    return world


def _until(world: World, instant: int, step_s: float = 0.02) -> None:
    while world.clock.now() + step_s * US_PER_S <= instant:
        world.steps(1)
        world.clock.advance(round(step_s * US_PER_S))
    world.clock.advance(instant - world.clock.now())


def _ends(world: World) -> list[int]:
    topic = world.cluster.topic(NAMES.run_events)
    return [partition.high for partition in topic.partitions]


def _reads_of(world: World) -> list[str]:
    """Run ids of the PENDING that a reader of committed records has before it."""
    found = []
    for number in range(world.partitions):
        place = TopicPartition(NAMES.run_events, number)
        for record in read_range(world.outside, Isolation.COMMITTED, place, 0, world.cluster.partition(place).lso):
            event = codec.decode_event(record.value or b"")
            found += [event.run_id] if event.kind is EventKind.PENDING else []
    return found


def _open_ends(world: World) -> list[int]:
    """Partitions of run-events whose end is hidden behind an open transaction."""
    places = [TopicPartition(NAMES.run_events, number) for number in range(world.partitions)]
    partitions = [world.cluster.partition(place) for place in places]
    return [place.partition for place, found in zip(places, partitions, strict=True) if found.lso < found.high]


def _ids(count: int = _COUNT) -> list[str]:
    return sorted(make_run_id(f"t:once-{number}", _DUE_AT) for number in range(count))


def _kind(record: object) -> EventKind:
    return codec.decode_event(record.value).kind  # type: ignore[attr-defined]


def _sent_early(world: World) -> bool:
    return world.dispatcher._rounds.is_early


def test_a_herd_stands_in_the_log_before_its_instant_and_is_read_from_then_on() -> None:
    world = _world()
    before = _ends(world)
    _until(world, _DUE_AT - 10_000)
    ends = _ends(world)
    assert sum(ends) - sum(before) >= _COUNT
    assert _reads_of(world) == []
    world.clock.advance(10_000)
    world.steps(1)
    assert sorted(world.runs()) == _ids()
    pending = [each for each in world.records(NAMES.run_events) if _kind(each) is EventKind.PENDING]
    assert len(pending) == _COUNT
    assert all(record.offset < ends[record.partition] for record in pending)  # type: ignore[attr-defined]
    world.run(3)
    assert sorted(world.runs()) == _ids()
    assert sorted(world.work()) == _ids()


def test_few_fires_are_no_herd() -> None:
    world = _world(99)
    _until(world, _DUE_AT - 10_000)
    assert not _sent_early(world)
    world.run(1)
    assert sorted(world.runs()) == _ids(99)


@pytest.mark.parametrize("kind", [CommandKind.PAUSE, CommandKind.DELETE])
def test_a_command_for_a_job_of_the_herd_takes_it_back(kind: CommandKind) -> None:
    world = _world()
    _until(world, _DUE_AT - 200_000)
    assert _sent_early(world)
    world.command(kind, "t:once-7")
    _until(world, _DUE_AT - 10_000)
    world.run(3)
    left = [run_id for run_id in _ids() if not run_id.startswith("t:once-7@")]
    assert sorted(world.runs()) == left
    assert sorted(world.work()) == left


def test_a_command_for_another_job_takes_it_back_too_for_it_has_to_ask_the_store() -> None:
    world = _world()
    _until(world, _DUE_AT - 200_000)
    world.command(CommandKind.CREATE, "t:other", every(3_600))
    world.steps(1)
    assert not _sent_early(world)
    _until(world, _DUE_AT - 20_000)
    assert [event.job_id for event in world.events(EventKind.REVISED)].count("t:other") == 1
    world.run(1)
    assert sorted(world.runs("t:once")) == _ids()


def test_nothing_is_asked_of_store_or_log_while_a_herd_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    world = _world(pace=replace(_PACE, sweep_every_s=0.001, sweep_lap_s=0.001, idle_commit_s=0.001))
    asked = {True: 0, False: 0}
    right = MemoryCells._fault

    def note(cells: MemoryCells, operation: str) -> object:
        asked[_sent_early(world)] += 1
        return right(cells, operation)

    def note_question(_: str, operation: str) -> None:
        asked[_sent_early(world)] += operation in ("high_watermark", "committed", "offset_at")

    monkeypatch.setattr(MemoryCells, "_fault", note)
    world.cluster.faults.on_call = note_question
    seen = []
    for has_command in (False, True):
        if has_command:
            world = _world(pace=world.pace or _PACE)
            world.cluster.faults.on_call = note_question
            _until(world, _DUE_AT - 200_000)
            world.command(CommandKind.CREATE, "t:other", every(3_600))
        _until(world, _DUE_AT)
        seen.append(_sent_early(world))
        world.run(2)
    assert seen == [True, False]
    assert asked[False] > 0
    assert asked[True] == 0
    assert sorted(world.runs("t:once")) == _ids()


def test_a_round_has_room_for_the_whole_herd_and_for_what_is_due_before() -> None:
    world = _world(pace=replace(_PACE, round_records=20), before=90)
    _until(world, _DUE_AT)
    assert _sent_early(world)
    world.steps(1)
    assert sorted(world.runs("t:once")) == _ids()
    assert world.dispatcher._rounds.early_count == 1


def test_a_herd_is_sent_by_its_size_before_its_instant_and_not_at_all_where_that_is_too_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for per_s, lead_us in ((4_000.0, 200_000), (500.0, 0)):
        monkeypatch.setattr(herds, "_RECORDS_PER_S", per_s)
        world = _world(pace=replace(_PACE, herd_lead_s=0.01))
        _until(world, _DUE_AT - lead_us - 50_000)
        assert not _sent_early(world)
        _until(world, _DUE_AT - 20_000)
        assert _sent_early(world) is bool(lead_us)
        world.run(1)
        assert sorted(world.runs()) == _ids()
        assert world.dispatcher._herds.sent_count == bool(lead_us), "no herd is sent twice"


def test_a_dispatcher_whose_partitions_go_gives_its_herd_up_in_that_very_step() -> None:
    world = _world()
    _until(world, _DUE_AT - 300_000)
    assert _sent_early(world)
    other = world.start("d2")
    for _ in range(20):
        other.step()
        was_sent = _sent_early(world)
        world.steps(1)
        if was_sent and not _sent_early(world):
            break
        world.clock.advance(10_000)
    assert not _sent_early(world)
    assert _open_ends(world) == []


def test_trouble_at_the_instant_leaves_nothing_open() -> None:
    world = _world()
    _until(world, _DUE_AT)
    assert _sent_early(world)

    def refuse(*_: object) -> None:
        raise BackendDown("store", "as if it had been asked, and were away")

    with mock.patch.object(deciding, "decide_fires", refuse):
        world.steps(1)
    assert not _sent_early(world)
    assert _open_ends(world) == []
    world.run(3)
    assert sorted(world.runs()) == _ids()


def test_a_dispatcher_that_looks_late_commits_what_is_due() -> None:
    world = _world(pace=replace(_PACE, herd_lead_s=0.9))
    _until(world, _DUE_AT - 850_000)
    assert _sent_early(world)
    world.clock.advance(1_300_000)
    world.steps(1)
    assert world.dispatcher._rounds.early_count == 1
    assert sorted(world.runs()) == _ids()


def test_nothing_else_leaves_while_a_herd_waits_and_all_of_it_afterwards() -> None:
    world = _world(before=1)
    _until(world, _DUE_AT - 20_000)
    assert _sent_early(world)
    assert _reads_of(world) == []
    world.run(1)
    assert sorted(world.runs()) == sorted([make_run_id("t:before-0", _DUE_AT - 100_000), *_ids()])


def test_whoever_joins_meanwhile_has_the_herd_given_up_and_it_runs_once() -> None:
    world = _world()
    _until(world, _DUE_AT - 200_000)
    assert _sent_early(world)
    other = world.start("d2")
    for _ in range(150):
        world.steps(1)
        other.step()
        world.clock.advance(50_000)
    assert sorted(world.runs()) == _ids()
    assert sorted(world.work()) == _ids()


def test_a_herd_whose_dispatcher_dies_before_the_instant_is_its_successors() -> None:
    world = _world()
    _until(world, _DUE_AT - 200_000)
    assert _sent_early(world)
    world.crash()
    world.run(3)
    assert sorted(world.runs()) == _ids()
    assert sorted(world.work()) == _ids()


def test_a_herd_waits_a_second_at_most() -> None:
    world = _world()
    _until(world, _DUE_AT - 200_000)
    assert _sent_early(world)
    world.clock.jump(-10 * US_PER_S)
    _until(world, world.clock.now() + round(herds.HELD_S_MAX * US_PER_S) + 40_000)
    world.steps(1)
    assert not _sent_early(world)
    world.run(12)
    assert sorted(world.runs()) == _ids()


@pytest.mark.parametrize(("operation", "trouble"), [("begin", RoundInDoubt), ("append", RoundAborted)])
def test_a_herd_that_cannot_be_sent_goes_out_at_its_instant(operation: str, trouble: type[Exception]) -> None:
    world = _world()
    failed = []

    def refuse(_: str, called: str) -> None:
        if called == operation and not failed and world.clock.now() > _DUE_AT - US_PER_S:
            failed.append(called)
            raise trouble("as if the broker had said so")

    world.cluster.faults.on_call = refuse
    _until(world, _DUE_AT - 10_000)
    assert failed
    assert not _sent_early(world)
    world.run(1)
    assert sorted(world.runs()) == _ids()


def test_the_end_of_a_dispatcher_leaves_nothing_open() -> None:
    world = _world()
    _until(world, _DUE_AT - 200_000)
    assert _sent_early(world)
    world.dispatcher.drain()
    assert _open_ends(world) == []


def test_whoever_wants_no_herds_has_none() -> None:
    world = _world(1_500, Pace(herd_fires=0))
    _until(world, _DUE_AT - 10_000)
    assert not _sent_early(world)
    world.run(1)
    assert sorted(world.runs()) == _ids(1_500)


def test_what_waits_for_another_run_goes_out_between_two_herds_that_follow_one_another() -> None:
    """Each is sent in the moment that the one before it went out, for a dispatcher that is always a little late."""
    world = World(partitions=1, pace=Pace(herd_fires=1, herd_lead_s=0.9))
    world.command(CommandKind.CREATE, "t:tick", every(1))
    spec = JobSpec("demo.noop", every(3_600).schedule, concurrency=Concurrency(Overlap.BUFFER_ALL))
    world.command(CommandKind.CREATE, "t:queue", spec)
    for _ in range(2):
        world.command(CommandKind.TRIGGER, "t:queue")
    world.run(8)
    (first,) = world.runs("t:queue")
    world.clock.advance(US_PER_S + 150_000 - world.clock.now() % US_PER_S)
    early = 0
    for turn in range(20):
        world.steps(1)
        early += _sent_early(world)
        if turn == 5:
            say(world, first, EventKind.ATTEMPT_SUCCEEDED, token=begin(world, first), detail=Ended(0))
        world.clock.advance(500_000)
    assert early >= 10, "herds did not follow one another"
    assert len([run_id for run_id in _reads_of(world) if run_id.startswith("t:queue@")]) == 2


@pytest.mark.parametrize("is_paused", [True, False])
def test_a_backfill_that_is_paused_takes_no_herd_back(*, is_paused: bool) -> None:
    world = _world()
    world.command(CommandKind.CREATE, "t:old", JobSpec("demo.noop", Cron("0 * * * *")))
    world.run(0.1)
    asked = world.command(CommandKind.BACKFILL, "t:old", from_at=START - 36_000 * US_PER_S, to_at=START, concurrency=1)
    world.steps(3)
    if is_paused:
        backfill_id = make_backfill_id("t:old", ordinal(1, asked))
        world.command(CommandKind.PAUSE_BACKFILL, "t:old", backfill_id=backfill_id)
        world.steps(3)
    _until(world, _DUE_AT - 20_000)
    assert _sent_early(world) is is_paused


def test_a_backfill_that_nobody_can_read_takes_no_herd_back() -> None:
    """It waits for an owner of a later release, and makes nothing before that."""
    world = _world()
    world.command(CommandKind.CREATE, "t:old", JobSpec("demo.noop", Cron("0 * * * *")))
    world.run(0.1)
    world.command(CommandKind.BACKFILL, "t:old", from_at=START - 36_000 * US_PER_S, to_at=START, concurrency=1)
    world.steps(3)
    (backfill,) = [each for shard in world.dispatcher._shards.values() for each in shard.backfills]
    backfill.is_illegible = True
    _until(world, _DUE_AT - 20_000)
    assert _sent_early(world)
