"""Jobs that make so many runs, or are paused after failures, while gaps are open and calendars block their fires."""

from __future__ import annotations

from dataclasses import replace

import pytest
from waterclock.dispatcher.loop import Pace

from tests.oracle import beside, counted, failing
from tests.unit.dispatcher_world import NAMES, START, World, every, raw
from tests.unit.test_dispatcher_calendars import freeze
from tests.unit.test_dispatcher_gaps import RULES, away, define, judged, progress, reasons, until_closed
from tests.unit.test_overlap import end, say, start
from waterclock.model.concurrency import Concurrency, Overlap
from waterclock.model.events import Ended, EventKind, Pending
from waterclock.model.ids import job_of_run
from waterclock.model.job import CommandKind, JobStatus
from waterclock.model.timing import Misfire, Timing
from waterclock.store.memory import MemoryStore

JOB = "t:job0"
SLOW = Pace(catch_up_per_s=1.0)
STILL = Pace(catch_up_per_s=0.001)
"""A lane that decides next to nothing."""


def made(world: World, job_id: str, kind: EventKind = EventKind.PENDING) -> list[Pending]:
    """What its schedule has made, in the order of the log."""
    details = [event.detail for event in world.events(kind) if event.job_id == job_id and "~" not in event.run_id]
    return [detail for detail in details if isinstance(detail, Pending)]


def status(world: World, job_id: str = JOB) -> JobStatus:
    (row,) = MemoryStore(world.clock, world.tables, "test").job_rows([job_id])
    assert row is not None
    return row.status


def at_full_pace(world: World) -> None:
    """The next owner works off what is left."""
    world.pace = None
    world.crash()


def balanced(world: World) -> None:
    """By all judges, also of what is counted; runs may still wait."""
    judged(world)
    commands = [raw(record) for record in world.records(NAMES.commands)]
    events = [raw(record) for record in world.records(NAMES.run_events)]
    for judge in (counted, failing, beside):
        wrong = judge.check(commands, events, RULES)[0]
        assert [complaint for complaint in wrong if not complaint.endswith("held at rest")] == []


def test_runs_made_in_a_gap_count_as_any_other() -> None:
    world = World(partitions=1, pace=SLOW)
    jobs = define(world, 6, Timing(misfire=Misfire.ALL, max_runs=9))
    away(world, 240)
    until_closed(world)
    world.run(90)
    for job_id in jobs:
        runs = made(world, job_id)
        assert [run.is_last for run in runs] == [False] * 8 + [True]
        assert status(world, job_id) is JobStatus.ENDED
    assert any(run.gap_to_at for job_id in jobs for run in made(world, job_id))
    balanced(world)


@pytest.mark.parametrize("overlap", list(Overlap))
def test_take_overs_in_the_middle_of_a_catch_up_forget_no_run(overlap: Overlap) -> None:
    world = World(partitions=1, pace=SLOW)
    jobs = define(world, 8, Timing(misfire=Misfire.ALL, max_runs=5))
    for job_id in jobs:
        spec = every(7, timing=Timing(misfire=Misfire.ALL, max_runs=5), start_at=START)
        world.command(CommandKind.UPDATE, job_id, replace(spec, concurrency=Concurrency(overlap)))
    world.run(2)
    away(world, 200)
    for _ in range(9):
        world.run(1.3)
        world.crash()
        for run_id in world.runs()[-3:]:
            say(world, run_id, EventKind.CANCEL_REQUESTED)
    until_closed(world)
    world.run(40)
    assert all(len(made(world, job_id)) <= 5 for job_id in jobs)
    balanced(world)


def test_the_last_run_says_that_it_is_and_in_which_gap() -> None:
    world = World(partitions=1, pace=SLOW)
    spec = every(10, timing=Timing(misfire=Misfire.ALL, max_runs=3), start_at=START)
    world.command(CommandKind.CREATE, JOB, replace(spec, concurrency=Concurrency(Overlap.BUFFER_ALL)))
    world.run(1)
    away(world, 95)
    world.run(3)
    until_closed(world)
    waiting = made(world, JOB, EventKind.HELD)
    assert [(run.is_last, run.gap_to_at > 0) for run in waiting] == [(False, True), (True, True)]
    for _ in range(3):
        end(world, world.runs(JOB)[-1])
        world.run(1)
    assert [run.is_last for run in made(world, JOB)] == [False, False, True]
    assert status(world) is JobStatus.ENDED
    balanced(world)


def test_the_end_skips_what_is_owed_in_a_gap_blocked_or_not() -> None:
    world = World(partitions=1, pace=STILL)
    timing = Timing(misfire=Misfire.ALL, max_runs=2, calendars=(freeze(1, (20, 60)),))
    world.command(CommandKind.CREATE, JOB, every(5, timing=timing, start_at=START))
    for number in range(20):
        world.command(CommandKind.CREATE, f"t:a{number}", every(5, start_at=START))
    world.run(1)
    away(world, 120)
    world.run(20)
    assert progress(world).gaps
    assert [run.is_last for run in made(world, JOB)] == [False, True]
    assert not any(run.gap_to_at for run in made(world, JOB))
    assert status(world) is JobStatus.ENDED
    assert reasons(world, JOB)["ended"] > 15
    world.command(CommandKind.DELETE, JOB)
    for number in range(20):
        world.command(CommandKind.PAUSE, f"t:a{number}")
    at_full_pace(world)
    until_closed(world)
    balanced(world)


