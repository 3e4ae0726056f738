"""A schedule makes so many runs and no more; then its job is ended by its owner, until an edit allows more."""

from __future__ import annotations

import random
from unittest import mock

import pytest
from waterclock.dispatcher import emit, loop, window
from waterclock.dispatcher.store_rest import StoreRest

from tests.oracle import beside, counted
from tests.oracle.books import balance
from tests.unit.dispatcher_world import NAMES, START, World, raw
from tests.unit.test_overlap import EVERY_US, JOB, end, fire, rest, say, start, told
from tests.unit.test_pause_after_failures import row
from waterclock.model.concurrency import Concurrency, Overlap
from waterclock.model.events import Ended, EventKind, Pending
from waterclock.model.ids import US_PER_S
from waterclock.model.job import Command, CommandKind, Every, JobSpec, JobStatus
from waterclock.model.timing import Misfire, Timing
from waterclock.wire import codec


@pytest.fixture
def world():
    with mock.patch.object(window, "SLOTS_PER_SLICE", 256):
        yield World(partitions=1)


def spec(most: int, misfire: Misfire = Misfire.LATEST, **more: object) -> JobSpec:
    return JobSpec("demo.noop", Every(EVERY_US, START), timing=Timing(max_runs=most, misfire=misfire), **more)  # type: ignore[arg-type]


def ordered(world: World, kind: CommandKind, wanted: JobSpec | None = None, **more: object) -> int:
    offset = world.command(kind, JOB, wanted, **more)
    rest(world)
    return offset


def lasts(world: World) -> list[bool]:
    """Of each run that the schedule has made, whether it is said to be the last one."""
    details = [event.detail for event in world.events(EventKind.PENDING) if "~" not in event.run_id]
    return [detail.is_last for detail in details if isinstance(detail, Pending)]


def reasons(world: World) -> list[str]:
    return [event.reason for event in world.events(EventKind.SKIPPED)]


def ends(world: World) -> list[Command]:
    given = [codec.decode_command(record.value) for record in world.records(NAMES.commands)]  # type: ignore[attr-defined]
    return [command for command in given if command.kind is CommandKind.END]


def judge(world: World) -> list[str]:
    given = [raw(record) for record in world.records(NAMES.commands)]
    events = [raw(record) for record in world.records(NAMES.run_events)]
    complaints = balance(given, events, world.clock.now() - 1)[0] + counted.check(given, events)[0]
    return complaints + beside.check(given, events)[0]


def test_the_last_run_is_marked_and_the_job_is_ended(world: World) -> None:
    ordered(world, CommandKind.CREATE, spec(3))
    fire(world, 2)
    assert row(world).status is JobStatus.ACTIVE
    fire(world)
    assert row(world).status is JobStatus.ENDED
    fire(world, 3)
    assert lasts(world) == [False, False, True]
    assert reasons(world) == []
    assert [command.actor for command in ends(world)] == ["dispatcher"]
    assert judge(world) == []


def test_what_all_its_runs_have_alike_is_made_before_the_first_is_due(world: World) -> None:
    """Their fires cannot be made ready, for nobody knows what they come to."""
    ordered(world, CommandKind.CREATE, spec(3))
    world.clock.advance(EVERY_US - US_PER_S)
    rest(world)
    assert world.runs(JOB) == []
    with mock.patch.object(emit, "_templates", side_effect=AssertionError):
        fire(world)
    assert len(world.runs(JOB)) == 1


def test_skips_do_not_count(world: World) -> None:
    ordered(world, CommandKind.CREATE, spec(2, concurrency=Concurrency(Overlap.SKIP)))
    fire(world, 3)
    assert lasts(world) == [False]
    end(world, world.runs(JOB)[-1])
    fire(world, 2)
    assert lasts(world) == [False, True]
    assert reasons(world) == ["overlap", "overlap"]
    assert row(world).status is JobStatus.ENDED
    assert judge(world) == []


def test_a_run_that_waited_and_is_dropped_for_a_newer_one_does_not_count(world: World) -> None:
    ordered(world, CommandKind.CREATE, spec(3, concurrency=Concurrency(Overlap.CANCEL_OTHER)))
    fire(world)
    first = world.runs(JOB)[0]
    token = start(world, first)  # so that a cancel is a request, and the run is open for as long as it works
    rest(world)
    fire(world, 2)
    assert told(world)[-3:] == ["HELD 2 overlap", "SKIPPED 2 overlap", "HELD 3 overlap"]
    assert row(world).status is JobStatus.ACTIVE
    say(world, first, EventKind.ATTEMPT_SUCCEEDED, token=token, detail=Ended(0))
    rest(world)
    end(world, world.runs(JOB)[-1])
    assert lasts(world) == [False, False]
    fire(world, 2)
    assert lasts(world) == [False, False, True]
    assert len(world.runs(JOB)) == 3
    assert row(world).status is JobStatus.ENDED
    assert judge(world) == []


