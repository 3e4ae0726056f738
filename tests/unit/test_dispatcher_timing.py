"""Misfire policies, ends, dates and jitter in a dispatcher: what is read back from the log, over absences and edits."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from waterclock.dispatcher.pace import Pace

from tests.oracle import books, makings, misfires, owed
from tests.unit.dispatcher_world import NAMES, START, World, every, raw
from waterclock.model.events import EventKind, Pending, Skipped
from waterclock.model.ids import US_PER_S, Instant
from waterclock.model.job import CommandKind, Cron, Dates, JobSpec, Once, Tier
from waterclock.model.timetable import offset_of
from waterclock.model.timing import CatchUpOrder, Misfire, Timing
from waterclock.wire import codec

S = US_PER_S
JOB = "t:a"
RULES = owed.Rules(skew=S)


def judged(world: World) -> Counter[str]:
    """The judges' counts, of books that balance."""
    until = world.clock.now() - 1
    commands = [raw(record) for record in world.records(NAMES.commands)]
    events = [raw(record) for record in world.records(NAMES.run_events)]
    work = [raw(record) for tier in Tier for record in world.records(NAMES.runs(tier))]
    complaints, counts = books.balance(commands, events, until, RULES)
    late, more = misfires.check(commands, events, until, RULES)
    assert complaints + late + makings.check(commands, events, work, RULES)[0] == []
    return counts + more


def skips(world: World) -> dict[str, int]:
    found: Counter[str] = Counter()
    for event in world.events(EventKind.SKIPPED):
        assert isinstance(event.detail, Skipped)
        found[event.reason] += event.detail.fire_count
    return dict(found)


def fires(world: World, job_id: str = "") -> list[float]:
    """Fire times of the runs in the order of the log, in seconds from the start."""
    found = [event.detail for event in world.events(EventKind.PENDING) if event.run_id.startswith(job_id)]
    return [(detail.fire_at - START) / S for detail in found if isinstance(detail, Pending)]


def dues(world: World) -> list[Instant]:
    return [
        codec.decode_work(record.value).due_at  # type: ignore[attr-defined]
        for tier in Tier
        for record in world.records(NAMES.runs(tier))
    ]


def absent(spec: JobSpec, seconds: float, *, pace: Pace | None = None) -> World:
    """The job is defined and its dispatcher killed at once; another one starts after so many seconds."""
    world = World(partitions=1, pace=pace)
    world.command(CommandKind.CREATE, JOB, spec)
    world.run(1)
    world.cluster.kill(f"d1-{world.lives}")
    world.clock.advance(round((seconds - 1) * S))
    world.dispatcher = world.start()
    world.run(8 if seconds < 10_000 else 25)
    return world


def late(timing: Timing) -> JobSpec:
    return every(30, timing=timing, start_at=START)


@pytest.mark.parametrize("away_s", [30, 90, 3_600, 90_000])
@pytest.mark.parametrize("misfire", list(Misfire))
def test_after_an_absence_each_policy_does_what_it_says(misfire: Misfire, away_s: int) -> None:
    world = absent(late(Timing(misfire=misfire, catch_up_max=50)), away_s + 5)
    counts = judged(world)
    if away_s == 30:
        assert skips(world) == {}
    else:
        assert counts["misfires"] == 1
    assert bool(counts["skipped:cap"]) is (misfire is Misfire.ALL and away_s >= 3_600)
    assert bool(counts["skipped:expired"]) is (away_s == 90_000)


def test_runs_of_a_catch_up_go_out_in_the_order_asked_for() -> None:
    timing = Timing(misfire=Misfire.ALL, catch_up_max=4)
    for order, meant in ((CatchUpOrder.OLDEST, [210, 240, 270, 300]), (CatchUpOrder.NEWEST, [300, 270, 240, 210])):
        world = absent(late(replace(timing, catch_up_order=order)), 315)
        assert [fire for fire in fires(world) if 200 < fire <= 300] == meant
        judged(world)


def test_a_catch_up_of_many_runs_stays_within_the_rounds_of_a_dispatcher() -> None:
    pace = Pace(round_records=10)
    world = absent(every(2, timing=Timing(misfire=Misfire.ALL, catch_up_max=40)), 300, pace=pace)
    world.run(20)
    assert judged(world)["skipped:cap"] > 90


def test_a_late_one_off_follows_its_policy_on_the_timeline_and_beside_it() -> None:
    for misfire, made in ((Misfire.LATEST, 1), (Misfire.ALL, 1), (Misfire.SKIP, 0)):
        world = absent(JobSpec("demo.noop", Once(START + 20 * S), timing=Timing(misfire=misfire)), 120)
        world.command(CommandKind.CREATE, "t:over", JobSpec("demo.noop", Once(START), timing=Timing(misfire=misfire)))
        world.run(2)
        assert len(world.runs()) == 2 * made
        assert skips(world) == ({} if made else {"misfire": 2})
        judged(world)


def test_a_one_off_older_than_its_window_expires_and_a_young_one_runs() -> None:
    world = World()
    world.command(CommandKind.CREATE, "t:old", JobSpec("demo.noop", Once(START - 86_401 * S)))
    world.command(CommandKind.CREATE, "t:young", JobSpec("demo.noop", Once(START - 86_300 * S)))
    world.run(2)
    assert [run.partition("@")[0] for run in world.runs()] == ["t:young"]
    assert skips(world) == {"expired": 1}
    judged(world)


