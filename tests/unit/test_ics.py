"""Events of an iCalendar file become the days and periods that they say, or the file is refused."""

from __future__ import annotations

from typing import Any

import pytest

from waterclock.importing.ics import ICS_MAX, document_from_ics
from waterclock.model.calendar_document import compile_calendar
from waterclock.model.errors import RequestError
from waterclock.model.ids import US_PER_S

NOW = 1_795_000_020 * US_PER_S


def event(*lines: str) -> str:
    return "\r\n".join(["BEGIN:VEVENT", "UID:u", *lines, "END:VEVENT", ""])


def ics(*events: str) -> bytes:
    return "".join(["BEGIN:VCALENDAR\r\nVERSION:2.0\r\n", *events, "END:VCALENDAR\r\n"]).encode()


def test_events_become_days_and_periods() -> None:
    data = ics(
        event("DTSTART;VALUE=DATE:20261224", "DTEND;VALUE=DATE:20261227"),
        event("DTSTART;VALUE=DATE:20270101", "RRULE:FREQ=YEARLY;COUNT=2", "EXDATE;VALUE=DATE:20280101"),
        event("DTSTART;TZID=Europe/Berlin:20260701T180000", "DURATION:PT90M"),
        event("DTSTART:20261130T220000", "DTEND:20261201T020000"),
        event("DTSTART;VALUE=DATE:20261111", "STATUS:CANCELLED"),
    )
    found = document_from_ics(data, now=NOW, zone="America/New_York", description="all")
    assert found.occurrences == 4
    assert found.document == {
        "description": "all",
        "exclude": {
            "days": [{"from": "2026-12-24", "to": "2026-12-26"}, "2027-01-01"],
            "periods": [
                {"from": "2026-07-01T16:00:00Z", "until": "2026-07-01T17:30:00Z"},
                {"from": "2026-12-01T03:00:00Z", "until": "2026-12-01T07:00:00Z"},
            ],
        },
    }
    assert compile_calendar(found.document)


def test_a_changed_occurrence_stands_in_the_place_of_its_own() -> None:
    weekly = event("DTSTART;TZID=Europe/Berlin:20261023T090000", "DURATION:PT1H", "RRULE:FREQ=WEEKLY;COUNT=3")
    changed = event("RECURRENCE-ID;TZID=Europe/Berlin:20261030T090000", "DTSTART:20261031T120000Z", "DURATION:PT1H")
    periods = document_from_ics(ics(weekly, changed), now=NOW).document["exclude"]["periods"]
    # On the clock of Berlin, which is put back between the first and the others.
    assert [each["from"] for each in periods] == [
        "2026-10-23T07:00:00Z",
        "2026-10-31T12:00:00Z",
        "2026-11-06T08:00:00Z",
    ]


def periods_of(*lines: str, zone: str = "UTC") -> list[tuple[str, str]]:
    found = document_from_ics(ics(event(*lines)), now=NOW, zone=zone).document["exclude"]["periods"]
    return [(each["from"].removesuffix(":00Z"), each["until"].removesuffix(":00Z")) for each in found]


BERLIN = ";TZID=Europe/Berlin:"
IN_MARCH, IN_OCTOBER = "20260327T180000", "20261023T180000"
"""Fridays before the clock of Berlin changes."""


@pytest.mark.parametrize(
    ("lines", "end"),
    [
        ((f"DTSTART{BERLIN}{IN_MARCH}", f"DTEND{BERLIN}20260330T060000"), "2026-03-30T04:00"),
        ((f"DTSTART{BERLIN}{IN_OCTOBER}", f"DTEND{BERLIN}20261026T060000"), "2026-10-26T05:00"),
        ((f"DTSTART:{IN_OCTOBER}", "DTEND:20261026T060000"), "2026-10-26T05:00"),  # on the clock of ``zone``
        ((f"DTSTART{BERLIN}{IN_OCTOBER}", "DTEND:20261026T050000Z"), "2026-10-26T05:00"),
        ((f"DTSTART{BERLIN}{IN_OCTOBER}", "DTEND;TZID=Asia/Tokyo:20261026T140000"), "2026-10-26T05:00"),
    ],
)  # fmt: skip
def test_an_event_over_a_clock_change_ends_when_it_says(lines: tuple[str, ...], end: str) -> None:
    assert [until for _, until in periods_of(*lines, zone="Europe/Berlin")] == [end]


