"""A forecast counts exactly the fires that the schedules say, by minute and tier, within bounds that it tells."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.oracle import policies
from waterclock.model.forecast import JOBS_SHOWN, MINUTES, Forecast, Planned, PlannedLoad, forecast_document
from waterclock.model.ids import US_PER_MINUTE, US_PER_S, Instant
from waterclock.model.job import Cron, Dates, Every, Once, Schedule, Tier
from waterclock.model.schedule import fires_between
from waterclock.model.time_text import parse_rfc3339
from waterclock.model.timing import Timing, timing_to_json

NOON = parse_rfc3339("2026-11-22T12:00:00Z")
SPRING = parse_rfc3339("2026-03-28T12:00:00Z")
AUTUMN = parse_rfc3339("2026-10-24T12:00:00Z")


def planned(schedule: Schedule, name: str = "a", tier: Tier = Tier.MEDIUM, anchor_at: Instant = 0) -> Planned:
    return Planned(f"acme:{name}", tier, schedule, anchor_at)


def fires_of(job: Planned, begin: Instant, end: Instant) -> Counter[int]:
    """Walked fire by fire: the judge."""
    fires = fires_between(job.schedule, job.anchor_at, begin - 1, end - 1, 100_000, job_id=job.job_id)
    return Counter((fire - begin) // US_PER_MINUTE for fire in fires)


SCHEDULES: list[Schedule] = [
    Cron("*/5 * * * *"),
    Cron("30 2 * * *", "Europe/Berlin"),
    Cron("0 * * * *", "Australia/Lord_Howe"),
    Cron("*/20 * * * * *", seconds=True),
    Cron("15,45 30 2 * * *", "Europe/Berlin", seconds=True),
    Cron("59 59 23 * * *", seconds=True),
    Every(7 * US_PER_S),
    Every(60 * US_PER_S, NOON + 30 * US_PER_S),
    Every(3_601 * US_PER_S),
    Once(NOON),
    Once(NOON + 90 * US_PER_S),
    Once(NOON + MINUTES * US_PER_MINUTE),
    Once(NOON - 1),
]


@pytest.mark.parametrize("from_at", [NOON, SPRING, AUTUMN])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_forecast_counts_what_a_walk_from_fire_to_fire_counts(schedule: Schedule, from_at: Instant) -> None:
    job = planned(schedule, anchor_at=from_at - 12_345_678)
    forecast = Forecast(from_at)
    assert forecast.take([job])
    wanted = fires_of(job, forecast.begin_at, forecast.end_at)
    assert {n: count for n, count in enumerate(forecast.by_minute[Tier.MEDIUM]) if count} == dict(wanted)
    assert forecast.fire_count == wanted.total()


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 200_000), st.integers(0, 10**12), st.integers(0, 10**9))
def test_any_interval_is_counted_as_it_fires(every_s: int, anchor_at: int, offset: int) -> None:
    job = planned(Every(every_s * US_PER_S), anchor_at=NOON - anchor_at)
    forecast = Forecast(NOON + offset)
    forecast.take([job])
    wanted = fires_of(job, forecast.begin_at, forecast.end_at)
    assert {n: count for n, count in enumerate(forecast.by_minute[Tier.MEDIUM]) if count} == dict(wanted)


def test_a_forecast_begins_with_the_next_whole_minute_and_holds_a_day() -> None:
    assert Forecast(NOON).begin_at == NOON
    assert Forecast(NOON + 1).begin_at == NOON + US_PER_MINUTE
    assert Forecast(NOON).end_at - NOON == 24 * 60 * US_PER_MINUTE


def test_tiers_are_counted_apart() -> None:
    forecast = Forecast(NOON)
    forecast.take([planned(Every(US_PER_MINUTE), tier.word, tier, NOON) for tier in Tier for _ in range(tier + 1)])
    assert {tier: sum(minutes) // 1_439 for tier, minutes in forecast.by_minute.items()} == {
        Tier.HIGH: 1, Tier.MEDIUM: 2, Tier.LOW: 3,
    }  # fmt: skip


def test_the_busiest_minutes_come_first_with_the_jobs_that_fire_most() -> None:
    jobs = [planned(Cron("0 3 * * *"), f"nightly-{number:02}", Tier.LOW) for number in range(30)]
    jobs += [planned(Cron("* 3 * * * *", seconds=True), "quick", Tier.HIGH), planned(Cron("30 4 * * *"), "other")]
    forecast = Forecast(NOON)
    forecast.take(jobs)
    first, second, *_ = forecast.busiest(3)
    assert first.minute_at == NOON + 3 * 60_000_000  # 60 fires of one job in minute 3 of every hour
    assert (first.fire_count, first.job_count, first.jobs[0].fire_count) == (60, 1, 60)
    assert second.minute_at == first.minute_at + 3_600 * US_PER_S
    forecast = Forecast(NOON)
    forecast.take(jobs[:30] + jobs[31:])
    herd, other = forecast.busiest(10)
    assert (herd.fire_count, herd.job_count, len(herd.jobs)) == (30, 30, JOBS_SHOWN)
    assert [job.job_id for job in herd.jobs] == [f"acme:nightly-{number:02}" for number in range(JOBS_SHOWN)]
    assert [job.job_id for job in other.jobs] == ["acme:other"]


def test_a_forecast_without_fires_has_no_busy_minutes() -> None:
    forecast = Forecast(NOON)
    forecast.take([planned(Once(NOON - 1))])
    assert (forecast.job_count, forecast.fire_count, forecast.busiest(5)) == (1, 0, [])


def test_a_forecast_stops_at_its_number_of_jobs_and_says_so() -> None:
    jobs = [planned(Every(US_PER_MINUTE), str(number)) for number in range(4)]
    forecast = Forecast(NOON, jobs_max=3)
    assert forecast.take(jobs[:3])
    assert forecast.stopped == ""
    assert not forecast.take(jobs[3:])
    assert forecast.job_count == 3
    assert forecast_document(forecast, 1)["stopped"] == "3 jobs were counted, and there are more"


def test_a_forecast_stops_at_its_number_of_steps_and_counts_jobs_whole() -> None:
    jobs = [planned(Cron("* * * * *"), str(number)) for number in range(10)]
    forecast = Forecast(NOON, steps_max=3 * MINUTES)
    assert not forecast.take(jobs)
    assert forecast.fire_count == 3 * MINUTES
    assert "3 jobs were counted" in forecast.stopped


def test_a_forecast_does_not_read_paused_jobs_for_ever() -> None:
    forecast = Forecast(NOON, jobs_max=10)
    assert forecast.take([], 100)
    assert not forecast.take([], 1)
    assert "101 paused, ended or deleted" in forecast.stopped


def test_a_second_cron_costs_a_step_a_minute() -> None:
    """86,400 fires are counted by masks."""
    steps = list(PlannedLoad()(planned(Cron("* * * * * *", seconds=True)), NOON, NOON + MINUTES * US_PER_MINUTE))
    assert len(steps) == MINUTES
    assert {count for _, count in steps} == {60}


SPREAD: list[tuple[Schedule, Timing]] = [
    (Cron("0 * * * *"), Timing(jitter_us=1_800 * US_PER_S)),
    (Cron("0 * * * *", "Australia/Lord_Howe"), Timing(jitter_us=900 * US_PER_S, jitter_per_fire=True)),
    (Cron("*/20 * * * * *", seconds=True), Timing(jitter_us=10 * US_PER_S, jitter_per_fire=True)),
    (Every(60 * US_PER_S, NOON + 45 * US_PER_S), Timing(jitter_us=30 * US_PER_S, jitter_per_fire=True)),
    (Every(7 * US_PER_S), Timing(jitter_us=3 * US_PER_S)),
    (Once(NOON + MINUTES * US_PER_MINUTE - 1), Timing(jitter_us=900 * US_PER_S)),
    (Once(NOON - 1), Timing(jitter_us=900 * US_PER_S)),
    (Dates((NOON + 1, NOON + 2_000_001, NOON + 3_600 * US_PER_S)), Timing(jitter_us=US_PER_S)),
    (Every(60 * US_PER_S), Timing(from_at=NOON + 600 * US_PER_S, until_at=NOON + 1_200 * US_PER_S)),
]


@pytest.mark.parametrize(("schedule", "timing"), SPREAD)
def test_fires_are_counted_before_and_after_jitter_and_within_their_ends(schedule: Schedule, timing: Timing) -> None:
    job = Planned("acme:spread", Tier.LOW, schedule, NOON - 12_345_678, timing)
    forecast = Forecast(NOON)
    assert forecast.take([job])
    begin, end = forecast.begin_at, forecast.end_at
    until_at = timing.until_at or end
    fires = fires_between(
        schedule, job.anchor_at, max(begin - 3_600 * US_PER_S, timing.from_at) - 1, until_at - 1, 100_000
    )
    said = {"timing": timing_to_json(timing)}
    due = [policies.due(job.job_id, said, fire) for fire in fires]
    for counts, instants in ((forecast.by_minute, fires), (forecast.due_by_minute, due)):
        wanted = Counter((at - begin) // US_PER_MINUTE for at in instants if begin <= at < end)
        assert {n: count for n, count in enumerate(counts[Tier.LOW]) if count} == dict(wanted)
    assert forecast.due_count == sum(begin <= at < end for at in due)


def test_jitter_takes_a_herd_apart_and_the_busiest_minutes_say_so() -> None:
    forecast = Forecast(NOON)
    timing = Timing(jitter_us=1_800 * US_PER_S)
    forecast.take([Planned(f"acme:{number}", Tier.LOW, Cron("0 3 * * *"), 0, timing) for number in range(60)])
    assert max(forecast.by_minute[Tier.LOW]) == 60
    assert max(forecast.due_by_minute[Tier.LOW]) < 10
    assert forecast.busiest(1)[0].fire_count == max(forecast.due_by_minute[Tier.LOW])
    assert forecast.busiest(1)[0].job_count == forecast.busiest(1)[0].fire_count


def test_jobs_with_jitter_cost_two_steps_a_minute() -> None:
    jobs = [Planned("acme:a", Tier.LOW, Cron("* * * * *"), 0, Timing(jitter_us=US_PER_S))] * 2
    forecast = Forecast(NOON, steps_max=3 * MINUTES)
    assert not forecast.take(jobs)
    assert forecast.job_count == 1
