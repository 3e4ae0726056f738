"""Spring and autumn, with the answers written out: New York 2026, and the zones where others go wrong."""

from __future__ import annotations

import tracemalloc
from datetime import UTC, datetime, timedelta

import pytest

from waterclock.model import schedule
from waterclock.model.cron import compile_cron
from waterclock.model.errors import RequestError
from waterclock.model.ids import US_PER_S, Instant
from waterclock.model.job import Cron, Every, Fold, Gap, Once

NEW_YORK = "America/New_York"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def at(text: str) -> Instant:
    return (datetime.fromisoformat(text).replace(tzinfo=UTC) - EPOCH) // timedelta(microseconds=1)


def fires(cron: Cron, begin: str, end: str) -> list[str]:
    """The fires in [begin, end), as UTC texts of the hour; count and newest are held against them on the way."""
    after, until = at(begin) - 1, at(end) - 1
    found = schedule.fires_between(cron, 0, after, until, limit=200)
    assert schedule.count_fires(cron, 0, after, until) == len(found)
    assert schedule.last_fire(cron, 0, after, until) == (found[-1] if found else None)
    return [(EPOCH + timedelta(microseconds=fire)).strftime("%dT%H:%M:%S").removesuffix(":00") for fire in found]


# In New York on 8 March 2026 02:00-03:00 does not exist: 07:00 UTC is 03:00.
@pytest.mark.parametrize(
    ("text", "gap", "expected"),
    [
        ("30 2 * * *", Gap.AUTO, ["08T07:00"]),
        ("15,45 2 * * *", Gap.AUTO, ["08T07:00"]),
        ("0,30 2,3 * * *", Gap.AUTO, ["08T07:00", "08T07:30"]),
        ("30 2 * * *", Gap.SKIP, []),
        ("*/30 2 * * *", Gap.AUTO, []),
        ("*/30 2 * * *", Gap.SHIFT, ["08T07:00"]),
        ("0 */2 * * *", Gap.AUTO, ["08T05:00", "08T08:00"]),
        ("0 * * * *", Gap.AUTO, ["08T05:00", "08T06:00", "08T07:00", "08T08:00", "08T09:00"]),
        ("0 * * * *", Gap.SHIFT, ["08T05:00", "08T06:00", "08T07:00", "08T08:00", "08T09:00"]),
    ],
)
def test_a_time_that_does_not_exist_is_served_once_or_not_at_all(text: str, gap: Gap, expected: list[str]) -> None:
    assert fires(Cron(text, NEW_YORK, gap=gap), "2026-03-08T05:00", "2026-03-08T09:30") == expected


# In New York on 1 November 2026 01:00-02:00 comes twice: at 05:00 and at 06:00 UTC.
@pytest.mark.parametrize(
    ("text", "fold", "expected"),
    [
        ("30 1 * * *", Fold.AUTO, ["01T05:30"]),
        ("30 1 * * *", Fold.BOTH, ["01T05:30", "01T06:30"]),
        ("*/30 1 * * *", Fold.AUTO, ["01T05:00", "01T05:30", "01T06:00", "01T06:30"]),
        ("*/30 1 * * *", Fold.FIRST, ["01T05:00", "01T05:30"]),
        ("0 2 * * *", Fold.AUTO, ["01T07:00"]),
        ("0 * * * *", Fold.AUTO, ["01T04:00", "01T05:00", "01T06:00", "01T07:00"]),
    ],
)
def test_a_time_that_comes_twice_fires_once_unless_wild(text: str, fold: Fold, expected: list[str]) -> None:
    assert fires(Cron(text, NEW_YORK, fold=fold), "2026-11-01T04:00", "2026-11-01T07:30") == expected


@pytest.mark.parametrize(
    ("zone", "text", "begin", "end", "expected"),
    [
        # Half an hour only, in spring and in autumn.
        ("Australia/Lord_Howe", "15 2 * * *", "2026-10-03T00:00", "2026-10-05T00:00", ["03T15:30", "04T15:15"]),
        ("Australia/Lord_Howe", "45 1 * * *", "2026-04-04T00:00", "2026-04-06T00:00", ["04T14:45", "05T15:15"]),
        # Two hours.
        ("Antarctica/Troll", "30 1,2 * * *", "2026-03-29T00:00", "2026-03-29T06:00", ["29T01:00"]),
        # A whole day that never was: nothing moves.
        ("Pacific/Apia", "0 9 * * *", "2011-12-29T12:00", "2012-01-01T00:00", ["29T19:00", "30T19:00", "31T19:00"]),
        # The gap begins at midnight.
        ("America/Havana", "0 0 * * *", "2026-03-08T04:00", "2026-03-09T05:00", ["08T05:00", "09T04:00"]),
    ],
)
def test_odd_zones_follow_the_same_rules(zone: str, text: str, begin: str, end: str, expected: list[str]) -> None:
    assert fires(Cron(text, zone), begin, end) == expected


def test_a_moved_fire_stands_at_second_zero_beside_the_real_ones_of_its_minute() -> None:
    cron = Cron("20,40 0 2,3 * * *", NEW_YORK, seconds=True)
    found = fires(cron, "2026-03-08T06:30", "2026-03-08T08:30")
    assert found == ["08T07:00", "08T07:00:20", "08T07:00:40"]
    assert schedule.count_fires(cron, 0, at("2026-03-08T07:00"), at("2026-03-08T07:00:20")) == 1
    assert schedule.last_fire(cron, 0, at("2026-03-08T06:00"), at("2026-03-08T07:00:19")) == at("2026-03-08T07:00")
    only_moved = Cron("20 0 2 * * *", NEW_YORK, seconds=True)
    assert fires(only_moved, "2026-03-08T06:30", "2026-03-09T06:30") == ["08T07:00", "09T06:00:20"]
    assert schedule.last_fire(only_moved, 0, 0, at("2026-03-08T07:00:30")) == at("2026-03-08T07:00")


