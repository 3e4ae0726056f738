"""A fire that only a jitter still holds back has an owner, whatever an edit that is applied late makes of the jitter.

Such an edit counts from its own time, and finds decided what is due by the time it is applied.
"""

from __future__ import annotations

import pytest

from tests.oracle import books
from tests.unit.dispatcher_world import NAMES, START, World, every, raw, store_away
from tests.unit.ledger_of import ledger_of
from tests.unit.test_late_resumes import (
    JOB,
    RESUME,
    TEN_S,
    check,
    decided,
    late,
    paused_counts,
    paused_world,
    tens,
    world_with,
)
from waterclock.model.events import EventKind
from waterclock.model.ids import US_PER_S, make_run_id
from waterclock.model.job import CommandKind, JobSpec, Once
from waterclock.model.timing import Misfire, Timing

AT = START + 60 * US_PER_S
"""Stamped behind the edit at 20.5 s (35.5 s of a paused job), and due at 64 s: held back when the edit is applied."""

HELD_S, PAUSED_HELD_S = 42.0, 27.0
"""So long Cassandra is away then."""


def held_back(held_s: float, **more: object) -> JobSpec:
    return tens(5, balanced=True, placed_us=int(held_s * US_PER_S), **more)


def change(spec: JobSpec) -> tuple[CommandKind, dict[str, object]]:
    return CommandKind.UPDATE, {"spec": spec}


def is_judged_right(world: World) -> None:
    """Neither the books nor the ledger have a complaint."""
    commands, events = ([raw(each) for each in world.records(name)] for name in (NAMES.commands, NAMES.run_events))
    assert books.balance(commands, events, world.clock.now() - TEN_S)[0] == []
    assert [fault for hour in ledger_of(world, JOB).hours.values() for fault in hour.named] == []


@pytest.mark.parametrize("crashes", [False, True])
def test_a_fire_that_its_jitter_holds_back_runs_with_the_late_edit_that_takes_the_jitter_away(*, crashes: bool) -> None:
    world = world_with(held_back(4))
    late(world, change(tens(0)), away_s=HELD_S)
    if crashes:
        world.crash()
        world.run(30)
    check(world)
    (made,) = [event for event in world.events(EventKind.PENDING) if event.run_id == make_run_id(JOB, AT)]
    assert AT <= made.at < START + 64 * US_PER_S


def test_it_is_made_once_where_a_second_late_edit_gives_the_jitter_back() -> None:
    world = world_with(held_back(4))
    late(world, change(tens(0)), change(held_back(4)), away_s=HELD_S)
    check(world)


def test_a_fire_that_an_edit_moves_up_far_behind_the_grace_goes_by_the_misfire_policy_of_the_edit() -> None:
    """Held back by 25 minutes; the edit waits for 20 of them."""
    at = START + 3_600 * US_PER_S
    timing = Timing(jitter_us=1_800 * US_PER_S, balanced=True, placed_us=1_500 * US_PER_S)
    world = World(partitions=1)
    world.command(CommandKind.CREATE, JOB, every(3_600, start_at=at, timing=timing))
    world.run(3_599, 0.5)
    spec = every(3_600, start_at=at, timing=Timing(misfire=Misfire.SKIP))
    world.tables.on_call = store_away
    world.command(CommandKind.UPDATE, JOB, spec)
    world.run(1_200, 0.5)
    world.tables.on_call = None
    world.run(400, 0.5)
    assert (world.runs(JOB), [event.reason for event in world.events(EventKind.SKIPPED)]) == ([], ["misfire"])
    is_judged_right(world)


def test_a_pause_covers_what_a_jitter_holds_back_when_a_late_edit_takes_the_jitter_away() -> None:
    world = paused_world(held_back(4))
    late(world, change(tens(0)), away_s=PAUSED_HELD_S)
    world.command(CommandKind.RESUME, JOB)
    world.run(30)
    check(world)
    assert AT not in {at for at in decided(world) if make_run_id(JOB, at) in world.runs(JOB)}


@pytest.mark.parametrize("jitter_s", [1, 2, 3, 4])
def test_each_fire_is_decided_once_however_late_an_edit_of_its_jitter_is(jitter_s: int) -> None:
    for away_s in (x / 2 for x in range(80, 104, 3)):
        world = world_with(held_back(jitter_s))
        late(world, change(held_back(4 - jitter_s)), away_s=away_s)
        check(world)


def test_a_fire_that_only_the_older_schedule_has_ends_with_it() -> None:
    world = world_with(held_back(4))
    late(world, change(JobSpec("demo.noop", Once(START + 3_600 * US_PER_S))), away_s=HELD_S)
    assert max(decided(world)) == AT - TEN_S
    is_judged_right(world)


@pytest.mark.parametrize("kind", [CommandKind.UPDATE, CommandKind.PAUSE])
@pytest.mark.parametrize("crashes", [False, True])
def test_a_one_off_over_while_a_change_of_its_pause_waits_is_recorded_when_it_is_resumed(
    kind: CommandKind, *, crashes: bool
) -> None:
    world = paused_world(JobSpec("demo.noop", Once(AT)))
    changed = JobSpec("demo.noop", Once(AT), timing=Timing(expect_within_us=3_600 * US_PER_S))
    late(world, (kind, {"spec": changed} if kind is CommandKind.UPDATE else {"note": "still"}))
    if crashes:
        world.crash()
        world.run(30)
    world.command(CommandKind.RESUME, JOB)
    world.run(20)
    assert (world.runs(JOB), paused_counts(world)) == ([], [1])
    is_judged_right(world)


def test_a_one_off_that_ran_before_a_late_pause_was_applied_is_not_skipped_as_well() -> None:
    world = world_with(JobSpec("demo.noop", Once(AT)))
    late(world, (CommandKind.PAUSE, {}), (CommandKind.PAUSE, {"note": "still"}))
    world.command(CommandKind.RESUME, JOB)
    world.run(20)
    assert (world.runs(JOB), paused_counts(world)) == ([make_run_id(JOB, AT)], [])
    is_judged_right(world)


def test_a_one_off_whose_pause_is_changed_and_ended_late_runs_once() -> None:
    world = paused_world(JobSpec("demo.noop", Once(AT)))
    late(world, (CommandKind.PAUSE, {"note": "still"}), RESUME)
    assert (world.runs(JOB), paused_counts(world)) == ([make_run_id(JOB, AT)], [])
    is_judged_right(world)
