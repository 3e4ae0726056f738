"""Fixed delays in documents and stored forms, what goes with them, and what people are told of their future."""

from __future__ import annotations

import orjson
import pytest

from waterclock.api.changes import changed
from waterclock.model.calendar import Calendar, side_of
from waterclock.model.delay_rules import AHEAD_US, STAMP_US, count_of, counted_end, last_by, next_after
from waterclock.model.document import schedule_text, spec_from_document, spec_to_document
from waterclock.model.errors import RequestError
from waterclock.model.events import Outcome, RunStatus
from waterclock.model.forecast import Forecast, Planned
from waterclock.model.ids import US_PER_S
from waterclock.model.job import Delay, JobSpec, JobStatus, Tier
from waterclock.model.preview import preview_job
from waterclock.model.stored_spec import spec_from_json, spec_to_json
from waterclock.model.timing import CalendarUse, Timing
from waterclock.store.next_of_delay import next_of_delay
from waterclock.store.port import JobRow, RunRow

T = 1_795_000_000 * US_PER_S
D = 600 * US_PER_S
DOCUMENT = {"handler": "h", "delay": "10m"}


def test_a_delay_survives_its_document_and_its_stored_form() -> None:
    spec = spec_from_document(DOCUMENT)
    assert spec.schedule == Delay(D)
    assert spec_to_document(spec)["delay"] == "10m"
    assert spec_from_json(spec_to_json(spec)) == spec
    assert orjson.loads(spec_to_json(spec))["delay"] == D
    assert schedule_text(spec_to_document(spec)) == "delay 10m"


@pytest.mark.parametrize(
    ("more", "pointer", "hint"),
    [
        ({"overlap": "buffer_all"}, "/overlap", "after the end"),
        ({"overlap": "sequential"}, "/overlap", "after the end"),
        ({"max_concurrent": 1}, "/max_concurrent", "after the end"),
        ({"jitter": "30s"}, "/jitter", "Leave it out"),
        ({"misfire": "all"}, "/misfire", "however late"),
        ({"catch_up": {"max": 3}}, "/catch_up", "one run"),
        ({"every": "5m"}, "/delay", "exactly one"),
        ({"zone": "Europe/Berlin"}, "/zone", "delay"),
        ({"start_at": "2026-12-01T09:00:00Z"}, "/start_at", "delay"),
        ({"delay": "0s"}, "/delay", "5s"),
        ({"delay": "9999d"}, "/delay", "3650d"),
    ],
)
def test_what_does_not_go_with_a_delay_is_refused_where_it_stands_with_a_hint(
    more: dict[str, object], pointer: str, hint: str
) -> None:
    with pytest.raises(RequestError) as refused:
        spec_from_document(DOCUMENT | more)
    assert refused.value.pointer == pointer
    assert hint in refused.value.hint


def test_calendars_skip_its_fires_and_move_none() -> None:
    calendar = Calendar(exclude=side_of((), (), [(1, 2)])).as_text()
    known = {"freeze": CalendarUse("freeze", 1, calendar)}
    document = DOCUMENT | {"calendars": ["freeze"]}
    assert spec_from_document(document, calendars=known).timing.calendars
    with pytest.raises(RequestError) as refused:
        spec_from_document(document | {"on_calendar": "next_allowed"}, calendars=known)
    assert refused.value.pointer == "/on_calendar"


def test_naming_a_delay_replaces_another_schedule_and_what_goes_with_it() -> None:
    cron = {"handler": "h", "cron": "0 9 * * *", "zone": "UTC", "gap": "skip"}
    assert changed(cron, {"delay": "10m"}) == DOCUMENT
    assert changed(DOCUMENT, {"every": "5m"}) == {"handler": "h", "every": "5m"}


