"""Calendars as values: documents, compiled texts, previews, load; hostile texts among them."""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import Any

import pytest

from tests import preview_calendars
from tests.oracle import brute_calendars
from waterclock.model.blocks import Blocks
from waterclock.model.calendar import RANGES_MAX, Calendar, calendar_from_text, side_of
from waterclock.model.calendar_document import compile_calendar
from waterclock.model.document import spec_from_document, spec_to_document
from waterclock.model.errors import RequestError
from waterclock.model.forecast import Forecast, Planned
from waterclock.model.ids import US_PER_S
from waterclock.model.job import Cron, Every, JobSpec, Tier
from waterclock.model.placement import place, with_kept_place
from waterclock.model.stored_spec import spec_from_json, spec_to_json
from waterclock.model.timetable import count_fires, due_of
from waterclock.model.timing import CalendarUse, OnCalendar, Timing

NOW = 1_795_000_020 * US_PER_S
TODAY = NOW // US_PER_S // 86_400
DAY_US = 86_400 * US_PER_S
HOLIDAYS = CalendarUse("holidays", 3, compile_calendar({"exclude": {"days": ["2026-12-25"]}}).as_text())
KNOWN = {"holidays": HOLIDAYS}
JOB = {"handler": "h", "cron": "0 9 * * *", "calendars": ["holidays"]}


def test_the_page_of_calendars_is_what_brute_force_says() -> None:
    """Brute force wrote the page: ``python -m tests.oracle.brute_calendars``."""
    assert preview_calendars.differences(preview_calendars.preview_of) == []


def test_the_page_of_calendars_shows_what_it_is_for() -> None:
    page = brute_calendars.PAGE.read_text(encoding="utf-8")
    assert all(word in page for word in ("skipped by", "moved from", "due 09:0"))


def test_a_job_keeps_its_calendars_through_every_form() -> None:
    spec = spec_from_document(JOB | {"on_calendar": "next_allowed"}, calendars=KNOWN)
    assert spec.timing.calendars == (HOLIDAYS,)
    assert spec_from_json(spec_to_json(spec)) == spec
    assert spec_from_document(spec_to_document(spec), calendars=KNOWN) == spec


