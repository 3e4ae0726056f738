"""Previews: the next fires before anything is saved, and what a clock change does to each."""

from __future__ import annotations

from typing import Any

import pytest

from tests import preview_page
from waterclock.model.cron import compile_cron
from waterclock.model.cron_words import in_words
from waterclock.model.document import spec_from_document
from waterclock.model.errors import RequestError
from waterclock.model.ids import US_PER_S, Instant
from waterclock.model.job import Cron, Every, Fold, Gap, JobSpec, JobStatus
from waterclock.model.preview import PREVIEW_MAX, MarkKind, anchor_of, preview_cron, preview_job
from waterclock.model.preview_document import preview_document, shown_rows
from waterclock.model.time_text import parse_rfc3339
from waterclock.model.timetable import offset_of
from waterclock.model.timing import Timing
from waterclock.model.upcoming import upcoming

NEW_YORK = "America/New_York"
SPRING, AUTUMN = "2026-03-07T12:00:00Z", "2026-10-31T12:00:00Z"


def at(text: str) -> Instant:
    return parse_rfc3339(text)


def shown(cron: Cron, after: str, count: int) -> list[dict[str, Any]]:
    fires: list[dict[str, Any]] = preview_document(preview_cron(cron, at(after), count))["next_fires"]
    return fires


def marks(fire: dict[str, Any]) -> list[tuple[str, str, str, int]]:
    return [tuple(mark.values()) for mark in fire["marks"]]


def test_the_golden_page_of_tricky_schedules_is_what_is_shown() -> None:
    """Brute force wrote the page: ``python -m tests.oracle.brute_preview``."""
    assert preview_page.differences(preview_page.preview_of) == []


def test_a_moved_fire_says_which_times_it_stands_for() -> None:
    fire, after = shown(Cron("15,45 2 * * *", NEW_YORK), SPRING, 2)
    assert (fire["utc"], fire["local"]) == ("2026-03-08T07:00:00Z", "2026-03-08T03:00:00-04:00")
    assert marks(fire) == [("moved", "2026-03-08T02:15:00", "2026-03-08T02:45:00", 2)]
    assert fire["remark"] == (
        "moved: stands for 2 times from 02:15 to 02:45, not on the clock that day; after the clock change to UTC-04:00"
    )
    assert (after["marks"], after["offset_changed"], after["remark"]) == ([], False, None)


def test_times_that_nothing_makes_up_for_are_shown_where_they_would_have_been() -> None:
    preview = preview_cron(Cron("*/30 2 * * *", NEW_YORK), at(SPRING), 2)
    first, second = preview_document(preview)["next_fires"]
    assert marks(first) == [("skipped", "2026-03-08T02:00:00", "2026-03-08T02:30:00", 2)]
    assert marks(second) == []
    lines = shown_rows(preview)
    assert [line["utc"] for line in lines] == [None, "2026-03-09T06:00:00Z", "2026-03-09T06:30:00Z"]
    assert lines[0]["local"] == "Sun 2026-03-08 02:00:00"
    assert "no fire" in str(lines[0]["remark"])


def test_what_lies_behind_the_start_or_beyond_the_last_row_is_not_shown() -> None:
    wild = Cron("*/30 2 * * *", NEW_YORK)
    assert marks(shown(wild, "2026-03-08T07:00:00Z", 1)[0]) == []
    assert marks(shown(wild, "2026-03-08T06:59:59Z", 1)[0]) != []
    assert marks(shown(wild, "2026-03-07T06:59:00Z", 2)[1]) == []


@pytest.mark.parametrize(
    ("fold", "expected"),
    [
        (Fold.FIRST, [("05:30", "first_of_two", "the second is no fire"), ("06:30", "", "")]),
        (Fold.BOTH, [("05:30", "first_of_two", "both fire"), ("06:30", "second_of_two", "the second of two 01:30")]),
    ],
)
def test_a_time_that_comes_twice_says_which_one_fires(fold: Fold, expected: list[tuple[str, str, str]]) -> None:
    fires = shown(Cron("30 1 * * *", NEW_YORK, fold=fold), AUTUMN, 2)
    for fire, (utc, kind, says) in zip(fires, expected, strict=True):
        assert fire["utc"][11:16] == utc
        assert [mark["mark"] for mark in fire["marks"]] == ([kind] if kind else [])
        assert says in (fire["remark"] or "")


