"""What a dispatcher promises, on in-memory ports."""

from __future__ import annotations

import random
from collections import Counter

from tests.oracle import books
from tests.unit.dispatcher_world import START, World, every, raw
from waterclock.model.events import EventKind
from waterclock.model.ids import US_PER_S, make_run_id, ordinal
from waterclock.model.job import JOB_VERBS, CommandKind, Cron, JobSpec, Once


def test_a_dispatcher_is_ready_only_as_a_member_of_its_group() -> None:
    world = World()
    assert not world.dispatcher.ready
    world.run(1)
    assert world.dispatcher.ready


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


def test_the_books_balance_under_edits_pauses_absences_and_crashes() -> None:
    counts = live_through(7) + live_through(11) + live_through(12)
    assert counts["runs"] > 300
    assert counts["skipped:coalesced"] > 10
    assert counts["skipped:paused"] > 10
    assert counts["triggered"] > 2


def live_through(seed: int) -> Counter[str]:
    rng = random.Random(seed)
    world = World()
    world.run(1)
    jobs = [f"t:job{number}" for number in range(8)]
    for _ in range(60):
        job = rng.choice(jobs)
        kind = rng.choice([*[CommandKind.CREATE] * 3, *JOB_VERBS[1:]])
        spec = None
        if kind in (CommandKind.CREATE, CommandKind.UPDATE):
            spec = rng.choice(
                [
                    every(rng.choice([1, 3, 7, 90])),
                    every(10, start_at=START + rng.randrange(0, 30) * US_PER_S),
                    JobSpec("demo.noop", Cron(rng.choice(["* * * * *", "*/2 * * * *", "1,2 * * * *"]))),
                    JobSpec("demo.noop", Once(world.clock.now() + rng.randrange(-5, 60) * US_PER_S)),
                ]
            )
        world.command(kind, job, spec)
        what = rng.random()
        if what < 0.2:
            world.crash()
        elif what < 0.3:
            world.clock.advance(rng.choice([30, 70, 200]) * US_PER_S)
        world.run(rng.choice([0.05, 1, 5, 20]))
    world.run(120)
    commands = [raw(record) for record in world.records("waterclock.commands")]
    events = [raw(record) for record in world.records("waterclock.run-events")]
    complaints, counts = books.balance(commands, events, world.clock.now() - 5 * US_PER_S)
    assert complaints == []
    return counts


def test_a_spec_that_no_door_would_let_in_is_refused_and_the_shard_goes_on() -> None:
    world = World(partitions=1)
    world.run(1)
    world.command(CommandKind.CREATE, "t:cron", JobSpec("demo.noop", Cron("61 * * * *")))
    world.command(CommandKind.CREATE, "t:zone", JobSpec("demo.noop", Cron("* * * * *", zone="Mars/Base")))
    world.command(CommandKind.CREATE, "t:zero", every(0))
    world.command(CommandKind.CREATE, "t:pool", every(5, pool="nowhere"))
    world.command(CommandKind.CREATE, "T T:bad", every(5))
    world.command(CommandKind.CREATE, "t:beat", every(5))
    world.run(6)
    assert len(world.records("waterclock.rejects")) == 5
    assert len(world.runs()) == 1
