"""Calendars against a walk over days: what is blocked, where fires are moved, and that the four functions agree."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.oracle import calendars as walk
from tests.oracle import policies
from waterclock.model import schedule, timetable
from waterclock.model.calendar import Calendar, Side, calendar_from_text, side_of
from waterclock.model.ids import US_PER_S, Instant
from waterclock.model.job import Cron, Fold, JobSpec
from waterclock.model.timing import CalendarUse, OnCalendar, Timing, timing_from_json, timing_to_json

DAY_S = 86_400
ZONES = ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/St_Johns", "Pacific/Apia"]
# A week before: New York's and Berlin's changes, Lord Howe's, St John's at 00:01, the day that Apia left out.
BASES = [int(datetime(*day, tzinfo=UTC).timestamp()) for day in
         [(2026, 3, 5), (2026, 10, 22), (2026, 3, 30), (2010, 11, 3), (2011, 12, 24)]]  # fmt: skip
SPAN_DAYS = 40
TEXTS = ["30 2 * * *", "0 9 * * 1", "15 */6 * * *", "0 0 1,15 * *", "30 1 * * *", "0 9 28 * *"]


@st.composite
def sides(draw: st.DrawFn, base: int) -> Side:
    weekdays = draw(st.sets(st.integers(0, 6), max_size=2))
    days = draw(st.sets(st.integers(-8, SPAN_DAYS), max_size=12))
    starts = draw(st.lists(st.tuples(st.integers(-8 * DAY_S, SPAN_DAYS * DAY_S), st.sampled_from([60, 7_000, 90_000])),
                           max_size=5))  # fmt: skip
    ranges = [(base + start, base + start + length) for start, length in starts]
    return side_of(weekdays, [base // DAY_S + day for day in days], ranges)


@st.composite
def jobs(draw: st.DrawFn) -> tuple[JobSpec, int]:
    base, zone = draw(st.sampled_from(BASES)), draw(st.sampled_from(ZONES))
    only = draw(st.booleans()) and draw(st.booleans())
    made = [Calendar(draw(sides(base)) if only else Side(), draw(sides(base))) for _ in range(draw(st.integers(1, 2)))]
    uses = tuple(CalendarUse(f"c{number}", 1, calendar.as_text()) for number, calendar in enumerate(made))
    until_at = draw(st.sampled_from([0, 0, (base + 25 * DAY_S) * US_PER_S]))
    from_at = draw(st.sampled_from([0, 0, (base + 3 * DAY_S) * US_PER_S]))
    timing = Timing(from_at, until_at, calendars=uses, on_calendar=OnCalendar.NEXT_ALLOWED)
    cron = Cron(draw(st.sampled_from(TEXTS)), zone, fold=draw(st.sampled_from([Fold.AUTO, Fold.BOTH])))
    return JobSpec("h", cron, timing=timing), base


def told(spec: JobSpec) -> tuple[dict[str, Any], dict[str, Any]]:
    """As the walk takes a job."""
    assert isinstance(spec.schedule, Cron)
    plain = {"cron": {"zone": spec.schedule.zone}, "timing": timing_to_json(spec.timing)}
    return plain, dict(policies.timing(plain))


@given(st.sampled_from(BASES).flatmap(lambda base: st.tuples(sides(base), sides(base))))
def test_a_compiled_text_is_read_back(both: tuple[Side, Side]) -> None:
    calendar = Calendar(*both)
    assert calendar_from_text(calendar.as_text()) == calendar
    timing = Timing(calendars=(CalendarUse("a", 7, calendar.as_text()),), balanced=True, placed_us=0, jitter_us=5)
    assert timing_from_json(timing_to_json(timing)) == timing


@settings(max_examples=60, deadline=None)
@given(jobs(), st.lists(st.integers(-10 * DAY_S, SPAN_DAYS * DAY_S), min_size=10, max_size=20))
def test_what_is_blocked_is_what_a_walk_over_local_dates_says(job: tuple[JobSpec, int], seconds: list[int]) -> None:
    spec, base = job
    plain, said = told(spec)
    at = [(base + second) * US_PER_S for second in seconds]
    assert [timetable.is_blocked(spec, each) for each in at] == [walk.is_blocked(plain, said, each) for each in at]
    after, until = min(at), max(at)
    parts = list(timetable.blocked_parts(spec, after, until))
    for each in at[1:]:
        if each > after:
            assert any(start < each <= end for start, end in parts) == walk.is_blocked(plain, said, each)
    assert all(before[1] < later[0] for before, later in pairwise(parts))


@settings(max_examples=60, deadline=None)
@given(jobs(), st.lists(st.integers(-DAY_S, (SPAN_DAYS - 2) * DAY_S), min_size=4, max_size=8))
def test_moved_fires_are_where_a_walk_over_days_moves_them(job: tuple[JobSpec, int], seconds: list[int]) -> None:
    spec, base = job
    plain, said = told(spec)
    begin, end = (base - 30 * DAY_S) * US_PER_S, (base + SPAN_DAYS * DAY_S) * US_PER_S
    ends = spec.timing.until_at or end + 1
    named = schedule.fires_between(spec.schedule, 0, begin, end, 10_000)
    fires = sorted({walk.target(plain, said, at) for at in named if spec.timing.from_at <= at < ends})
    for second in seconds:
        after = (base + second) * US_PER_S
        wanted = next((at for at in fires if at > after), None)
        found = timetable.next_fire(spec, 0, after)
        if wanted is None or wanted > end - 8 * DAY_S * US_PER_S:
            continue  # what lies near the end of the walk may still change
        assert found == wanted
        until = (base + max(seconds)) * US_PER_S
        within = [at for at in fires if after < at <= until]
        assert timetable.count_fires(spec, 0, after, until) == len(within)
        assert timetable.last_fire(spec, 0, after, until) == (within[-1] if within else None)


def test_a_day_of_25_hours_is_blocked_whole_and_its_neighbours_are_not() -> None:
    day = int(datetime(2026, 10, 25, tzinfo=UTC).timestamp()) // DAY_S
    spec = _spec(Calendar(exclude=side_of((), [day], ())), Cron("0 * * * *", "Europe/Berlin"))
    begin = int(datetime(2026, 10, 24, 22, tzinfo=UTC).timestamp()) * US_PER_S
    assert list(timetable.blocked_parts(spec, begin - 10 * US_PER_S, begin + 100_000 * US_PER_S)) == [
        (begin - 1, begin + 25 * 3_600 * US_PER_S - 1)
    ]


def test_a_range_that_crosses_years_of_the_walk_is_one() -> None:
    begin, end = 1_000_000_000, 2_000_000_000
    spec = _spec(Calendar(exclude=side_of((), (), [(begin, end)])), Cron("0 0 * * *"))
    parts = list(timetable.blocked_parts(spec, 0, 4_000_000_000 * US_PER_S))
    assert parts == [(begin * US_PER_S - 1, end * US_PER_S - 1)]


def test_a_fire_that_nothing_allows_within_a_year_stays_and_is_blocked() -> None:
    spec = _spec(Calendar(include=side_of((), [10], ())), Cron("0 9 * * *"), OnCalendar.NEXT_ALLOWED)
    at: Instant | None = 20 * DAY_S * US_PER_S
    assert at is not None
    found = timetable.next_fire(spec, 0, at)
    assert found == (20 * DAY_S + 9 * 3_600) * US_PER_S
    assert timetable.is_blocked(spec, found)
    assert timetable.next_run(spec, 0, at) is None


def _spec(calendar: Calendar, cron: Cron, on_calendar: OnCalendar = OnCalendar.SKIP) -> JobSpec:
    uses = (CalendarUse("c", 1, calendar.as_text()),)
    return JobSpec("h", cron, timing=Timing(calendars=uses, on_calendar=on_calendar))