def test_an_end_counts_between_its_runs_fire_time_and_the_logs_stamp() -> None:
    assert counted_end(T + 5, T + 9, T, T + 9) == T + 5
    assert counted_end(T + D, T + 9, T, T + 9) == T + 9 + STAMP_US
    assert counted_end(T - D, T + 9, T, T + 9) == T
    year = 365 * 86_400 * US_PER_S
    assert counted_end(T + year, T + year, T, T + 9) == T + 9, "by a log whose stamps are the writers'"
    assert counted_end(T + AHEAD_US, T + AHEAD_US, T, T) == T + AHEAD_US


def test_a_chain_goes_on_from_what_it_counts_from_but_not_before_its_version() -> None:
    assert next_after(0, D, T) == T
    assert next_after(T, D, T) == T + D
    assert next_after(T, D, T + 2 * D) == T + 2 * D


def test_a_stretch_of_skipped_fires_is_counted_a_delay_apart() -> None:
    assert [last_by(T, D, T + each) for each in (0, D - 1, D, 2 * D + 1)] == [T, T, T + D, T + 2 * D]
    assert [count_of(T, T + each * D, D) for each in (0, 1, 7)] == [1, 2, 8]


def test_a_preview_knows_the_first_run_and_says_that_the_rest_follows_from_the_ends() -> None:
    told = preview_job(spec_from_document(DOCUMENT), 0, T, 10)
    assert [row.fire_time for row in told.rows] == [T + 1]
    assert "after the end" in told.words
    assert any("Only the first" in each for each in told.warnings)
    later = preview_job(JobSpec("h", Delay(D), timing=Timing(from_at=T + D)), 0, T, 10)
    assert [row.fire_time for row in later.rows] == [T + D]
    over = preview_job(JobSpec("h", Delay(D), timing=Timing(until_at=T)), 0, T, 10)
    assert over.rows == ()


def test_a_forecast_counts_no_fire_of_a_delay_and_says_how_many_jobs_have_one() -> None:
    forecast = Forecast(T)
    assert forecast.take([Planned("t:a", Tier.LOW, Delay(D), 0)])
    assert (forecast.fire_count, forecast.job_count, forecast.delay_job_count) == (0, 1, 1)


def _run(fire_at: int, *, revision: int = 7, ended_at: int = 0, series: int = 0, **more: object) -> RunRow:
    status = RunStatus.SUCCEEDED if ended_at else RunStatus.RUNNING
    run = RunRow("t:a", fire_at, series, revision, Tier.LOW, "SCHEDULE", status, Outcome.NONE, 1, fire_at, fire_at,
                 ended_at, "w", 1, "", None, "", "", "", 0, 0, 0)  # fmt: skip
    return run._replace(**more)  # type: ignore[arg-type]


def _row(status: JobStatus = JobStatus.ACTIVE) -> JobRow:
    return JobRow("t:a", spec_from_document(DOCUMENT), status, 9, 0, 7, T, T, 0, 9, T)


def test_people_are_told_the_fire_after_the_newest_end() -> None:
    assert next_of_delay(_row(), []) is None
    assert next_of_delay(_row(), [_run(T + 1, ended_at=T + 5)]) == T + 5 + D
    assert next_of_delay(_row(), [_run(T + D), _run(T + 1, ended_at=T + 5)]) is None, "it is open"
    assert next_of_delay(_row(JobStatus.PAUSED), [_run(T + 1, ended_at=T + 5)]) is None


def test_people_are_told_nothing_of_triggers_and_of_runs_of_older_specs() -> None:
    assert next_of_delay(_row(), [_run(T + D, series=8), _run(T + 1, ended_at=T + 5)]) == T + 5 + D
    assert next_of_delay(_row(), [_run(T - 5, revision=6, ended_at=T + 5)]) is None


def test_people_are_told_the_fire_after_the_last_skipped_one() -> None:
    skipped = _run(T + 1, status=RunStatus.SKIPPED, skipped_count=3, skipped_to=T + 1 + 2 * D)
    assert next_of_delay(_row(), [skipped]) == T + 1 + 3 * D
