"""Calendars in a dispatcher: what is blocked makes a recorded skip, by the version that the owing revision carries."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.dispatcher_world import NAMES, START, World, every
from tests.unit.test_dispatcher_timing import fires, judged, skips
from waterclock.model.calendar import Calendar, side_of
from waterclock.model.events import Answered, EventKind, Skipped
from waterclock.model.ids import US_PER_S, ordinal
from waterclock.model.job import CommandKind, Dates, JobSpec, JobStatus
from waterclock.model.timetable import offset_of
from waterclock.model.timing import CalendarUse, Misfire, OnCalendar, Timing
from waterclock.store.memory import MemoryStore

S = US_PER_S
T0 = START // S
DAY_S = 86_400
JOB = "t:a"


def freeze(version: int, *seconds: tuple[int, int]) -> CalendarUse:
    """Blocks these seconds of the play."""
    side = side_of((), (), [(T0 + start, T0 + end) for start, end in seconds])
    return CalendarUse("freeze", version, Calendar(exclude=side).as_text())


def frozen(spec: JobSpec, *uses: CalendarUse, **more: object) -> JobSpec:
    return replace(spec, timing=replace(spec.timing, calendars=uses, **more))


def test_blocked_fires_are_skipped_one_by_one_and_the_others_run() -> None:
    world = World(partitions=1)
    world.command(CommandKind.CREATE, JOB, frozen(every(2, start_at=START), freeze(1, (3, 7))))
    world.run(11.5)

    assert fires(world) == [2, 8, 10]
    assert skips(world) == {"calendar": 2}
    assert [event.detail.fire_count for event in world.events(EventKind.SKIPPED) if isinstance(event.detail, Skipped)
            ] == [1, 1]  # fmt: skip
    assert judged(world)["skipped:calendar"] == 2


def test_many_blocked_neighbours_of_a_minute_make_one_event() -> None:
    world = World(partitions=1)
    world.command(CommandKind.CREATE, JOB, frozen(every(1, start_at=START), freeze(1, (10, 40), (70, 75))))
    world.run(80)

    told = [event.detail.fire_count for event in world.events(EventKind.SKIPPED) if isinstance(event.detail, Skipped)]
    assert told == [30, 1, 1, 1, 1, 1]
    judged(world)


def test_many_blocked_neighbours_leave_an_older_versions_fire_that_is_still_to_come() -> None:
    world = World(partitions=1)
    late = Timing(jitter_us=600 * S, balanced=True, placed_us=90 * S)
    world.command(CommandKind.CREATE, JOB, every(3_600, start_at=START + 10 * S, timing=late))
    world.run(20)
    world.command(CommandKind.UPDATE, JOB, frozen(every(1, start_at=START), freeze(1, (60, 160))))
    world.run(190)

    assert 10 in fires(world)
    told = [event.detail.fire_count for event in world.events(EventKind.SKIPPED) if isinstance(event.detail, Skipped)]
    assert told == [1] * 41 + [19, 40]
    judged(world)


def test_many_blocked_neighbours_of_an_older_version_leave_a_newer_ones_first_fire() -> None:
    job = next(f"t:{number}" for number in range(100) if offset_of(f"t:{number}", S) > 900_000)
    world = World(partitions=1)
    late = Timing(jitter_us=S, calendars=(freeze(1, (60, 120)),))
    world.command(CommandKind.CREATE, job, every(2, start_at=START, timing=late))
    world.run(50)
    world.cluster.kill(f"d1-{world.lives}")
    world.clock.advance(START + 98 * S + 50_000 - world.clock.now())
    world.command(CommandKind.UPDATE, job, every(2, start_at=START + 300_000))
    world.clock.advance(5 * S)
    world.dispatcher = world.start()
    world.run(30)

    assert 98.3 in fires(world)
    judged(world)


def test_a_crash_inside_a_freeze_decides_nothing_twice() -> None:
    world = World(partitions=1)
    world.command(CommandKind.CREATE, JOB, frozen(every(1, start_at=START), freeze(1, (5, 50))))
    for _ in range(6):
        world.run(9)
        world.crash()
    world.run(15)
    assert judged(world)["skipped:calendar"] == 45


def test_an_edit_inside_a_minute_that_was_decided_ahead_counts_from_there_on() -> None:
    world = World(partitions=1)
    world.command(CommandKind.CREATE, JOB, frozen(every(1, start_at=START), freeze(1, (5, 100))))
    world.run(20)
    world.command(CommandKind.UPDATE, JOB, every(1, start_at=START))
    world.run(60)

    assert skips(world) == {"calendar": 55}  # to the end of the minute, and no further
    assert fires(world)[4:6] == [60, 61]
    judged(world)


def test_a_new_version_of_a_calendar_holds_from_its_command_on() -> None:
    world = World(partitions=1)
    world.command(CommandKind.CREATE, JOB, frozen(every(2, start_at=START), freeze(1, (4, 30))))
    world.run(9.5)
    world.command(CommandKind.CALENDAR, JOB, calendars=(freeze(2, (13, 17)),), answer=True)
    world.run(10)

    assert fires(world) == [2, 10, 12, 18]
    assert skips(world) == {"calendar": 5}  # 4, 6 and 8 by the first version, 14 and 16 by the second
    judged(world)
    newest = MemoryStore(world.clock, world.tables, "looking").history(JOB, 1)[0]
    assert (newest.action, newest.spec.timing.calendars[0].version) == ("calendar", 2)


def verdicts(world: World) -> list[str]:
    return [each.detail.verdict for each in world.events(EventKind.ANSWERED) if isinstance(each.detail, Answered)]


def test_an_older_version_and_a_calendar_that_is_not_used_change_nothing() -> None:
    world = World(partitions=1)
    world.command(CommandKind.CREATE, JOB, frozen(every(2), freeze(5)))
    world.command(CommandKind.CALENDAR, JOB, calendars=(freeze(4, (0, 99)),), answer=True)
    world.command(CommandKind.CALENDAR, JOB, calendars=(freeze(9)._replace(name="other"),), answer=True)
    world.command(CommandKind.CALENDAR, "t:nobody", calendars=(freeze(9),), answer=True)
    world.run(3)
    assert verdicts(world) == ["unchanged", "unchanged", "refused"]
    judged(world)


def test_a_calendar_that_cannot_be_read_is_refused_and_stops_nobody() -> None:
    world = World(partitions=1)
    world.command(CommandKind.CREATE, JOB, frozen(every(2, start_at=START), freeze(1)))
    world.command(CommandKind.CALENDAR, JOB, calendars=(CalendarUse("freeze", 2, "no calendar"),), answer=True)
    world.command(CommandKind.CREATE, "t:b", frozen(every(2), CalendarUse("x", 1, "AAAA")), answer=True)
    world.run(5)
    assert verdicts(world) == ["refused", "refused"]
    assert fires(world) == [2, 4]


def test_an_interval_keeps_its_anchor_and_a_pause_goes_on() -> None:
    world = World(partitions=1)
    world.command(CommandKind.CREATE, JOB, frozen(every(5), freeze(1)))
    world.run(2)
    world.command(CommandKind.CALENDAR, JOB, calendars=(freeze(2, (99, 100)),))
    world.command(CommandKind.PAUSE, JOB)
    world.command(CommandKind.CALENDAR, JOB, calendars=(freeze(3, (98, 100)),))
    world.run(6)
    store = MemoryStore(world.clock, world.tables, "looking")
    assert store.job(JOB).status is JobStatus.PAUSED  # type: ignore[union-attr]  # it is there
    world.command(CommandKind.RESUME, JOB)
    world.run(5)
    anchors = {version.anchor_at for version in store.history(JOB, 10)}
    assert len(anchors) == 1
    assert len(fires(world)) == 1
    judged(world)


def test_a_rollback_never_brings_an_older_calendar_back() -> None:
    world = World(partitions=1)
    old = world.command(CommandKind.CREATE, JOB, frozen(every(2), freeze(1)))
    world.command(CommandKind.CALENDAR, JOB, calendars=(freeze(2, (0, 5)),))
    world.command(CommandKind.UPDATE, JOB, frozen(every(3), freeze(2, (0, 5))))
    world.run(1)
    world.command(CommandKind.ROLLBACK, JOB, to_revision=ordinal(1, old))
    world.run(1)
    newest = MemoryStore(world.clock, world.tables, "looking").history(JOB, 1)[0]
    assert newest.spec.schedule == every(2).schedule
    assert newest.spec.timing.calendars == (freeze(2, (0, 5)),)
    judged(world)


@pytest.mark.parametrize("misfire", list(Misfire))
def test_what_was_missed_asks_its_calendars_before_its_policy(misfire: Misfire) -> None:
    world = World(partitions=1)
    spec = every(30, start_at=START, timing=Timing(misfire=misfire, catch_up_window_us=3_600 * S))
    world.command(CommandKind.CREATE, JOB, frozen(spec, freeze(1, (600, 900), (7_100, 7_240))))
    world.run(1)
    world.cluster.kill(f"d1-{world.lives}")
    world.clock.advance(7_200 * S)
    world.dispatcher = world.start()
    world.run(8)

    counts = judged(world)
    assert counts["skipped:calendar"] == 4  # 7110 to 7200; the hour before that was expired, whatever blocked it
    runs = [at for at in fires(world) if at > 1]
    assert (runs == []) if misfire is Misfire.SKIP else (max(runs) == 7_080)


def moving(*seconds: int, blocked: tuple[int, ...] = (-1,), version: int = 1) -> JobSpec:
    """Dates, and a calendar of days: 0 is today."""
    days = side_of((), [T0 // DAY_S + day for day in blocked], ())
    use = CalendarUse("days", version, Calendar(exclude=days).as_text())
    dates = Dates(tuple((T0 + second) * S for second in sorted(seconds)))
    return frozen(JobSpec("demo.noop", dates), use, on_calendar=OnCalendar.NEXT_ALLOWED)


def test_a_fire_is_moved_to_the_next_free_day_and_merged_there() -> None:
    world = World(partitions=1)
    yesterday = -DAY_S
    world.command(CommandKind.CREATE, JOB, moving(yesterday + 3, yesterday + 6, 6, 9))
    world.run(12)
    assert fires(world) == [3, 6, 9]
    assert skips(world) == {}
    judged(world)


def test_moved_fires_survive_a_crash_and_a_pause_ends_them() -> None:
    world = World(partitions=1)
    world.command(CommandKind.CREATE, JOB, moving(*(second - DAY_S for second in range(2, 20, 2))))
    world.run(5)
    world.crash()
    world.run(12)
    world.command(CommandKind.PAUSE, JOB)
    world.run(10)
    world.command(CommandKind.RESUME, JOB)
    world.run(3)
    counts = judged(world)
    assert Counter(fires(world)).most_common(1)[0][1] == 1
    assert counts["runs"] + counts["skipped:paused"] == 9


def test_what_nowhere_allows_is_skipped_where_it_stands() -> None:
    world = World(partitions=1)
    spec = moving(5, 8, blocked=(0,))
    spec = replace(spec, timing=replace(spec.timing, until_at=(T0 + 100) * S))
    world.command(CommandKind.CREATE, JOB, spec)
    world.run(12)
    assert (fires(world), skips(world)) == ([], {"calendar": 2})
    judged(world)


@pytest.mark.parametrize("use", [("freeze", "2", ""), ("freeze", 2, 7), (["freeze"], 2, ""), (None, 2, None)])
def test_a_forged_calendar_is_refused_and_stops_nobody(use: tuple[Any, ...]) -> None:
    world = World(partitions=1)
    world.command(CommandKind.CREATE, JOB, frozen(every(2, start_at=START), freeze(1)))
    world.command(CommandKind.CALENDAR, JOB, calendars=(CalendarUse(*use),))
    world.command(CommandKind.CREATE, "t:b", frozen(every(2), CalendarUse(*use)))
    world.run(5)
    assert fires(world) == [2, 4]
    assert len(world.records(NAMES.rejects)) == 2