def test_a_run_that_waited_and_is_dropped_once_all_are_made_still_counts(world: World) -> None:
    """A person's trigger drops the last one: the job has ended all the same, and goes on from so many if it may."""
    limits = Concurrency(Overlap.CANCEL_OTHER)
    ordered(world, CommandKind.CREATE, spec(2, concurrency=limits))
    fire(world)
    first = world.runs(JOB)[0]
    token = start(world, first)
    rest(world)
    fire(world)
    assert row(world).status is JobStatus.ENDED
    ordered(world, CommandKind.TRIGGER)
    assert reasons(world) == ["overlap"]
    ordered(world, CommandKind.UPDATE, spec(3, concurrency=limits))
    fire(world)
    assert row(world).status is JobStatus.ENDED
    say(world, first, EventKind.ATTEMPT_SUCCEEDED, token=token, detail=Ended(0))
    rest(world)
    assert lasts(world) == [False, True]
    assert judge(world) == []


def test_what_waits_as_the_last_one_is_marked_when_it_goes(world: World) -> None:
    ordered(world, CommandKind.CREATE, spec(2, concurrency=Concurrency(Overlap.BUFFER_ALL)))
    fire(world, 2)
    assert row(world).status is JobStatus.ENDED
    world.crash()
    world.clock.advance(20 * US_PER_S)
    rest(world)
    end(world, world.runs(JOB)[0])
    assert lasts(world) == [False, True]
    assert judge(world) == []


def test_triggers_do_not_count_and_go_on_after_the_end(world: World) -> None:
    ordered(world, CommandKind.CREATE, spec(1))
    ordered(world, CommandKind.TRIGGER)
    fire(world, 2)
    ordered(world, CommandKind.TRIGGER)
    assert len(world.runs(JOB)) == 3
    assert lasts(world) == [True]
    assert judge(world) == []


@pytest.mark.parametrize("read_before", [0, 1, 2])
def test_a_successor_goes_on_counting(world: World, read_before: int) -> None:
    ordered(world, CommandKind.CREATE, spec(3, Misfire.ALL))
    for number in range(5):
        if number == read_before:
            world.crash()
            world.clock.advance(10 * US_PER_S)
        fire(world)
    assert len(world.runs(JOB)) == 3
    assert row(world).status is JobStatus.ENDED
    assert len(ends(world)) == 1
    assert judge(world) == []


def test_a_catch_up_stops_at_the_last_run(world: World) -> None:
    ordered(world, CommandKind.CREATE, spec(3, Misfire.ALL))
    world.clock.advance(12 * EVERY_US)
    rest(world)
    assert lasts(world) == [False, False, True]
    assert set(reasons(world)) == {"max_runs"}
    assert row(world).status is JobStatus.ENDED
    assert judge(world) == []


def test_what_falls_due_while_the_end_cannot_be_applied_is_skipped_and_says_so(world: World) -> None:
    ordered(world, CommandKind.CREATE, spec(1))
    with mock.patch.object(StoreRest, "is_down", True):
        fire(world, 3)
    rest(world)
    assert reasons(world) == ["max_runs", "max_runs"]
    assert row(world).status is JobStatus.ENDED
    assert len(ends(world)) == 1
    assert judge(world) == []


def test_an_edit_that_allows_more_goes_on_with_the_count(world: World) -> None:
    ordered(world, CommandKind.CREATE, spec(2))
    fire(world, 3)
    ordered(world, CommandKind.UPDATE, spec(5))
    assert row(world).status is JobStatus.ACTIVE
    fire(world, 5)
    assert lasts(world) == [False, True, False, False, True]
    assert row(world).status is JobStatus.ENDED
    assert judge(world) == []


def test_an_edit_that_allows_no_more_ends_it_at_once(world: World) -> None:
    ordered(world, CommandKind.CREATE, spec(5))
    fire(world, 3)
    ordered(world, CommandKind.UPDATE, spec(2))
    assert row(world).status is JobStatus.ENDED
    ordered(world, CommandKind.UPDATE, spec(2, payload=b"1"))
    assert row(world).status is JobStatus.ENDED
    fire(world, 2)
    assert len(world.runs(JOB)) == 3
    assert judge(world) == []


