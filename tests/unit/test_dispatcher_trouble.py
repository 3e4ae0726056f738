"""What a dispatcher keeps when something is lost, late or in doubt."""

from __future__ import annotations

from itertools import pairwise
from unittest import mock

import pytest
from structlog.testing import capture_logs
from waterclock.dispatcher.pace import Pace
from waterclock.dispatcher.rows import due_row

from tests.unit.dispatcher_world import NAMES, START, World, every
from waterclock.log.memory import CommitFate
from waterclock.log.port import Committed, TopicPartition
from waterclock.model.errors import BackendDown, UndecodableRecord
from waterclock.model.events import EventKind, Revised, RunEvent
from waterclock.model.ids import US_PER_S, make_run_id, ordinal, parse_run_id
from waterclock.model.job import CommandKind, JobSpec, JobStatus, JobVersion, Once
from waterclock.store.memory import MemoryStore
from waterclock.wire.messages import event_message

GROUP = NAMES.group("dispatcher")
ID = NAMES.transactional_id("dispatcher", "d1")


def fires(job_id: str, first_at: int, every_s: int, count: int) -> list[str]:
    return [make_run_id(job_id, first_at + k * every_s * US_PER_S) for k in range(count)]


def lose_metadata(world: World, *, offsets: bool) -> None:
    """What a foreign tool does to the group: a commit without metadata, or (offsets) the group is gone."""
    world.cluster.kill(f"d1-{world.lives}")
    world.clock.advance(10 * US_PER_S)
    if offsets:
        world.cluster.expire_group(GROUP)
    else:
        tool = world.outside.consumer(GROUP, [NAMES.commands])
        tool.poll(0, 0)
        places = sorted(tool.owned())
        for place, committed in tool.committed(places, 1.0).items():
            if committed is not None:
                tool.commit({place: Committed(committed.offset)})
        tool.close(leave=True)
    world.dispatcher = world.start()


@pytest.mark.parametrize("offsets", [False, True])
def test_a_lost_cursor_is_rebuilt_and_no_fire_is_lost_or_doubled(offsets: bool) -> None:
    world = World(partitions=1)
    world.run(1)
    world.command(CommandKind.CREATE, "t:beat", every(3))
    stamp = world.clock.now()
    world.run(40)
    lose_metadata(world, offsets=offsets)
    world.run(20)
    runs = world.runs()
    last = (world.clock.now() - stamp) // (3 * US_PER_S)
    assert runs == fires("t:beat", stamp + 3 * US_PER_S, 3, last)


def test_a_lost_cursor_comes_back_no_lower_than_an_edge_that_was_told() -> None:
    """The cursor may have passed time in which nothing was due, and then a version was made under that edge."""
    world = World(partitions=1, pace=Pace(idle_commit_s=1_000.0))
    world.run(1)
    world.command(CommandKind.CREATE, "t:once", JobSpec("demo.noop", Once(START + 3 * US_PER_S)))
    world.run(5)
    edge_at = world.clock.now() + 20 * US_PER_S
    revised = Revised(ordinal(1, 0), edge_at - US_PER_S, edge_at, "UPDATE")
    event = RunEvent(EventKind.REVISED, "t:other", "", edge_at, detail=revised)
    appender = world.outside.appender()
    appender.append(event_message(NAMES, event))
    appender.flush(1.0)
    lose_metadata(world, offsets=True)
    world.run(10)
    assert world.dispatcher._shards[0].cursor.due_at >= edge_at


def test_a_lost_cursor_does_not_come_back_before_what_was_decided_ahead_of_it() -> None:
    """A delete decides all that is owed before it, then the edge jumps, and no event tells that it did."""
    world = World(partitions=1, pace=Pace(idle_commit_s=1_000.0))
    world.run(1)
    world.command(CommandKind.CREATE, "t:beat", every(3))
    world.run(10)
    world.cluster.kill(f"d1-{world.lives}")
    world.clock.advance(60 * US_PER_S)
    world.command(CommandKind.DELETE, "t:beat")
    world.clock.advance(90 * US_PER_S)
    world.dispatcher = world.start()
    world.run(10)
    assert world.dispatcher._shards[0].cursor.due_at > world.clock.now() - 60 * US_PER_S  # it has jumped
    decided = [(event.kind, event.run_id, event.reason) for event in world.events() if event.run_id]
    assert [reason for kind, _, reason in decided if kind is EventKind.SKIPPED] == ["deleted"]

    lose_metadata(world, offsets=True)
    world.run(10)

    assert [(event.kind, event.run_id, event.reason) for event in world.events() if event.run_id] == decided