def test_a_one_off_that_was_over_when_it_was_defined_is_due_at_its_instant_whatever_its_jitter() -> None:
    """A worker reads a run back from the instant at which its work was due: its PENDING must not stand before that."""
    assert offset_of(JOB, 1_800 * S) > 60 * S, "or this proves nothing"
    world = World()
    spec = JobSpec("demo.noop", Once(START - 9 * S), timing=Timing(jitter_us=1_800 * S))
    world.command(CommandKind.CREATE, JOB, spec)
    world.run(2)
    assert dues(world) == [START - 9 * S]
    judged(world)


def test_a_job_fires_from_one_end_up_to_the_other() -> None:
    world = World()
    ends = Timing(from_at=START + 10 * S, until_at=START + 20 * S)
    world.command(CommandKind.CREATE, JOB, every(2, timing=ends, start_at=START))
    world.run(30)
    assert fires(world) == [10, 12, 14, 16, 18]
    judged(world)


def test_a_list_of_dates_fires_at_each_that_is_still_to_come() -> None:
    world = World(partitions=1)
    times = tuple(START + second * S for second in (-30, 5, 50, 61, 62, 200))
    world.command(CommandKind.CREATE, JOB, JobSpec("demo.noop", Dates(times)))
    world.run(30)
    world.crash()
    world.run(50)
    assert fires(world) == [5, 50, 61, 62]
    world.run(130)
    assert fires(world)[-1] == 200
    judged(world)


def test_a_job_with_jitter_runs_when_it_is_due_under_the_name_of_its_fire() -> None:
    world = World()
    world.command(CommandKind.CREATE, JOB, JobSpec("demo.noop", Cron("* * * * *"), timing=Timing(jitter_us=30 * S)))
    world.run(200)
    offset = offset_of(JOB, 30 * S)
    assert fires(world) == [60, 120, 180][: len(fires(world))]
    assert dues(world) == [START + round(fire * S) + offset for fire in fires(world)]
    for event in world.events(EventKind.PENDING):
        assert isinstance(event.detail, Pending)
        assert event.detail.due_at == event.detail.fire_at + offset
        assert event.at >= event.detail.due_at
    judged(world)


@pytest.mark.parametrize("per_fire", [False, True])
@pytest.mark.parametrize("seconds", [4, 60])
def test_the_books_balance_over_edits_pauses_crashes_and_absences_of_jobs_with_jitter(
    seconds: int, *, per_fire: bool
) -> None:
    world = World(partitions=1)
    timing = Timing(jitter_us=seconds // 2 * S, jitter_per_fire=per_fire)
    spec = every(seconds, timing=timing, start_at=START)
    world.command(CommandKind.CREATE, JOB, spec)
    world.run(61.3)
    world.command(CommandKind.UPDATE, JOB, replace(spec, payload=b"2"))
    world.run(15.7)
    world.command(CommandKind.UPDATE, JOB, every(seconds, start_at=START))
    world.run(47.1)
    world.command(CommandKind.UPDATE, JOB, replace(spec, payload=b"3"))
    world.command(CommandKind.PAUSE, JOB)
    world.run(3.1)
    world.crash()
    world.run(61.7)
    world.command(CommandKind.RESUME, JOB)
    world.run(64.3)
    world.cluster.kill(f"d1-{world.lives}")
    world.clock.advance(500 * S)
    world.dispatcher = world.start()
    world.run(62.9)
    world.command(CommandKind.DELETE, JOB)
    world.run(63)
    counts = judged(world)
    assert counts["misfires"] == 1
    assert counts["runs"]


def test_what_a_pause_skips_because_it_was_still_due_runs_under_no_owner() -> None:
    world = World(partitions=1)
    timing = Timing(jitter_us=60 * S)
    spec = every(120, timing=timing, start_at=START)
    job_id = next(f"t:j{number}" for number in range(99) if offset_of(f"t:j{number}", 60 * S) > 40 * S)
    world.command(CommandKind.CREATE, job_id, spec)
    world.run(125)
    world.command(CommandKind.PAUSE, job_id)
    world.run(2)
    assert skips(world) == {"paused": 1}
    world.crash()
    world.run(2)
    world.command(CommandKind.RESUME, job_id)
    world.run(2)
    world.crash()
    world.run(80)
    assert world.runs() == []
    world.run(90)
    assert fires(world) == [240]
    judged(world)


def test_an_edit_while_a_fire_is_still_due_leaves_it_to_the_revision_of_its_fire_time() -> None:
    world = World(partitions=1)
    job_id = next(f"t:j{number}" for number in range(99) if offset_of(f"t:j{number}", 60 * S) > 40 * S)
    spec = every(120, timing=Timing(jitter_us=60 * S), start_at=START)
    world.command(CommandKind.CREATE, job_id, spec)
    world.run(125)
    world.command(CommandKind.UPDATE, job_id, every(120, start_at=START, payload=b"new"))
    world.run(2)
    world.crash()
    world.run(120)
    assert fires(world) == [120, 240]
    judged(world)


@pytest.mark.parametrize(
    "timing",
    [
        Timing(catch_up_max=0),
        Timing(catch_up_max=1_001),
        Timing(catch_up_window_us=S),
        Timing(jitter_us=3_600 * S),
        Timing(jitter_us=2 * S),  # of an interval of 2 s
        Timing(jitter_us=1.5 * S),  # type: ignore[arg-type]
        Timing(from_at=START, until_at=START),
        Timing(until_at=-1),
    ],
)
def test_a_timing_that_no_door_would_let_in_is_refused_and_the_shard_goes_on(timing: Timing) -> None:
    world = World(partitions=1)
    world.command(CommandKind.CREATE, "t:bad", every(2, timing=timing))
    world.command(CommandKind.CREATE, JOB, every(2))
    world.run(3)
    assert len(world.records(NAMES.rejects)) == 1
    assert len(world.runs(JOB)) == 1
