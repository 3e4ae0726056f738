"""A one-off fires once or is recorded as skipped, also where a change of it is applied after its instant."""

from __future__ import annotations

import pytest

from tests.oracle import books
from tests.unit.dispatcher_world import START, World, beside_a_beat, raw, store_away
from tests.unit.ledger_of import ledger_of
from waterclock.model.calendar import Calendar, side_of
from waterclock.model.events import EventKind
from waterclock.model.ids import US_PER_S
from waterclock.model.job import CommandKind, JobSpec, Once
from waterclock.model.timing import CalendarUse, Misfire, OnCalendar, Timing

JOB = "t:once"
AT = START + 60 * US_PER_S
TODAY = AT // US_PER_S // 86_400


def once(timing: Timing = Timing()) -> JobSpec:  # noqa: B008 - a value
    return JobSpec("demo.noop", Once(AT), timing=timing)


def calendar_of(day: int, version: int) -> tuple[CalendarUse, ...]:
    return (CalendarUse("c", version, Calendar(exclude=side_of((), [day], ())).as_text()),)


def faults(world: World) -> list[object]:
    """What the judge and the ledger of ours find."""
    commands, events = ([raw(record) for record in world.records(f"waterclock.{name}")] for name in TOPICS)
    found: list[object] = [*books.balance(commands, events, world.clock.now() - 5 * US_PER_S)[0]]
    return found + [fault for hour in ledger_of(world, JOB).hours.values() for fault in hour.named]


TOPICS = ("commands", "run-events")


@pytest.mark.parametrize("policy", [Misfire.LATEST, Misfire.SKIP])
def test_a_one_off_that_is_resumed_before_its_instant_and_applied_after_it_is_decided(policy: Misfire) -> None:
    world = beside_a_beat(JOB, once(Timing(misfire=policy)), 1)
    world.command(CommandKind.PAUSE, JOB)
    world.run(10)
    world.tables.on_call = store_away
    world.command(CommandKind.RESUME, JOB)
    world.run(65)
    world.tables.on_call = None
    world.run(60)
    assert len(world.runs(JOB)) == 1  # as of the edge: it is not late by more than the grace
    world.command(CommandKind.CREATE, JOB, once(Timing(misfire=policy, expect_within_us=3_600 * US_PER_S)))
    world.run(10)
    assert len(world.runs(JOB)) == 1
    assert faults(world) == []


@pytest.mark.parametrize("again", [False, True])
def test_a_one_off_that_a_late_calendar_brings_back_to_its_instant_is_decided(*, again: bool) -> None:
    spec = once(Timing(calendars=calendar_of(TODAY, 1), on_calendar=OnCalendar.NEXT_ALLOWED))
    world = beside_a_beat(JOB, spec, 1)
    world.tables.on_call = store_away
    world.command(CommandKind.CALENDAR, JOB, calendars=calendar_of(TODAY + 9, 2))
    if again:
        world.command(CommandKind.CALENDAR, JOB, calendars=calendar_of(TODAY + 10, 3))
    world.run(65)
    world.tables.on_call = None
    world.run(60)
    assert len(world.runs(JOB)) == 1
    assert faults(world) == []


@pytest.mark.parametrize("crashes", [False, True])
def test_a_one_off_that_ran_before_its_pause_and_resume_were_applied_runs_once(*, crashes: bool) -> None:
    world = beside_a_beat(JOB, once(), 1)
    world.run(10)
    world.tables.on_call = store_away
    world.command(CommandKind.PAUSE, JOB)
    world.command(CommandKind.RESUME, JOB)
    world.run(65)
    world.tables.on_call = None
    if crashes:
        world.crash()
    world.run(60)
    world.command(CommandKind.CREATE, JOB, once(Timing(expect_within_us=3_600 * US_PER_S)))
    world.run(10)
    assert len(world.runs(JOB)) == 1
    assert faults(world) == []


def test_a_one_off_that_is_over_in_a_pause_stays_skipped() -> None:
    world = beside_a_beat(JOB, once(), 1)
    world.command(CommandKind.PAUSE, JOB)
    world.run(45)
    world.command(CommandKind.RESUME, JOB)
    world.run(10)
    assert world.runs(JOB) == []
    assert [event.reason for event in world.events(EventKind.SKIPPED)] == ["paused"]
    assert faults(world) == []