def test_a_shard_that_was_taken_over_reads_its_window_at_once_though_the_store_was_silent_before() -> None:
    """What did not answer may have been the process itself, which stood still in the middle of a call."""
    world = World(partitions=1)
    world.run(1)
    world.command(CommandKind.CREATE, "t:beat", every(1))
    world.run(5)

    slept: list[bool] = []

    def stands_still(*_: object) -> list[object]:
        world.clock.advance(20 * US_PER_S)
        slept.append(True)
        raise BackendDown("store", "no answer")

    with mock.patch.object(MemoryStore, "load_due", stands_still):
        while not slept and world.clock.now() < START + 200 * US_PER_S:
            world.steps(1)
            world.clock.advance(US_PER_S // 20)
    assert slept
    world.run(3)  # its session has ended meanwhile: what it had loaded is gone with its shards

    assert parse_run_id(world.runs()[-1]).fire_at > world.clock.now() - 2 * US_PER_S


def test_the_late_row_of_a_zombie_starts_no_ghost_chain() -> None:
    world = World(partitions=1)
    world.run(1)
    offset = world.command(CommandKind.CREATE, "t:beat", every(10, start_at=START + 10 * US_PER_S))
    created = world.clock.now()
    world.run(15)
    world.command(CommandKind.UPDATE, "t:beat", every(10, start_at=START + 15 * US_PER_S))
    world.run(5)
    old = JobVersion(
        "t:beat", ordinal(1, offset), every(10, start_at=START + 10 * US_PER_S), JobStatus.ACTIVE, "", created,
        START + 10 * US_PER_S, ordinal(1, offset), created,
    )  # fmt: skip
    zombie = MemoryStore(world.clock, world.tables, "zombie")
    later = START + 200 * US_PER_S
    zombie.write_due([due_row(old, later, later)])
    world.run(300)
    expected = [START + 10 * US_PER_S, *(START + (15 + k * 10) * US_PER_S for k in range(1, 31))]
    assert world.runs() == [make_run_id("t:beat", at) for at in expected]


@pytest.mark.parametrize("fate", [CommitFate.UNANSWERED, CommitFate.LOST, CommitFate.ABORTS])
def test_a_round_that_fails_or_stays_in_doubt_loses_and_doubles_nothing(fate: CommitFate) -> None:
    world = World(partitions=1)
    world.run(1)
    world.command(CommandKind.CREATE, "t:beat", every(1))
    stamp = world.clock.now()
    for _ in range(20):
        world.cluster.faults.next_commit(ID, fate)
        world.run(1.7)
    world.run(5)
    last = (world.clock.now() - stamp) // US_PER_S
    assert world.runs() == fires("t:beat", stamp + US_PER_S, 1, last)
    assert sorted(world.work()) == sorted(world.runs())


def test_the_loaded_window_keeps_firing_while_the_store_is_away() -> None:
    world = World(partitions=1)
    world.run(1)
    world.command(CommandKind.CREATE, "t:beat", every(2))
    stamp = world.clock.now()
    world.run(10)

    def away(_client: str, _operation: str) -> None:
        raise BackendDown("cassandra", "away")

    world.tables.on_call = away
    world.command(CommandKind.CREATE, "t:waits", every(2))
    world.run(40)
    assert world.runs() == fires("t:beat", stamp + 2 * US_PER_S, 2, 25)
    world.tables.on_call = None
    world.run(60)
    assert world.runs("t:beat") == fires("t:beat", stamp + 2 * US_PER_S, 2, 55)
    assert 28 <= len(world.runs("t:waits")) <= 31


def test_a_silent_store_holds_fires_up_for_its_time_out_and_then_only_seldom() -> None:
    world = World(partitions=1)
    world.run(1)
    world.command(CommandKind.CREATE, "t:beat", every(2))
    stamp = world.clock.now()
    world.run(10)
    asked_at = []

    def silent(_client: str, _operation: str) -> None:
        world.clock.advance(3 * US_PER_S)
        asked_at.append(world.clock.now())
        raise BackendDown("cassandra", "no answer in 3 s")

    world.tables.on_call = silent
    world.run(50)
    assert asked_at, "the store was never asked: nothing was provoked"
    assert all(later - sooner >= 15 * US_PER_S for sooner, later in pairwise(asked_at))
    last = (world.clock.now() - stamp) // (2 * US_PER_S)
    assert world.runs() == fires("t:beat", stamp + 2 * US_PER_S, 2, last)


def test_commands_that_retention_took_are_named_and_the_rest_is_applied() -> None:
    world = World(partitions=1)
    world.run(7)  # long enough for a first commit
    for number in range(4):
        world.command(CommandKind.CREATE, f"t:job{number}", every(2))
    world.cluster.delete_records(TopicPartition(NAMES.commands, 0), 2)
    with capture_logs() as lines:
        world.crash()
        world.run(10)
    named = [line for line in lines if line["event"].startswith("commands were deleted")]
    assert [(line["from_offset"], line["to_offset"]) for line in named[:1]] == [(0, 2)]
    assert {event.job_id for event in world.events(EventKind.PENDING)} == {"t:job2", "t:job3"}


def test_a_take_over_inside_a_herd_goes_on_after_the_last_committed_fire() -> None:
    world = World(partitions=1, pace=Pace(round_records=7))
    world.run(1)
    for number in range(50):
        world.command(CommandKind.CREATE, f"t:job{number}", every(30, start_at=START + 30 * US_PER_S))
    world.run(28.9)
    for _ in range(12):
        world.clock.advance(US_PER_S // 5)
        world.steps(2)
        world.crash()
    world.run(5)
    assert sorted(world.runs()) == sorted(make_run_id(f"t:job{number}", START + 30 * US_PER_S) for number in range(50))


def test_two_dispatchers_share_the_shards_and_one_takes_what_the_other_leaves() -> None:
    world = World(partitions=4)
    other = world.start("d2")
    world.run(1)
    stamps = {}
    for number in range(12):
        stamps[f"t:job{number}"] = world.clock.now()
        world.command(CommandKind.CREATE, f"t:job{number}", every(2))
    for _ in range(200):
        other.step()
        world.run(0.05)
    assert {event.job_id for event in world.events(EventKind.PENDING)} == stamps.keys()
    world.cluster.kill("d2-2")
    world.run(40)
    for job_id, stamp in stamps.items():
        last = (world.clock.now() - stamp) // (2 * US_PER_S)
        assert world.runs(job_id + "@") == fires(job_id, stamp + 2 * US_PER_S, 2, last)


def test_a_one_off_behind_the_cursor_is_decided_in_the_round_of_its_command() -> None:
    world = World(partitions=1)
    world.run(1)
    world.command(CommandKind.CREATE, "t:beat", every(1))
    world.run(5)
    # The command is appended, then the clock and the cursor go on before the dispatcher reads it.
    world.command(CommandKind.CREATE, "t:once", JobSpec("demo.noop", Once(world.clock.now() + 30_000)))
    world.clock.advance(60_000)
    world.run(3)
    assert len(world.runs("t:once")) == 1


def test_a_position_of_another_release_is_refused_and_never_guessed() -> None:
    world = World(partitions=1)
    world.run(2)
    world.cluster.kill(f"d1-{world.lives}")
    world.clock.advance(10 * US_PER_S)
    tool = world.outside.consumer(GROUP, [NAMES.commands])
    tool.poll(0, 0)
    tool.commit({TopicPartition(NAMES.commands, 0): Committed(0, "9|what|is|this")})
    tool.close(leave=True)
    world.dispatcher = world.start()
    with pytest.raises(UndecodableRecord, match="is not a cursor of this release"):
        world.run(50, step_s=1.0)


def test_a_row_whose_envelope_cannot_be_read_is_rebuilt_from_the_versions() -> None:
    world = World(partitions=1)
    world.run(1)
    offset = world.command(CommandKind.CREATE, "t:hourly", every(3_600, start_at=START + 600 * US_PER_S))
    world.command(CommandKind.CREATE, "t:beat", every(60, start_at=START + 60 * US_PER_S))
    world.run(5)
    at = START + 600 * US_PER_S
    version = JobVersion(
        "t:hourly", ordinal(1, offset), every(3_600, start_at=at), JobStatus.ACTIVE, "", START, at, 1, START
    )
    spoiler = MemoryStore(world.clock, world.tables, "spoiler")
    spoiler.write_due([due_row(version, at, START + 30 * US_PER_S)._replace(env=b"\xff spoilt")])
    world.run(700)
    assert world.runs("t:hourly") == [make_run_id("t:hourly", at)]
    assert len(world.runs("t:beat")) == 11


def test_a_row_that_nobody_can_read_stops_no_other_job() -> None:
    world = World(partitions=1)
    world.run(1)
    world.command(CommandKind.CREATE, "t:beat", every(60, start_at=START + 60 * US_PER_S))
    world.run(5)
    at = START + 300 * US_PER_S
    stranger = JobVersion("t:stranger", 5, every(60), JobStatus.ACTIVE, "", START, at, 1, START)
    MemoryStore(world.clock, world.tables, "spoiler").write_due([due_row(stranger, at, START)._replace(env=b"\xff")])
    world.run(700)
    assert len(world.runs("t:beat")) == 11