def test_an_event_without_a_length_has_none_over_a_clock_change_either() -> None:
    with pytest.raises(RequestError, match="No event"):
        periods_of(f"DTSTART{BERLIN}{IN_OCTOBER}", f"DTEND{BERLIN}{IN_OCTOBER}", "RRULE:FREQ=WEEKLY;COUNT=3")


@pytest.mark.parametrize(
    ("length", "end"),
    [("P3D", "26T17:00"), ("P1W", "30T17:00"), ("PT72H", "26T16:00"), ("P2DT24H", "26T17:00"), ("+PT90M", "23T17:30")],
)
def test_days_of_a_duration_are_those_of_the_clock_and_its_hours_are_hours(length: str, end: str) -> None:
    assert periods_of(f"DTSTART{BERLIN}{IN_OCTOBER}", f"DURATION:{length}") == [("2026-10-23T16:00", f"2026-10-{end}")]


FOLDS = ("\r\n ", "\n ", "\r\n\t", "\r\n\r\n ")


def test_a_colon_in_a_parameter_makes_no_days_of_hours() -> None:
    lines = (f"DURATION{note}:PT72H" for note in ("", ';X-NOTE="at: noon"'))
    plain, noted = (periods_of(f"DTSTART{BERLIN}{IN_OCTOBER}", line) for line in lines)
    assert noted == plain


@pytest.mark.parametrize("fold", FOLDS)
def test_a_file_is_read_alike_however_it_is_folded(fold: str) -> None:
    usual = ics("X-WR-CALNAME:Köln\r\n", event(f"DTSTART{BERLIN}{IN_OCTOBER}", "DURATION:PT72H"))
    whole = document_from_ics(usual, now=NOW).document
    assert whole == {
        "description": "Köln",
        "exclude": {"periods": [{"from": "2026-10-23T16:00:00Z", "until": "2026-10-26T16:00:00Z"}]},
    }
    # Between any two bytes, so within names and within the character of two bytes as well.
    folded = [fold.encode().join(bytes([each]) for each in line) for line in usual.split(b"\r\n")]
    assert document_from_ics(b"\r\n".join(folded), now=NOW).document == whole


def test_a_freeze_that_recurs_ends_at_its_time_of_day_on_each_side_of_a_clock_change() -> None:
    weekends = periods_of(
        "DTSTART;TZID=Europe/Berlin:20261016T180000",
        "DTEND;TZID=Europe/Berlin:20261019T060000",
        "RRULE:FREQ=WEEKLY;COUNT=3",
    )
    assert weekends == [
        ("2026-10-16T16:00", "2026-10-19T04:00"),
        ("2026-10-23T16:00", "2026-10-26T05:00"),
        ("2026-10-30T17:00", "2026-11-02T05:00"),
    ]


def test_times_that_the_clock_skips_or_shows_twice_begin_and_end_in_order() -> None:
    skipped = ("DTSTART;TZID=Europe/Berlin:20260329T023000", "DTEND;TZID=Europe/Berlin:20260329T030000")
    assert periods_of(*skipped) == [("2026-03-29T01:30", "2026-03-29T02:00")]  # 03:30 to 04:00
    twice = ("DTSTART;TZID=Europe/Berlin:20261025T023000", "DTEND;TZID=Europe/Berlin:20261025T033000")
    assert periods_of(*twice) == [("2026-10-25T00:30", "2026-10-25T02:30")]  # the first 02:30


@pytest.mark.parametrize(
    "line",
    ["DTSTART;TZID=Office:20261201T090000", "DTEND;TZID=Office:20261201T100000", "EXDATE;TZID=Office:20261202T090000",
     "RDATE;TZID=Office:20261203T090000", "RECURRENCE-ID;TZID=Office:20261201T090000"],
)  # fmt: skip
def test_a_zone_that_nobody_knows_is_refused_by_its_name(line: str) -> None:
    others = ["DTSTART:20261201T080000"] if not line.startswith("DTSTART") else []
    with pytest.raises(RequestError, match="zone 'Office', which is not known") as refused:
        periods_of(line, *others)
    assert "VTIMEZONE" in refused.value.hint


