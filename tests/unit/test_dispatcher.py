"""What a dispatcher promises, on in-memory ports."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from dispatcher_world import START, World, every  # noqa: E402

from waterclock.model.events import EventKind  # noqa: E402
from waterclock.model.ids import US_PER_S, make_run_id, ordinal  # noqa: E402
from waterclock.model.job import CommandKind, Cron, JobSpec, Once  # noqa: E402


def test_an_interval_job_makes_each_of_its_runs_once() -> None:
    world = World()
    world.run(1)
    world.command(CommandKind.CREATE, "t:beat", every(5))
    stamp = world.clock.now()
    world.run(180)
    expected = [make_run_id("t:beat", stamp + k * 5 * US_PER_S) for k in range(1, 36 + 1)]
    assert world.runs() == expected
    assert sorted(world.work()) == sorted(expected)


def test_a_cron_job_fires_at_its_minutes() -> None:
    world = World()
    world.run(1)
    world.command(CommandKind.CREATE, "t:minutely", JobSpec("demo.noop", Cron("* * * * *")))
    world.run(300)
    assert world.runs() == [make_run_id("t:minutely", START + k * 60 * US_PER_S) for k in range(1, 6)]


def test_a_one_off_in_the_past_runs_at_once() -> None:
    world = World()
    world.run(1)
    world.command(CommandKind.CREATE, "t:late", JobSpec("demo.noop", Once(START - 3_600 * US_PER_S)))
    world.run(2)
    assert world.runs() == [make_run_id("t:late", START - 3_600 * US_PER_S)]


def test_a_successor_goes_on_where_the_committed_work_ends() -> None:
    world = World()
    world.run(1)
    world.command(CommandKind.CREATE, "t:beat", every(2))
    stamp = world.clock.now()
    for _ in range(12):
        world.run(7)
        world.crash()
    world.run(10)
    expected = [make_run_id("t:beat", stamp + k * 2 * US_PER_S) for k in range(1, 47 + 1)]
    assert world.runs() == expected


def test_a_pause_skips_what_it_covers_and_a_resume_owes_only_what_follows() -> None:
    world = World()
    world.run(1)
    world.command(CommandKind.CREATE, "t:beat", every(10))
    stamp = world.clock.now()
    world.run(25)
    world.command(CommandKind.PAUSE, "t:beat")
    world.run(50)
    world.command(CommandKind.RESUME, "t:beat")
    world.run(30)
    assert world.runs() == [make_run_id("t:beat", stamp + k * 10 * US_PER_S) for k in (1, 2, 8, 9, 10)]
    skipped = world.events(EventKind.SKIPPED)
    assert [(event.reason, event.detail.fire_count) for event in skipped] == [("paused", 5)]  # type: ignore[union-attr]
    assert skipped[0].run_id == make_run_id("t:beat", stamp + 30 * US_PER_S)


def test_an_edit_hands_over_between_two_fires() -> None:
    world = World()
    world.run(1)
    world.command(CommandKind.CREATE, "t:beat", every(10, start_at=START + 10 * US_PER_S))
    world.run(24)
    world.command(CommandKind.UPDATE, "t:beat", every(3, start_at=START + 10 * US_PER_S))
    world.run(10)
    edited = [START + second * US_PER_S for second in (10, 20, 28, 31, 34)]
    assert world.runs() == [make_run_id("t:beat", at) for at in edited]


def test_after_an_absence_only_the_newest_owed_fire_runs_and_the_rest_is_recorded() -> None:
    world = World()
    world.run(1)
    world.command(CommandKind.CREATE, "t:beat", every(10))
    stamp = world.clock.now()
    world.run(15)
    world.clock.advance(600 * US_PER_S)
    world.crash()
    world.run(20)
    runs = world.runs()
    skipped = world.events(EventKind.SKIPPED)
    covered = sum(event.detail.fire_count for event in skipped)  # type: ignore[union-attr]
    last = (world.clock.now() - stamp) // (10 * US_PER_S)
    assert {event.reason for event in skipped} == {"coalesced"}
    assert len(set(runs)) == len(runs)
    assert len(runs) + covered == last
    assert len(skipped) == 1


def test_a_trigger_makes_a_run_of_its_own_and_leaves_the_cadence_alone() -> None:
    world = World()
    world.run(1)
    world.command(CommandKind.CREATE, "t:beat", every(10))
    stamp = world.clock.now()
    world.run(12)
    at = world.clock.now()
    offset = world.command(CommandKind.TRIGGER, "t:beat")
    world.run(10)
    assert world.runs() == [
        make_run_id("t:beat", stamp + 10 * US_PER_S),
        make_run_id("t:beat", at, ordinal(1, offset)),
        make_run_id("t:beat", stamp + 20 * US_PER_S),
    ]


def test_a_deleted_job_fires_no_more_and_its_name_can_be_used_again() -> None:
    world = World()
    world.run(1)
    world.command(CommandKind.CREATE, "t:beat", every(5))
    world.run(11)
    world.command(CommandKind.DELETE, "t:beat")
    world.run(20)
    assert len(world.runs()) == 2
    world.command(CommandKind.CREATE, "t:beat", every(7))
    world.run(15)
    assert len(world.runs()) == 4


def test_a_refused_command_goes_to_rejects_and_the_shard_moves_on() -> None:
    world = World(partitions=1)
    world.run(1)
    world.command(CommandKind.PAUSE, "t:nobody")
    world.command(CommandKind.CREATE, "t:beat", every(5))
    world.run(6)
    assert len(world.records("waterclock.rejects")) == 1
    assert len(world.runs()) == 1