def test_seconds_are_counted_in_marks() -> None:
    fires = shown(Cron("20,40 0 2 * * *", NEW_YORK, seconds=True), SPRING, 1)
    assert marks(fires[0]) == [("moved", "2026-03-08T02:00:20", "2026-03-08T02:00:40", 2)]
    assert "2 times from 02:00:20 to 02:00:40" in fires[0]["remark"]


def test_a_preview_is_bounded_and_may_be_short() -> None:
    assert len(shown(Cron("* * * * *"), SPRING, 10_000)) == PREVIEW_MAX == 100
    assert shown(Cron("0 0 * * *"), "9999-01-01T00:00:00Z", 3) == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("30 2 * * *", "At 02:30"),
        ("*/45 * * * *", "At 0 and 45 minutes past the hour"),
        ("*/7 * * * *", "Every 7 minutes, minutes 0 through 59 past the hour"),
        ("*/15 * * * *", "Every 15 minutes"),
        ("0 0 l * *", "At 00:00, on the last day of the month"),
        ("0 0 1-31 * 0-6", "At 00:00"),
        ("0 0 13 * sun-sat", "At 00:00, on day 13 of the month"),
        ("0 0 13 * 5", "At 00:00, on day 13 of the month; and at 00:00, on Friday"),
        (
            "0 0 * * 5#2,L1",
            "At 00:00, on the second Friday of the month; and at 00:00, on the last Monday of the month",
        ),
        ("0 0 1,L * *", "At 00:00, on day 1 of the month; and at 00:00, on the last day of the month"),
        ("@daily", "At 00:00"),
    ],
)  # fmt: skip
def test_words_say_what_the_expression_means(text: str, words: str) -> None:
    assert in_words(compile_cron(Cron(text))) == words


def test_words_are_the_same_on_every_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("locale.getlocale", lambda: ("de_DE", "UTF-8"))
    assert in_words(compile_cron(Cron("0 0 L * *"))) == "At 00:00, on the last day of the month"


def test_h_and_macros_are_shown_as_what_they_mean() -> None:
    assert preview_cron(Cron("@hourly"), 0, 1).read_as == "0 * * * *"
    assert preview_cron(Cron("H H * * *"), 0, 1, job_id="acme:nightly").read_as == "51 23 * * *"
    with pytest.raises(RequestError) as refused:
        preview_cron(Cron("H H * * *"), 0, 1)
    assert refused.value.pointer == "/cron"
    assert "name the job" in refused.value.hint


def test_a_whole_job_is_previewed_by_its_own_kind_of_schedule() -> None:
    now = at("2026-01-01T00:00:00Z")

    def told(**schedule: str) -> dict[str, Any]:
        spec = spec_from_document({"handler": "a", **schedule}, job_id="acme:a")
        return preview_document(preview_job(spec, anchor_of(spec.schedule, now), now, 2, job_id="acme:a"))

    every = told(every="90m")
    assert [fire["utc"] for fire in every["next_fires"]] == ["2026-01-01T01:30:00Z", "2026-01-01T03:00:00Z"]
    assert (every["read_as"], every["zone"]) == (None, "UTC")
    started = told(every="1d", start_at="2025-12-31T09:00:00Z")
    assert started["next_fires"][0]["utc"] == "2026-01-01T09:00:00Z"
    assert "2025-12-31T09:00:00Z" in started["words"]
    assert [fire["utc"] for fire in told(at="2026-02-01T00:00:00Z")["next_fires"]] == ["2026-02-01T00:00:00Z"]
    over = told(at="2025-02-01T00:00:00Z")
    assert over["next_fires"] == []
    assert "is over" in over["warnings"][0]
    assert told(cron="H 0 * * *", zone="Europe/Berlin")["read_as"] == told(cron="H 0 * * *")["read_as"]


def told_of(now: str, count: int = 3, job_id: str = "acme:a", **document: Any) -> dict[str, Any]:
    spec = spec_from_document({"handler": "a", **document}, job_id=job_id)
    return preview_document(preview_job(spec, anchor_of(spec.schedule, at(now)), at(now), count, job_id=job_id))