@pytest.mark.parametrize("is_first", [True, False])
def test_a_zone_that_the_file_describes_is_known_wherever_it_stands(*, is_first: bool) -> None:
    zone = "\r\n".join(
        ["BEGIN:VTIMEZONE", "TZID:Office", "BEGIN:STANDARD", "DTSTART:19700101T000000", "TZOFFSETFROM:+0300",
         "TZOFFSETTO:+0300", "END:STANDARD", "END:VTIMEZONE", ""]
    )  # fmt: skip
    meeting = event("DTSTART;TZID=Office:20261201T090000", "DTEND;TZID=Office:20261201T100000")
    found = document_from_ics(ics(*((zone, meeting) if is_first else (meeting, zone))), now=NOW)
    assert found.document["exclude"]["periods"] == [{"from": "2026-12-01T06:00:00Z", "until": "2026-12-01T07:00:00Z"}]


def test_an_event_that_began_over_a_year_ago_counts_while_it_is_on() -> None:
    assert periods_of("DTSTART:20250901T000000Z", "DTEND:20261231T000000Z") == [
        ("2025-09-01T00:00", "2026-12-31T00:00")
    ]
    twice = ("DTSTART:20230101T000000Z", "DTEND:20241201T000000Z", "RRULE:FREQ=YEARLY;INTERVAL=2;COUNT=2")
    assert periods_of(*twice) == [("2025-01-01T00:00", "2026-12-02T00:00")]
    data = ics(event("DTSTART;VALUE=DATE:20251001", "DTEND;VALUE=DATE:20261231"), event("DTSTART;VALUE=DATE:20251001"))
    assert document_from_ics(data, now=NOW).document["exclude"]["days"] == [{"from": "2025-10-01", "to": "2026-12-30"}]


def days_of(*lines: str, zone: str = "UTC") -> list[Any]:
    side = document_from_ics(ics(event(*lines)), now=NOW, zone=zone).document["exclude"]
    assert "periods" not in side
    return list(side["days"])


@pytest.mark.parametrize("params", ["TZID=Europe/Berlin;VALUE=DATE", "VALUE=date;TZID=America/New_York"])
def test_a_day_is_whole_whatever_zone_is_named_beside_it(params: str) -> None:
    assert days_of(f"DTSTART;{params}:20261224", zone="Asia/Tokyo") == ["2026-12-24"]
    until = (f"DTSTART;{params}:20261224", f"DTEND;{params}:20261226")
    assert days_of(*until) == [{"from": "2026-12-24", "to": "2026-12-25"}]
    assert days_of(until[0], "DTEND;VALUE=DATE:20261226") == [{"from": "2026-12-24", "to": "2026-12-25"}]
    lists = (f"RDATE;{params}:20261231", f"EXDATE;{params}:20261225")
    assert days_of(until[0], "RRULE:FREQ=DAILY;COUNT=3", *lists) == ["2026-12-24", "2026-12-26", "2026-12-31"]


@pytest.mark.parametrize("params", ["", ";TZID=Europe/Berlin"])
def test_an_exception_that_names_a_day_takes_away_what_begins_on_it_by_the_clock_of_the_event(params: str) -> None:
    nightly = ("DTSTART;TZID=Europe/Berlin:20261223T003000", "DURATION:PT1H", "RRULE:FREQ=DAILY;COUNT=3")
    left = periods_of(*nightly, f"EXDATE{params};VALUE=DATE:20261224", zone="America/New_York")
    assert left == [("2026-12-22T23:30", "2026-12-23T00:30"), ("2026-12-24T23:30", "2026-12-25T00:30")]


@pytest.mark.parametrize(
    "exception",
    [
        ":20261224T000000",
        ":20261224T183000",
        ";TZID=Europe/Berlin:20261224T000000",
        ";TZID=W. Europe Standard Time:20261224T000000",
        ";TZID=America/New_York:20261224T180000",
        ":20261223T150000Z",  # midnight in ``zone``
        ":20261224T000000Z",
    ],
)
def test_an_exception_to_whole_days_that_is_a_time_takes_away_the_day_of_its_clock(exception: str) -> None:
    daily = ("DTSTART;VALUE=DATE:20261223", "RRULE:FREQ=DAILY;COUNT=3")
    assert days_of(*daily, f"EXDATE{exception}", zone="Asia/Tokyo") == ["2026-12-23", "2026-12-25"]