def test_a_rollback_is_an_edit_and_a_revision_without_it_forgets_the_count(world: World) -> None:
    first = ordered(world, CommandKind.CREATE, spec(2))
    fire(world, 2)
    ordered(world, CommandKind.UPDATE, spec(0))
    fire(world, 3)
    assert len(world.runs(JOB)) == 5
    rolled = world.command(CommandKind.ROLLBACK, JOB, to_revision=(1 << 48) + first)
    rest(world)
    assert rolled > first
    fire(world, 4)
    assert len(world.runs(JOB)) == 7
    assert row(world).status is JobStatus.ENDED
    assert judge(world) == []


def test_the_same_definition_again_leaves_it_ended_and_a_delete_forgets_all(world: World) -> None:
    ordered(world, CommandKind.CREATE, spec(1))
    fire(world)
    ordered(world, CommandKind.CREATE, spec(1))
    assert row(world).status is JobStatus.ENDED
    ordered(world, CommandKind.DELETE)
    ordered(world, CommandKind.CREATE, spec(1))
    fire(world, 2)
    assert lasts(world) == [True, True]
    assert judge(world) == []


@pytest.mark.parametrize("kind", [CommandKind.PAUSE, CommandKind.RESUME])
def test_what_is_ended_is_neither_paused_nor_resumed(world: World, kind: CommandKind) -> None:
    ordered(world, CommandKind.CREATE, spec(1))
    fire(world)
    ordered(world, kind)
    assert row(world).status is JobStatus.ENDED
    assert len(world.records(NAMES.rejects)) == 1
    assert judge(world) == []


def test_a_pause_between_delays_the_end(world: World) -> None:
    ordered(world, CommandKind.CREATE, spec(1))
    with mock.patch.object(loop.Dispatcher, "_apply", return_value=None):
        fire(world)
        ordered(world, CommandKind.PAUSE)
    rest(world)
    ordered(world, CommandKind.RESUME)
    assert row(world).status is JobStatus.ENDED
    fire(world, 2)
    assert len(world.runs(JOB)) == 1
    assert judge(world) == []


@pytest.mark.parametrize("wanted", [spec(0), spec(2)])
def test_nobody_else_ends_a_job_that_has_no_end_or_is_paused(world: World, wanted: JobSpec) -> None:
    ordered(world, CommandKind.CREATE, wanted)
    if wanted.timing.max_runs:
        ordered(world, CommandKind.PAUSE)
    before = row(world).status
    ordered(world, CommandKind.END)
    assert row(world).status is before
    assert len(world.records(NAMES.rejects)) == 1


@pytest.mark.parametrize("seed", range(12))
def test_the_count_holds_over_take_overs_edits_pauses_and_policies(world: World, seed: int) -> None:
    """Judged by oracles that share nothing with it, over random histories."""
    rng = random.Random(seed)

    def drawn() -> JobSpec:
        overlap = rng.choice([Overlap.ALLOW, Overlap.SKIP, Overlap.BUFFER_ALL, Overlap.CANCEL_OTHER])
        misfire = rng.choice(list(Misfire))
        return spec(rng.choice([1, 2, 4, 7, 0]), misfire, concurrency=Concurrency(overlap), payload=rng.randbytes(2))

    ordered(world, CommandKind.CREATE, drawn())
    for _ in range(16):
        deed = rng.choice(["end", "end", "end", "crash", "edit", "pause", "resume", "trigger", "away", "delete"])
        fire(world)
        if deed == "end" and world.runs(JOB):
            end(world, rng.choice(world.runs(JOB)))
        elif deed == "crash":
            world.crash()
            world.clock.advance(20 * US_PER_S)
        elif deed == "away":
            world.clock.advance(9 * EVERY_US)
        elif deed == "edit":
            world.command(rng.choice([CommandKind.UPDATE, CommandKind.CREATE]), JOB, drawn())
        elif deed in ("pause", "resume", "trigger", "delete"):
            world.command(CommandKind(deed.upper()), JOB)
        if rng.random() < 0.7:
            rest(world)
    world.clock.advance(20 * US_PER_S)
    rest(world)
    assert [wrong for wrong in judge(world) if not wrong.endswith("held at rest")] == []