def test_a_year_of_seconds_is_counted_and_not_walked() -> None:
    cron = Cron("* * * * * *", "Europe/Berlin", seconds=True)
    begin = at("2026-01-01T00:00")
    assert schedule.count_fires(cron, 0, begin, begin + 365 * 86_400 * US_PER_S) == 365 * 86_400
    assert schedule.last_fire(cron, 0, begin, begin + 365 * 86_400 * US_PER_S) == begin + 365 * 86_400 * US_PER_S
    minutes = Cron("30 9-16 * * 1-5", "Europe/Berlin")
    assert schedule.count_fires(minutes, 0, begin, at("2027-01-01T00:00")) == 261 * 8


def test_an_expression_that_is_asked_for_ever_new_minutes_stays_small() -> None:
    specs = [compile_cron(Cron(f"{minute} 4 11 * *")) for minute in range(60)]
    begin = at("2027-01-01T00:00:00")
    tracemalloc.start()
    try:
        for hour in range(250):
            for spec in specs:
                assert spec.next(begin + hour * 3_600 * US_PER_S) is not None
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 60 * 4_000


def test_a_schedule_that_cannot_fire_is_refused_and_rare_ones_are_found() -> None:
    leap = Cron("0 0 29 2 *")
    assert schedule.next_fire(leap, 0, at("2096-02-29T00:00")) == at("2104-02-29T00:00")
    rare = Cron("0 0 * 2 sun#5")
    assert schedule.next_fire(rare, 0, at("2026-01-01T00:00")) == at("2032-02-29T00:00")
    assert schedule.next_fire(rare, 0, at("2032-02-29T00:00")) == at("2060-02-29T00:00")
    with pytest.raises(RequestError, match="9 years"):
        # 02:30 on the second Sunday of March is always inside New York's gap.
        compile_cron(Cron("30 2 * 3 sun#2", NEW_YORK, gap=Gap.SKIP))


def test_far_instants_end_a_search_and_break_nothing() -> None:
    cron = Cron("0 0 * * *", "Europe/Berlin")
    assert schedule.next_fire(cron, 0, at("9800-01-01T00:00")) is None
    assert schedule.next_fire(cron, 0, 2**63 - 1) is None
    assert schedule.last_fire(cron, 0, 2**62, 2**63 - 1) is None
    assert schedule.count_fires(cron, 0, 2**62, 2**63 - 1) == 0
    assert schedule.count_fires(cron, 0, 5, 5) == schedule.count_fires(cron, 0, 5, 1) == 0
    assert schedule.next_fire(Cron("0 0 * * *"), 0, -(10**18)) == 0


def test_an_interval_runs_on_its_anchor_for_ever() -> None:
    every = Every(5 * US_PER_S)
    assert schedule.next_fire(every, 1_000_001, 1_000_001) == 6_000_001
    assert schedule.next_fire(every, 1_000_001, 0) == 6_000_001
    assert schedule.next_fire(every, 1_000_001, 6_000_001) == 11_000_001
    assert schedule.fires_between(every, 0, 0, 20 * US_PER_S, 3) == [5_000_000, 10_000_000, 15_000_000]
    assert schedule.count_fires(every, 0, 0, 20 * US_PER_S) == 4
    assert schedule.last_fire(every, 0, 0, 4 * US_PER_S) is None


def test_an_interval_with_a_start_fires_at_its_start() -> None:
    every = Every(5 * US_PER_S, start_at=100)
    assert schedule.next_fire(every, 7, 0) == 100
    assert schedule.next_fire(every, 7, 100) == 5_000_100
    assert schedule.count_fires(every, 7, 0, 100) == 1
    assert schedule.last_fire(every, 7, 0, 5_000_099) == 100


def test_a_one_off_fires_once() -> None:
    once = Once(500)
    assert schedule.next_fire(once, 0, 499) == 500
    assert schedule.next_fire(once, 0, 500) is None
    assert [schedule.count_fires(once, 0, after, until) for after, until in ((0, 499), (0, 500), (500, 900))] == [
        0,
        1,
        0,
    ]
    assert schedule.last_fire(once, 0, 0, 500) == 500
    assert schedule.last_fire(once, 0, 500, 900) is None


@pytest.mark.parametrize(
    ("bad", "pointer"),
    [
        (Every(US_PER_S - 1), "/every"),
        (Every(1_500_000), "/every"),
        (Every(3_651 * 86_400 * US_PER_S), "/every"),
        (Every(US_PER_S, -1), "/start_at"),
        (Once(2**62), "/at"),
        (Cron("bad"), "/cron"),
        (Cron("0 0 * * *", "Mars"), "/zone"),
    ],
)
def test_a_schedule_that_cannot_be_kept_is_refused_at_the_door(bad: Cron | Every | Once, pointer: str) -> None:
    with pytest.raises(RequestError) as refused:
        schedule.check_schedule(bad)
    assert refused.value.pointer == pointer
    assert refused.value.hint