@pytest.mark.parametrize(
    ("zone", "until", "last"),
    [
        ("Europe/Berlin", "20261230T230000Z", "2026-12-31"),
        ("Europe/Berlin", "20261231T225959Z", "2026-12-31"),
        ("Europe/Berlin", "20261231T235959Z", "2026-12-31"),
        ("Europe/Berlin", "20261231T000000Z", "2026-12-31"),
        ("America/New_York", "20261231T050000Z", "2026-12-31"),
        ("America/New_York", "20270101T045959Z", "2026-12-31"),
        ("America/New_York", "20261231T000000Z", "2026-12-31"),
        ("America/New_York", "20261231T000000", "2026-12-31"),
        ("America/New_York", "20261231", "2026-12-31"),
    ],
)
def test_whole_days_that_recur_until_a_time_end_with_the_day_that_it_means(zone: str, until: str, last: str) -> None:
    found = days_of("DTSTART;VALUE=DATE:20261228", f"RRULE:FREQ=DAILY;UNTIL={until}", zone=zone)
    assert found == [{"from": "2026-12-28", "to": last}]


def test_whole_days_that_recur_until_a_midnight_that_the_clock_skips_end_with_that_day() -> None:
    found = days_of("DTSTART;VALUE=DATE:20260422", "RRULE:FREQ=DAILY;UNTIL=20260423T220000Z", zone="Africa/Cairo")
    assert found == [{"from": "2026-04-22", "to": "2026-04-24"}]


@pytest.mark.parametrize("zone", ["Asia/Tokyo", "America/New_York"])
@pytest.mark.parametrize("until", ["99991231T235959Z", "99991231T000000", "99991231"])
def test_whole_days_that_recur_for_ever_do_so_in_every_zone(zone: str, until: str) -> None:
    found = days_of("DTSTART;VALUE=DATE:20261225", f"RRULE:FREQ=YEARLY;UNTIL={until}", zone=zone)
    assert found[0] == "2026-12-25"
    assert len(found) == 10


@pytest.mark.parametrize("added", ["RDATE:20261230T230000Z", "RDATE;TZID=Europe/Berlin:20261231T000000"])
def test_a_time_that_is_added_to_whole_days_adds_the_day_of_its_clock(added: str) -> None:
    assert days_of("DTSTART;VALUE=DATE:20261228", added, zone="Europe/Berlin") == ["2026-12-28", "2026-12-31"]


def test_a_day_that_is_added_to_an_event_at_a_time_begins_at_that_time() -> None:
    lines = ("DTSTART;TZID=Europe/Berlin:20261228T180000", "DURATION:PT1H", "RDATE;VALUE=DATE:20270701")
    assert periods_of(*lines) == [
        ("2026-12-28T17:00", "2026-12-28T18:00"),
        ("2027-07-01T16:00", "2027-07-01T17:00"),
    ]


def test_a_midnight_that_the_clock_skips_is_the_beginning_of_its_day() -> None:
    daily = ("DTSTART;VALUE=DATE:20260423", "RRULE:FREQ=DAILY;COUNT=3")
    assert days_of(*daily, "EXDATE:20260423T220000Z", zone="Africa/Cairo") == ["2026-04-23", "2026-04-25"]


def test_an_exception_to_whole_days_in_utc_that_begins_no_day_is_refused() -> None:
    daily = ("DTSTART;VALUE=DATE:20261223", "RRULE:FREQ=DAILY;COUNT=3")
    with pytest.raises(RequestError, match=r"2026-12-23T23:00:00Z.*Asia/Tokyo") as refused:
        days_of(*daily, "EXDATE:20261223T230000Z", zone="Asia/Tokyo")
    assert "VALUE=DATE" in refused.value.hint


@pytest.mark.parametrize("params", ["", ";TZID=Europe/Berlin"])
@pytest.mark.parametrize("change", ["", "\r\nSTATUS:CANCELLED"])
def test_a_changed_occurrence_that_is_named_by_its_day_stands_in_the_place_of_what_begins_on_it(
    params: str, change: str
) -> None:
    # By the clock of the event, on which each begins a day later than in UTC.
    nightly = event("DTSTART;TZID=Europe/Berlin:20261223T003000", "DURATION:PT1H", "RRULE:FREQ=DAILY;COUNT=3")
    late = event(f"RECURRENCE-ID{params};VALUE=DATE:20261224", f"DTSTART:20261224T120000Z{change}", "DURATION:PT1H")
    found = document_from_ics(ics(nightly, late), now=NOW, zone="America/New_York").document["exclude"]["periods"]
    at_noon = [] if change else ["2026-12-24T12:00:00Z"]
    assert [each["from"] for each in found] == ["2026-12-22T23:30:00Z", *at_noon, "2026-12-24T23:30:00Z"]