@pytest.mark.parametrize(
    ("more", "pointer"),
    [
        ({"calendars": ["none"]}, "/calendars/0"),
        ({"calendars": ["holidays", "holidays"]}, "/calendars/1"),
        ({"calendars": "holidays"}, "/calendars"),
        ({"calendars": [7]}, "/calendars/0"),
        ({"on_calendar": "later"}, "/on_calendar"),
        ({"on_calendar": "next_allowed", "cron": "*/30 * * * *"}, "/on_calendar"),
        ({"jitter": {"window": "10s", "placement": "worst"}}, "/jitter/placement"),
        ({"jitter": {"window": "10s", "placement": "balanced", "per_fire": True}}, "/jitter/placement"),
        ({"jitter": {"window": "10s", "offset": "3s"}}, "/jitter/offset"),
        ({"jitter": {"window": "10s", "placement": "balanced", "offset": "10s"}}, "/jitter/offset"),
        ({"cron": "0 9 25 12 *", "active_from": "2026-12-25T00:00:00Z", "active_until": "2026-12-26T00:00:00Z"},
         "/calendars"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_with_its_place(more: dict[str, Any], pointer: str) -> None:
    with pytest.raises(RequestError) as refused:
        spec_from_document(JOB | more, calendars=KNOWN)
    assert refused.value.pointer == pointer
    assert refused.value.hint


def test_a_door_that_looks_nothing_up_says_where_to_go() -> None:
    with pytest.raises(RequestError, match="not looked up here") as refused:
        spec_from_document(JOB)
    assert "API" in refused.value.hint


def test_a_job_for_a_balanced_second_that_nobody_picked_has_the_usual_one() -> None:
    jitter = {"window": "10m", "placement": "balanced"}
    spec = spec_from_document({"handler": "h", "cron": "0 9 * * *", "jitter": jitter})
    plain = spec_from_document({"handler": "h", "cron": "0 9 * * *", "jitter": "10m"})
    planned = [Planned("t:a", Tier.HIGH, each.schedule, 0, each.timing).version for each in (spec, plain)]
    assert due_of(planned[0], NOW) == due_of(planned[1], NOW)


@pytest.mark.parametrize(
    "text", ["", "AA", "A" * 40, "AQAAAAAAAAA", "no base64!", base64.b64encode(b"\x01" * 9).decode()]
)
def test_a_text_that_we_did_not_write_is_refused(text: str) -> None:
    with pytest.raises(RequestError):
        calendar_from_text(text)


def test_no_forged_text_costs_more_than_its_length() -> None:
    vast = bytes([1, 0, *([0xFF] * 6), 0x7F, *([0xFF] * 6), 0x7F])
    for body in (vast, bytes([1, 0, 0, 0xFF, 0xFF, 0x7F]), bytes([1, 0, 0, 0, *([0xFF] * 6), 0x7F])):
        with pytest.raises(RequestError):
            calendar_from_text(base64.b64encode(body).decode())


def test_more_ranges_than_a_calendar_may_have_are_refused() -> None:
    with pytest.raises(ValueError, match="ranges"):
        side_of((), (), [(10 * number, 10 * number + 1) for number in range(RANGES_MAX + 1)])


@pytest.mark.parametrize("side", ["exclude", "include"])
def test_days_hold_in_the_minutes_in_which_one_stretch_of_ranges_ends_and_the_next_begins(side: str) -> None:
    every_day = side_of(range(7), (), ())
    blocks = Blocks([Calendar(include=every_day) if side == "include" else Calendar(exclude=every_day)], "UTC")
    is_blocked = side == "exclude"
    for stretch in range(1, 50):
        meets_at = stretch << 27
        seconds = [meets_at // 60 * 60 + second for second in (-1, 0, 30, 59, 60)]
        assert [blocks.covers(second * US_PER_S) for second in seconds] == [is_blocked] * 5
        span = (seconds[0] * US_PER_S, seconds[-1] * US_PER_S)
        assert [*blocks.between(*span)] == ([span] if is_blocked else [])
    assert blocks.free_from(NOW) == (None if is_blocked else NOW)


def test_a_forecast_counts_no_fire_that_a_calendar_blocks() -> None:
    tomorrow = side_of((), [], [(NOW // US_PER_S, NOW // US_PER_S + 12 * 3_600)])
    use = CalendarUse("half", 1, Calendar(exclude=tomorrow).as_text())
    counted = Forecast(NOW)
    plain, half = Timing(), Timing(calendars=(use,))
    for number, timing in enumerate((plain, half)):
        counted.take([Planned(f"t:{number}", Tier.HIGH, Every(60 * US_PER_S), NOW, timing)])
        counted.take([Planned(f"t:s{number}", Tier.LOW, Every(US_PER_S), NOW, timing)])
    assert sum(counted.by_minute[Tier.HIGH]) == 1_439 + 720
    assert sum(counted.by_minute[Tier.LOW]) == 86_399 + 43_200


def test_a_forecast_counts_all_fires_that_calendars_move_into_one_minute() -> None:
    begin = (TODAY + 1) * DAY_US
    days = side_of((), [begin // US_PER_S // 86_400 - number for number in (1, 2)], ())
    use = CalendarUse("c", 1, Calendar(exclude=days).as_text())
    timing = Timing(calendars=(use,), on_calendar=OnCalendar.NEXT_ALLOWED)
    schedule = Every(3_601 * US_PER_S, begin - 2 * DAY_US)  # each day 24 s later than on the day before
    counted = Forecast(begin)
    counted.take([Planned("t:a", Tier.HIGH, schedule, schedule.start_at or 0, timing)])
    assert counted.fire_count == count_fires(JobSpec("h", schedule, timing=timing), 0, begin - 1, begin + DAY_US - 1)
    assert counted.fire_count == 3 * 24


def _herd(count: int, second: int = 0) -> list[Planned]:
    timing = Timing(jitter_us=60 * US_PER_S, balanced=True, placed_us=second * US_PER_S)
    return [Planned(f"t:h{second}.{number}", Tier.HIGH, Cron("0 9 * * *"), 0, timing) for number in range(count)]


def test_the_least_loaded_second_of_the_window_is_picked() -> None:
    jitter = Timing(jitter_us=5 * US_PER_S, balanced=True)
    spec = JobSpec("h", Cron("0 9 * * *"), timing=jitter)
    jobs = [job for second, count in enumerate((9, 4, 7, 2, 4)) for job in _herd(count, second)]
    found = place(spec, "t:me", 0, NOW, jobs)
    assert found is not None
    assert (found.offset_us, found.due_at_fire, found.due_at_offset) == (3 * US_PER_S, 9, 2)
    assert found.words == "09:00:00 has 9 due; 09:00:03 has 2"
    assert place(spec, "t:me", 0, NOW, jobs) == found


def test_where_the_first_second_is_free_it_is_taken_and_jobs_saved_together_spread() -> None:
    jitter = Timing(jitter_us=60 * US_PER_S, balanced=True)
    spec = JobSpec("h", Cron("0 9 * * *"), timing=jitter)
    assert place(spec, "t:me", 0, NOW, []).offset_us == 0  # type: ignore[union-attr]  # it fires
    picked = {place(spec, f"t:{number}", 0, NOW, _herd(3)).offset_us for number in range(40)}  # type: ignore[union-attr]
    assert len(picked) > 20


def test_a_second_that_was_picked_is_kept_until_what_it_was_picked_for_changes() -> None:
    asked = JobSpec("h", Cron("0 9 * * *"), timing=Timing(jitter_us=60 * US_PER_S, balanced=True))
    stands = replace(asked, handler="other", timing=replace(asked.timing, placed_us=7 * US_PER_S))
    assert with_kept_place(asked, stands).timing.placed_us == 7 * US_PER_S
    for changed in (
        replace(asked, schedule=Cron("5 9 * * *")),
        replace(asked, timing=replace(asked.timing, jitter_us=30 * US_PER_S)),
        replace(asked, timing=replace(asked.timing, calendars=(HOLIDAYS,))),
    ):
        assert with_kept_place(changed, stands) is changed
    assert with_kept_place(asked, asked) is asked
    chosen = replace(asked, timing=replace(asked.timing, placed_us=0))
    assert with_kept_place(chosen, stands) is chosen


def test_a_job_that_never_runs_is_not_placed() -> None:
    never = CalendarUse("never", 1, Calendar(exclude=side_of(range(7), (), ())).as_text())
    spec = JobSpec("h", Cron("0 9 * * *"), timing=Timing(jitter_us=US_PER_S, balanced=True, calendars=(never,)))
    assert place(spec, "t:me", 0, NOW, []) is None


def test_next_allowed_is_for_schedules_that_fire_hourly_at_most() -> None:
    hourly = spec_from_document(JOB | {"cron": "0 * * * *", "on_calendar": "next_allowed"}, calendars=KNOWN)
    assert hourly.timing.on_calendar is OnCalendar.NEXT_ALLOWED
