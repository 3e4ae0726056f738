"""Jobs whose zone is gone, beside what else a job may have: calendars, an end, versions to go back to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.dispatcher_world import START, World, every
from tests.unit.lost_zone import MARS, know, zone_in
from tests.unit.test_untellable import ODD, PACE, standing, upgraded
from waterclock.model import timetable
from waterclock.model.calendar import Calendar, side_of
from waterclock.model.errors import RequestError
from waterclock.model.ids import US_PER_S, ordinal
from waterclock.model.job import CommandKind, Cron, JobSpec, JobStatus, JobVersion
from waterclock.model.timing import CalendarUse, Misfire, OnCalendar, Timing
from waterclock.store.memory import MemoryStore

WELL = JobSpec("demo.noop", Cron("* * * * *", zone="Europe/Berlin"))
T0 = START // US_PER_S


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with zone_in(tmp_path):
        yield World(partitions=1, pace=PACE)


def freeze(version: int, *seconds: tuple[int, int]) -> CalendarUse:
    """Blocks these seconds of the play."""
    side = side_of((), (), [(T0 + start, T0 + end) for start, end in seconds])
    return CalendarUse("freeze", version, Calendar(exclude=side).as_text())


def closed_days(version: int) -> CalendarUse:
    """Blocks Sundays and Mondays, which are days of the job's zone."""
    return CalendarUse("freeze", version, Calendar(exclude=side_of((0, 6), (), ())).as_text())


@pytest.mark.parametrize("on_calendar", OnCalendar)
def test_a_version_of_it_has_no_fires_and_blocks_nothing(on_calendar: OnCalendar) -> None:
    timing = Timing(calendars=(closed_days(1),), on_calendar=on_calendar)
    version = JobVersion(ODD, 1, JobSpec("demo.noop", MARS, timing=timing), JobStatus.ACTIVE, "", START, START)
    until = START + 30 * 86_400 * US_PER_S
    assert timetable.next_of(version, START) is None
    assert timetable.last_of(version, START, until) is None
    assert timetable.count_of(version, START, until) == 0
    assert timetable.next_due(version, START) is None
    assert timetable.count_blocked(version, START, until) == 0
    assert [*timetable.blocked_parts(version.spec, START, until)] == []
    assert not timetable.is_blocked(version.spec, START)
    with pytest.raises(RequestError, match="'Mars/Base' is not a time zone"):
        timetable.next_fire(version.spec, START, START)


@pytest.mark.parametrize("on_calendar", OnCalendar)
@pytest.mark.parametrize("away_s", [0, 600])
@pytest.mark.parametrize("kind", [CommandKind.DELETE, CommandKind.PAUSE, CommandKind.UPDATE])
def test_one_whose_calendars_have_the_days_of_its_zone_stops_nobody(
    world: World, kind: CommandKind, away_s: int, on_calendar: OnCalendar
) -> None:
    """Also where all that was missed is wanted, and a gap is open."""
    world.run(1)
    timing = Timing(misfire=Misfire.ALL, calendars=(closed_days(1),), on_calendar=on_calendar)
    schedule = Cron("0 * * * *", zone=MARS.zone) if timing.moves else MARS
    world.command(CommandKind.CREATE, ODD, JobSpec("demo.noop", schedule, timing=timing))
    world.command(CommandKind.CREATE, "t:beat", every(5))
    world.run(70, 0.25)
    upgraded(world, away_s)
    world.command(kind, ODD, WELL if kind is CommandKind.UPDATE else None)
    world.run(130, 0.25)
    become = {CommandKind.DELETE: JobStatus.DELETED, CommandKind.PAUSE: JobStatus.PAUSED}
    assert standing(world) is become.get(kind, JobStatus.ACTIVE)
    assert len(set(world.runs("t:beat"))) >= 38
    assert len(world.runs(ODD)) - (0 if timing.moves else 1) == (2 if kind is CommandKind.UPDATE else 0)
    assert not world.dispatcher._shards[0].gaps


@pytest.mark.parametrize("paused", [False, True])
def test_it_takes_a_newer_version_of_its_calendar_only_while_it_is_paused(world: World, *, paused: bool) -> None:
    """Else its next row, which nobody can find, and that of the new version would both stand once it compiles again."""
    world.run(1)
    world.command(CommandKind.CREATE, ODD, JobSpec("demo.noop", MARS, timing=Timing(calendars=(freeze(1, (0, 900)),))))
    if paused:
        world.command(CommandKind.PAUSE, ODD)
    world.run(5)
    upgraded(world)
    world.command(CommandKind.CALENDAR, ODD, calendars=(freeze(2, (880, 900)),))
    world.run(5)
    row = MemoryStore(world.clock, world.tables, "reader").job(ODD)
    assert row is not None
    assert [use.version for use in row.spec.timing.calendars] == [2 if paused else 1]
    assert row.status is (JobStatus.PAUSED if paused else JobStatus.ACTIVE)


def test_a_calendar_that_was_changed_meanwhile_doubles_no_fire_once_its_zone_is_back(
    world: World, tmp_path: Path
) -> None:
    world.run(1)
    timing = Timing(calendars=(freeze(1, (0, 10)),))
    world.command(CommandKind.CREATE, ODD, JobSpec("demo.noop", Cron("0 */6 * * *", zone=MARS.zone), timing=timing))
    world.run(70, 0.25)
    upgraded(world)
    world.command(CommandKind.CALENDAR, ODD, calendars=(freeze(2, (0, 20)),))
    world.run(5)
    know(tmp_path)
    world.cluster.kill(f"d1-{world.lives}")
    world.clock.advance(3 * 3_600 * US_PER_S)
    world.dispatcher = world.start()
    world.run(3 * 3_600, 5)
    assert len(world.runs(ODD)) == 1


def test_its_end_does_not_come_while_it_cannot_fire(world: World) -> None:
    """Given one of its two runs is made; with another schedule it makes the other one, and ends."""
    world.run(1)
    world.command(CommandKind.CREATE, ODD, JobSpec("demo.noop", MARS, timing=Timing(max_runs=2)))
    world.run(70, 0.25)
    assert len(world.runs(ODD)) == 1
    upgraded(world)
    world.run(130, 0.25)
    assert standing(world) is JobStatus.ACTIVE
    world.command(
        CommandKind.UPDATE, ODD, JobSpec("demo.noop", Cron("* * * * *", zone="UTC"), timing=Timing(max_runs=2))
    )
    world.run(190, 0.25)
    assert len(world.runs(ODD)) == 2
    assert standing(world) is JobStatus.ENDED


def test_nobody_goes_back_to_it(world: World) -> None:
    """Given a job that was in the zone once: a rollback to there is refused, and what stands goes on."""
    world.run(1)
    first = world.command(CommandKind.CREATE, ODD, JobSpec("demo.noop", MARS))
    world.command(CommandKind.UPDATE, ODD, WELL)
    world.run(2)
    upgraded(world)
    world.command(CommandKind.ROLLBACK, ODD, to_revision=ordinal(1, first))
    world.run(130, 0.25)
    row = MemoryStore(world.clock, world.tables, "reader").job(ODD)
    assert row is not None
    assert row.spec.schedule == WELL.schedule
    assert len(world.runs(ODD)) == 2