@pytest.mark.parametrize("named", [";VALUE=DATE:20261224", ":20261224T000000", ";TZID=Europe/Berlin:20261224T000000"])
def test_a_whole_day_that_was_moved_is_found_by_a_day_or_a_time(named: str) -> None:
    daily = event("DTSTART;VALUE=DATE:20261223", "RRULE:FREQ=DAILY;COUNT=3")
    moved = event(f"RECURRENCE-ID{named}", "DTSTART;VALUE=DATE:20261230")
    found = document_from_ics(ics(moved, daily), now=NOW, zone="Asia/Tokyo").document["exclude"]
    assert found == {"days": ["2026-12-23", "2026-12-25", "2026-12-30"]}


def test_without_a_uid_a_changed_time_takes_no_whole_day_away() -> None:
    daily = event("DTSTART;VALUE=DATE:20261223", "RRULE:FREQ=DAILY;COUNT=3")
    timed = event("DTSTART:20261224T090000", "DURATION:PT1H", "RRULE:FREQ=DAILY;COUNT=2")
    late = event("RECURRENCE-ID:20261224T090000", "DTSTART:20261224T100000", "DURATION:PT1H")
    data = ics(daily, timed, late).replace(b"UID:u\r\n", b"")
    found = document_from_ics(data, now=NOW).document["exclude"]
    assert found["days"] == [{"from": "2026-12-23", "to": "2026-12-25"}]
    assert [each["from"] for each in found["periods"]] == ["2026-12-24T10:00:00Z", "2026-12-25T09:00:00Z"]


def test_an_exception_in_another_zone_takes_away_a_time_that_the_clock_shows_twice() -> None:
    nightly = ("DTSTART;TZID=Europe/Berlin:20261024T023000", "DURATION:PT1H", "RRULE:FREQ=DAILY;COUNT=2")
    assert periods_of(*nightly, "EXDATE:20261025T003000Z") == [("2026-10-24T00:30", "2026-10-24T01:30")]


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("RDATE;VALUE=PERIOD:20261224T180000Z/PT5H", "VALUE=PERIOD"),
        ("RECURRENCE-ID;RANGE=THISANDFUTURE:20261225T180000Z", "THISANDFUTURE"),
        ("RECURRENCE-ID;RANGE=THISANDFUTURE:20261225T180000Z\r\nSTATUS:CANCELLED", "THISANDFUTURE"),
    ],
)
def test_what_would_be_taken_in_part_is_refused_with_its_name(line: str, word: str) -> None:
    usual = event("DTSTART:20261224T180000Z", "DURATION:PT1H", "RRULE:FREQ=DAILY;COUNT=5")
    with pytest.raises(RequestError, match=word) as refused:
        document_from_ics(ics(usual, event("DTSTART:20261223T180000Z", "DURATION:PT1H", line)), now=NOW)
    assert "another event" in refused.value.hint


HOSTILE = {
    "nothing": b"",
    "no calendar": b"hello",
    "bytes": bytes(range(256)) * 40,
    "open": b"BEGIN:VCALENDAR\r\n" * 2_000,
    "no event": ics(),
    "seconds": ics(event("DTSTART:20260101T000000Z", "RRULE:FREQ=SECONDLY")),
    "too many": ics(*[event("DTSTART;VALUE=DATE:20260101", "RRULE:FREQ=DAILY")] * 3),
    "barren": ics(*[event("DTSTART;VALUE=DATE:20260101", "RRULE:FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30")] * 60),
    "far": ics(event("DTSTART;VALUE=DATE:99991231", "DTEND;VALUE=DATE:99991231")),
    "backwards": ics(event("DTSTART:20260201T000000Z", "DTEND:20260101T000000Z")),
    "mixed": ics(event("DTSTART;VALUE=DATE:20260201", "DTEND:20260301T000000Z")),
    "no beginning": ics(event("SUMMARY:x")),
    "long": ics(event("DTSTART;VALUE=DATE:20260101", "DURATION:P99999999D")),
    "zone": ics(event("DTSTART;TZID=../../etc/passwd:20260101T000000", "DURATION:PT1H")),
    "fortnights": ics(event("DTSTART:20260101T000000Z", "RRULE:FREQ=FORTNIGHTLY")),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_refused_within_bounds(name: str) -> None:
    with pytest.raises(RequestError) as refused:
        document_from_ics(HOSTILE[name], now=NOW)
    assert refused.value.hint
    assert len(refused.value.message) < 300


def test_a_file_over_the_size_is_not_even_looked_at() -> None:
    with pytest.raises(RequestError, match="bytes"):
        document_from_ics(b"x" * (ICS_MAX + 1), now=NOW)
