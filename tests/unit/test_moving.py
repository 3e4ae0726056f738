"""Moved fires: what it costs to find them, and that they keep their order whatever they are moved to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from waterclock.model import moving as moving_
from waterclock.model import timetable
from waterclock.model.backfill import FIRES_MAX, fire_count_of
from waterclock.model.blocks import Blocks, blocks_of
from waterclock.model.calendar import Calendar, Side, side_of
from waterclock.model.document import spec_from_document
from waterclock.model.errors import RequestError
from waterclock.model.ids import US_PER_S, Instant
from waterclock.model.job import Cron, Dates, Every, JobSpec, JobStatus, JobVersion, Schedule
from waterclock.model.moving import moving
from waterclock.model.next_allowed import NextAllowed
from waterclock.model.timing import CalendarUse, OnCalendar, Timing

DAY_S = 86_400
BASE = int(datetime(2026, 11, 2, tzinfo=UTC).timestamp())
HOURS = 24


def moved(schedule: Schedule, exclude: Side = Side(), include: Side = Side(), **more: object) -> JobSpec:  # noqa: B008
    use = CalendarUse("c", 1, Calendar(include, exclude).as_text())
    timing = replace(Timing(calendars=(use,), on_calendar=OnCalendar.NEXT_ALLOWED), **more)
    return JobSpec("h", schedule, timing=timing)


def version_of(spec: JobSpec) -> JobVersion:
    return JobVersion("t:a", 1, spec, JobStatus.ACTIVE, "", 0, 0, 1, 0)


def test_fires_that_nothing_allows_for_a_year_cost_one_look_at_each_day_for_each_hour(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks = 0
    right = Blocks.free_from

    def free_from(self: Blocks, at: Instant) -> Instant | None:
        nonlocal looks
        looks += 1
        return right(self, at)

    monkeypatch.setattr(Blocks, "free_from", free_from)
    # A minute of each day is free, and no fire is at that minute.
    minutes = [(BASE + day * DAY_S + 45_000, BASE + day * DAY_S + 45_060) for day in range(-500, 900)]
    spec = moved(Cron("0 * * * *"), include=side_of((), (), minutes))
    moving.cache_clear()
    assert timetable.next_fire(spec, 0, BASE * US_PER_S) == (BASE + 3_600) * US_PER_S
    days = 366 + 98 + 366 + 10  # a year back, the season, and a year on
    assert looks <= 2 * days * HOURS  # a blocked range may end between two of the hours
    before = looks
    for hour in range(1, 48):
        assert (
            timetable.next_fire(spec, 0, (BASE + hour * 3_600) * US_PER_S) == (BASE + hour * 3_600 + 3_600) * US_PER_S
        )
    assert looks - before <= 4 * 48, "what was found is kept"


def test_a_day_that_a_zone_partly_leaves_out_lets_fires_of_the_day_before_pass() -> None:
    """Casey put its clocks on by three hours on 18 October 2009: what falls there goes a day farther."""
    zone = "Antarctica/Casey"
    begin = int(datetime(2009, 10, 16, 16, tzinfo=UTC).timestamp())  # midnight there, of the 17th
    spec = moved(Cron("30 3 17 10 *", zone), exclude=side_of((), (), [(begin, begin + DAY_S)]))
    nineteenth = datetime(2009, 10, 18, 16, 30, tzinfo=UTC)
    assert timetable.next_fire(spec, 0, (begin - 1) * US_PER_S) == int(nineteenth.timestamp()) * US_PER_S
    days = NextAllowed(blocks_of(spec.timing.compiled, zone), zone, 2**62)
    assert days.reach(int(nineteenth.timestamp()) * US_PER_S) <= begin * US_PER_S
    assert days.reach((begin + 4 * DAY_S) * US_PER_S) > begin * US_PER_S


def test_moved_fires_are_due_in_their_order_whatever_jitter_a_door_let_through() -> None:
    times = (BASE, BASE + DAY_S + 60, BASE + DAY_S + 10 * 60)
    spec = moved(Dates(tuple(at * US_PER_S for at in times)), exclude=side_of((), [BASE // DAY_S], ()),
                 jitter_us=1_800 * US_PER_S, balanced=True, placed_us=1_500 * US_PER_S)  # fmt: skip
    version = version_of(spec)
    fires, at = [], 0
    while (found := timetable.next_of(version, at)) is not None:
        fires.append(found)
        at = found
    assert fires == [(BASE + DAY_S + second) * US_PER_S for second in (0, 60, 600)]
    due = [timetable.due_of(version, fire) for fire in fires]
    assert due == [fires[1] - 1, fires[2] - 1, fires[2] + 1_500 * US_PER_S]
    for fire, due_at in zip(fires, due, strict=True):
        assert timetable.fire_edge(version, due_at - 1) < fire <= timetable.fire_edge(version, due_at)


def test_an_interval_that_begins_in_years_is_not_taken_for_one_that_never_fires() -> None:
    known = {"c": CalendarUse("c", 1, Calendar(exclude=side_of((6,), (), ())).as_text())}
    document = {"handler": "h", "start_at": "2040-01-01T00:00:00Z", "calendars": ["c"], "on_calendar": "next_allowed"}
    with pytest.raises(RequestError) as refused:
        spec_from_document(document | {"every": "10m"}, calendars=known)
    assert refused.value.pointer == "/on_calendar"
    assert spec_from_document(document | {"every": "1h"}, calendars=known).timing.moves


def test_an_interval_moves_its_fires_by_days_of_utc() -> None:
    spec = moved(Every(7 * 3_600 * US_PER_S, BASE * US_PER_S), exclude=side_of((), [BASE // DAY_S], ()))
    fires, at = [], (BASE - 1) * US_PER_S
    for _ in range(4):
        found = timetable.next_fire(spec, 0, at)
        assert found is not None
        fires.append(found // US_PER_S - BASE - DAY_S)
        at = found
    assert fires == [0, 4 * 3_600, 7 * 3_600, 11 * 3_600]


def test_a_backfill_looks_at_no_more_fires_than_it_may_have_however_few_calendars_leave(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks = 0
    right = moving_.Moving._moves

    def moves(self: moving_.Moving, number: int) -> Iterator[tuple[Instant, Instant | None]]:
        nonlocal looks
        for each in right(self, number):
            looks += 1
            yield each

    monkeypatch.setattr(moving_.Moving, "_moves", moves)
    begins_s = [int(datetime(year, 1, 1, tzinfo=UTC).timestamp()) for year in range(1971, 2031)]
    new_years = side_of((), (), [(begin_s, begin_s + DAY_S) for begin_s in begins_s])
    version = version_of(moved(Cron("0 * * * *"), include=new_years))
    year_us = 365 * DAY_S * US_PER_S
    with pytest.raises(RequestError) as refused:
        fire_count_of(version, 1, BASE * US_PER_S)
    assert (refused.value.pointer, looks) == ("/to", 0)
    assert fire_count_of(version, BASE * US_PER_S - year_us, BASE * US_PER_S) == HOURS
    assert 0 < looks < 4 * FIRES_MAX


@pytest.mark.parametrize("day", range(1, 365, 13))
def test_a_year_without_a_fire_is_looked_through_once(monkeypatch: pytest.MonkeyPatch, day: int) -> None:
    looks = 0
    right = moving_.Moving._moves

    def moves(self: moving_.Moving, number: int) -> Iterator[tuple[Instant, Instant | None]]:
        nonlocal looks
        looks += 1
        return right(self, number)

    monkeypatch.setattr(moving_.Moving, "_moves", moves)
    begins_s = [int(datetime(year, 1, 1, tzinfo=UTC).timestamp()) for year in (2026, 2027, 2028)]
    new_years = side_of((), (), [(begin_s, begin_s + DAY_S) for begin_s in begins_s])
    version = version_of(moved(Cron("0 12 * * *"), include=new_years))
    noon = 12 * 3_600
    at = (begins_s[0] + day * DAY_S + noon) * US_PER_S
    found = [timetable.next_of(version, at), timetable.last_of(version, begins_s[0] * US_PER_S, at)]
    assert found == [(begin_s + noon) * US_PER_S for begin_s in begins_s[1::-1]]
    before = looks
    for _ in range(3):
        assert [timetable.next_of(version, at), timetable.last_of(version, begins_s[0] * US_PER_S, at)] == found
    assert looks == before