def test_dates_are_previewed_without_those_that_are_over() -> None:
    dates = ["2026-12-24T09:00:00Z", "2026-12-26T09:00:00Z", "2027-01-06T09:00:00Z"]
    told = told_of("2026-12-24T09:00:00Z", dates=dates)
    assert [fire["utc"] for fire in told["next_fires"]] == dates[1:]
    assert told["words"] == "On 3 dates, from 2026-12-24T09:00:00Z to 2027-01-06T09:00:00Z"
    assert told["warnings"] == ["1 of its 3 dates are over: they are no fires."]
    assert told_of("2027-02-01T00:00:00Z", dates=dates)["warnings"] == ["All its dates are over: it never fires."]
    assert told_of("2026-01-01T00:00:00Z", dates=dates[:1])["words"] == "On one date, 2026-12-24T09:00:00Z"


def test_a_preview_ends_with_its_job_and_begins_with_it() -> None:
    ends = {"active_from": "2026-03-08T07:00:00Z", "active_until": "2026-03-10T06:30:00Z"}
    told = told_of("2026-01-01T00:00:00Z", cron="30 2 * * *", zone=NEW_YORK, **ends)
    assert [fire["utc"] for fire in told["next_fires"]] == ["2026-03-08T07:00:00Z", "2026-03-09T06:30:00Z"]
    assert told["words"] == "At 02:30; not before 2026-03-08T07:00:00Z; only before 2026-03-10T06:30:00Z"
    over = told_of("2026-03-10T06:30:00Z", cron="30 2 * * *", zone=NEW_YORK, **ends)
    assert (over["next_fires"], over["warnings"]) == ([], ["Its active_until is over: it never fires."])


def test_times_that_do_not_exist_before_a_job_begins_are_none_of_its_own() -> None:
    wild = {"cron": "*/30 2 * * *", "zone": NEW_YORK, "gap": "skip"}
    (first, *_) = told_of(SPRING, **wild)["next_fires"]
    (later, *_) = told_of(SPRING, **wild, active_from="2026-03-09T00:00:00Z")["next_fires"]
    assert [mark["mark"] for mark in first["marks"]] == ["skipped"]
    assert (later["utc"], later["marks"], later["remark"]) == (first["utc"], [], None)


def test_a_gap_is_told_once_wherever_long_spans_are_cut_in_pieces() -> None:
    for year in range(2026, 2100):
        told = preview_cron(Cron("5 2 * * 0", "Australia/Sydney", gap=Gap.SKIP), at(f"{year}-09-25T00:00:00Z"), 4)
        marks = [mark.kind for row in told.rows for mark in row.marks]
        assert marks == [MarkKind.SKIPPED], year


def test_a_row_says_when_jitter_makes_it_due() -> None:
    document: dict[str, Any] = {"cron": "0 9 * * *", "jitter": "10m"}
    told = told_of("2026-01-01T00:00:00Z", **document)
    offsets = [at(fire["due_time"]) - at(fire["utc"]) for fire in told["next_fires"]]
    assert offsets == [offset_of("acme:a", 600_000_000)] * 3
    assert told["words"] == "At 09:00; due less than 10m later, all fires by the same offset"
    assert told["next_fires"][0]["remark"] == f"by jitter due {told['next_fires'][0]['due_time']}"
    document["jitter"] = {"window": "10m", "per_fire": True}
    each = told_of("2026-01-01T00:00:00Z", **document)
    assert len({at(fire["due_time"]) - at(fire["utc"]) for fire in each["next_fires"]}) == 3


def test_the_jitter_of_a_job_without_a_name_is_not_made_up() -> None:
    told = told_of("2026-01-01T00:00:00Z", job_id="", every="1h", jitter="30s")
    assert [fire["due_time"] for fire in told["next_fires"]] == [None] * 3
    assert [fire["remark"] for fire in told["next_fires"]] == [None] * 3
    assert "name the job" in told["warnings"][0]


def test_a_schedule_shows_no_more_fires_than_it_may_make_runs() -> None:
    hourly = JobSpec("h", Every(3_600 * US_PER_S), timing=Timing(max_runs=3))
    assert len(upcoming(hourly, JobStatus.ACTIVE, 0, 0, 10)) == 3
    assert upcoming(hourly, JobStatus.ENDED, 0, 0, 10) == []