def test_an_edit_that_decides_a_gap_counts_nothing_of_it_where_no_number_stood_before() -> None:
    """The owner took the shard over inside a due time, and finds no record of a job whose newest version has none."""
    world = World(partitions=1, pace=Pace(catch_up_per_s=0.001, round_records=1))
    bounded = Timing(misfire=Misfire.ALL, max_runs=2)
    world.command(CommandKind.CREATE, JOB, every(50, timing=bounded, start_at=START))
    for number in range(6):
        world.command(CommandKind.CREATE, f"t:z{number}", every(10, start_at=START))
    world.run(1)
    away(world, 120)
    world.run(3)
    world.command(CommandKind.UPDATE, JOB, every(50, timing=replace(bounded, max_runs=0), start_at=START))
    world.run(1)
    for _ in range(1_000):
        world.run(0.02, 0.02)
        if progress(world).cursor.job_id:
            break
    assert progress(world).cursor.job_id > JOB, "the take-over is inside a due time, behind the job's place"
    assert progress(world).gaps
    world.command(CommandKind.UPDATE, JOB, every(50, timing=bounded, start_at=START))
    at_full_pace(world)
    until_closed(world)
    world.run(200)
    assert [(run.gap_to_at > 0, run.is_last) for run in made(world, JOB)] == [
        (True, False),
        (True, False),
        (False, False),
        (False, True),
    ]
    balanced(world)


def test_what_a_calendar_blocks_does_not_count() -> None:
    world = World(partitions=1)
    timing = Timing(max_runs=3, calendars=(freeze(1, (3, 9)),))
    world.command(CommandKind.CREATE, JOB, every(2, timing=timing, start_at=START))
    world.run(14.5)
    assert [run.is_last for run in made(world, JOB)] == [False, False, True]
    assert reasons(world) == {"calendar": 3}
    assert status(world) is JobStatus.ENDED
    balanced(world)


def test_a_newer_calendar_leaves_an_ended_job_ended_and_its_count_to_an_edit() -> None:
    world = World(partitions=1)
    timing = Timing(max_runs=2, calendars=(freeze(1, (100, 200)),))
    world.command(CommandKind.CREATE, JOB, every(2, timing=timing, start_at=START))
    world.run(7)
    world.command(CommandKind.CALENDAR, JOB, calendars=(freeze(2, (300, 400)),))
    world.run(5)
    assert status(world) is JobStatus.ENDED
    more = replace(timing, max_runs=3, calendars=(freeze(2, (300, 400)),))
    world.command(CommandKind.UPDATE, JOB, every(2, timing=more, start_at=START))
    world.run(7)
    assert [run.is_last for run in made(world, JOB)] == [False, True, True]
    balanced(world)


def test_a_pause_after_failures_ends_what_is_owed_in_a_gap() -> None:
    world = World(partitions=1, pace=STILL)
    timing = Timing(misfire=Misfire.ALL, pause_after_failures=2)
    for number in range(12):
        world.command(CommandKind.CREATE, f"t:job{number}", every(5, timing=timing, start_at=START))
    world.run(1)
    away(world, 120)
    world.run(7)
    assert progress(world).gaps
    for run_id in [run_id for run_id in world.runs() if not run_id.startswith("t:job1")]:
        say(world, run_id, EventKind.ATTEMPT_FAILED, token=start(world, run_id), detail=Ended(0))
        say(world, run_id, EventKind.RUN_FAILED, reason="attempts")
    world.run(2)
    failed = {job_of_run(run_id) for run_id in world.runs()} - {"t:job1", "t:job10", "t:job11"}
    assert {job_id for job_id in failed if status(world, job_id) is JobStatus.PAUSED} == failed
    assert reasons(world, JOB)["paused"] > 15
    world.crash()
    for job_id in failed:
        world.command(CommandKind.RESUME, job_id)
    for job_id in ("t:job1", "t:job10", "t:job11"):
        world.command(CommandKind.DELETE, job_id)
    at_full_pace(world)
    until_closed(world)
    world.run(10)
    balanced(world)


def test_runs_that_nothing_limits_any_more_take_room_from_fires_that_are_limited_still() -> None:
    """An edit ends the limit: what is on time goes on, and what is owed of the version before finds it open."""
    world = World(partitions=1, pace=STILL)
    spec = every(10, timing=Timing(misfire=Misfire.ALL, pause_after_failures=9), start_at=START)
    world.command(CommandKind.CREATE, JOB, replace(spec, concurrency=Concurrency(Overlap.BUFFER_ALL)))
    world.run(11)
    end(world, world.runs(JOB)[0])
    away(world, 195)
    world.command(CommandKind.UPDATE, JOB, replace(spec, payload=b"newer"))
    world.run(20)
    for run_id in world.runs(JOB)[1:]:
        end(world, run_id)
    world.run(75)
    assert made(world, JOB)[-1].gap_to_at == 0, "nothing was on time before the catch-up"
    world.pace = SLOW
    world.crash()
    world.run(5)
    assert made(world, JOB, EventKind.HELD), "nothing was owed of the version before"
    balanced(world)
