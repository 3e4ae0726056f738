"""Ends, jitter and misfire policies in a job document, and lists of dates: what is written comes back."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from waterclock.intake.avro_form import from_record
from waterclock.model.document import spec_from_document, spec_to_document
from waterclock.model.errors import RequestError
from waterclock.model.ids import US_PER_S
from waterclock.model.job import Command, CommandKind, Cron, Dates, Every, JobSpec, Once, Schedule
from waterclock.model.job_event import JobEvent, event_of
from waterclock.model.stored_spec import spec_from_json, spec_to_json
from waterclock.model.time_text import parse_rfc3339
from waterclock.model.timing import PLAIN, CatchUpOrder, Misfire, Timing, timing_from_json, timing_to_json
from waterclock.wire.codec import decode_job_event, encode_job_event

NINE = "2026-12-01T09:00:00Z"
DAY_US = 86_400 * US_PER_S


def read(**more: Any) -> JobSpec:
    return spec_from_document({"handler": "h", "every": "10m", **more})


def test_without_a_word_a_job_has_the_plain_timing_and_it_costs_nothing() -> None:
    spec = read()
    assert spec.timing == PLAIN
    assert timing_to_json(PLAIN) == ""
    assert b"timing" not in spec_to_json(spec)
    assert spec_to_document(spec).keys() == {"handler", "every", "tier", "pool"}


def test_every_part_is_read() -> None:
    spec = read(
        active_from=NINE,
        active_until="2027-01-01T00:00:00+01:00",
        jitter={"window": "30s", "per_fire": True},
        misfire="all",
        catch_up={"max": 7, "window": "6h", "order": "newest"},
        pause_after_failures=3,
        max_runs=14,
    )
    assert spec.timing == Timing(
        from_at=parse_rfc3339(NINE),
        until_at=parse_rfc3339("2026-12-31T23:00:00Z"),
        misfire=Misfire.ALL,
        catch_up_max=7,
        catch_up_window_us=6 * 3_600 * US_PER_S,
        catch_up_order=CatchUpOrder.NEWEST,
        jitter_us=30 * US_PER_S,
        jitter_per_fire=True,
        pause_after_failures=3,
        max_runs=14,
    )
    assert read(jitter="30s").timing == Timing(jitter_us=30 * US_PER_S)


def test_a_stored_form_of_a_later_release_does_not_stop_a_dispatcher() -> None:
    assert timing_from_json('{"misfire":"sometimes","moon":"full","catch_up_max":3}') == Timing(catch_up_max=3)


@pytest.mark.parametrize(
    ("more", "pointer", "words"),
    [
        ({"misfire": "never"}, "/misfire", "latest, skip, all"),
        ({"misfire": 1}, "/misfire", "latest, skip, all"),
        ({"catch_up": "all"}, "/catch_up", "Such as"),
        ({"catch_up": {"max": 0}}, "/catch_up/max", "1 to 1000"),
        ({"catch_up": {"max": 1_001}}, "/catch_up/max", "1 to 1000"),
        ({"catch_up": {"max": True}}, "/catch_up/max", "whole number"),
        ({"catch_up": {"window": "9s"}}, "/catch_up/window", "10s to 365d"),
        ({"catch_up": {"window": "366d"}}, "/catch_up/window", "10s to 365d"),
        ({"catch_up": {"order": "random"}}, "/catch_up/order", "oldest, newest"),
        ({"catch_up": {"windw": "1h"}}, "/catch_up/windw", "window"),
        ({"active_from": NINE, "active_until": NINE}, "/active_until", "after active_from"),
        ({"active_from": "soon"}, "/active_from", "RFC 3339"),
        ({"jitter": 30}, "/jitter", "30s"),
        ({"jitter": {"per_fire": True}}, "/jitter/window", "needs"),
        ({"jitter": {"window": "30s", "per_fire": "yes"}}, "/jitter/per_fire", "true or false"),
        ({"pause_after_failures": 0}, "/pause_after_failures", "1 to 1000"),
        ({"pause_after_failures": 1_001}, "/pause_after_failures", "1 to 1000"),
        ({"pause_after_failures": True}, "/pause_after_failures", "True is not a number"),
        ({"max_runs": 0}, "/max_runs", "1 to 1000000000"),
        ({"max_runs": 1_000_000_001}, "/max_runs", "1 to 1000000000"),
        ({"max_runs": "14"}, "/max_runs", "'14' is not a number"),
        ({"max_runs": 14.0}, "/max_runs", "14.0 is not a number"),
        ({"jitter": "31m"}, "/jitter", "30m"),
        ({"jitter": "301s"}, "/jitter", "5m"),
        ({"dates": [NINE]}, "/dates", "exactly one"),
        ({"zone": "Europe/Berlin"}, "/zone", "dates"),
    ],
)
def test_a_fault_is_refused_where_it_is_with_a_hint(more: dict[str, Any], pointer: str, words: str) -> None:
    with pytest.raises(RequestError) as refused:
        read(**more)
    assert refused.value.pointer == pointer
    assert refused.value.hint
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("schedule", "jitter", "most"),
    [
        ({"cron": "0 * * * *"}, "31m", "30m"),
        ({"cron": "*/45 * * * *"}, "8m", "450s"),  # :45 to :00
        ({"cron": "30 1 * * *", "zone": "America/New_York", "fold": "both"}, "30m", ""),  # an hour apart in autumn
        ({"dates": [NINE, "2026-12-01T09:00:10Z"]}, "6s", "5s"),
        ({"every": "1s"}, "1s", "Leave it out"),
        ({"at": NINE}, "30m", ""),
    ],
)
def test_a_jitter_is_at_most_half_the_smallest_gap(schedule: dict[str, Any], jitter: str, most: str) -> None:
    document = {"handler": "h", **schedule, "jitter": jitter}
    if not most:
        assert spec_from_document(document).timing.jitter_us
        return
    with pytest.raises(RequestError) as refused:
        spec_from_document(document)
    assert refused.value.pointer == "/jitter"
    assert most in refused.value.hint


@pytest.mark.parametrize(
    "schedule",
    [{"at": NINE}, {"dates": [NINE]}, {"cron": "0 9 1 12 *"}],
)
def test_ends_that_leave_no_fire_are_refused(schedule: dict[str, Any]) -> None:
    ends = {"active_from": "2026-12-01T09:00:01Z", "active_until": "2026-12-02T00:00:00Z"}
    with pytest.raises(RequestError, match="no fire within its ends"):
        spec_from_document({"handler": "h", **schedule, **ends})


def test_dates_are_sorted_instants_or_local_times_in_the_zone() -> None:
    texts = ["2026-12-24T09:00", "2026-12-01T09:00:30", "2026-11-01T12:00:00Z"]
    dates = spec_from_document({"handler": "h", "dates": texts, "zone": "Europe/Berlin"}).schedule
    meant = ("2026-11-01T12:00:00Z", "2026-12-01T08:00:30Z", "2026-12-24T08:00:00Z")
    assert dates == Dates(tuple(parse_rfc3339(text) for text in meant))


@pytest.mark.parametrize(
    ("local", "zone", "meant"),
    [
        ("2026-03-08T02:30", "America/New_York", "2026-03-08T07:00:00Z"),  # does not exist: the end of the gap
        ("2026-11-01T01:30", "America/New_York", "2026-11-01T05:30:00Z"),  # comes twice: the first
        ("2026-10-04T02:15", "Australia/Lord_Howe", "2026-10-03T15:30:00Z"),  # half an hour of gap
        ("2026-07-01T00:00", "Asia/Kathmandu", "2026-06-30T18:15:00Z"),
        ("2026-07-01T23:59:59", "Pacific/Kiritimati", "2026-07-01T09:59:59Z"),
    ],
)
def test_a_local_date_is_read_by_its_zones_clocks(local: str, zone: str, meant: str) -> None:
    spec = spec_from_document({"handler": "h", "dates": [local], "zone": zone})
    assert spec.schedule == Dates((parse_rfc3339(meant),))


@pytest.mark.parametrize(
    ("document", "pointer", "words"),
    [
        ({"dates": []}, "/dates", "1 to 1000"),
        ({"dates": NINE}, "/dates", "1 to 1000"),
        ({"dates": [f"2026-12-01T00:{n // 60:02}:{n % 60:02}Z" for n in range(1_001)]}, "/dates", "1 to 1000"),
        ({"dates": [NINE, "2026-12-01T10:00:00+01:00"]}, "/dates/1", "once"),
        ({"dates": [NINE, "2026-12-01T09:00"]}, "/dates/1", "zone"),
        ({"dates": ["2026-02-30T09:00"], "zone": "UTC"}, "/dates/0", "does not exist"),
        ({"dates": [NINE, 5]}, "/dates/1", "RFC 3339"),
        ({"dates": [NINE], "zone": "Europe/Berln"}, "/zone", "Europe/Berlin"),
        ({"dates": ["2200-01-01T00:00:00Z"]}, "/dates/0", "2199"),
        ({"dates": [NINE], "start_at": NINE}, "/start_at", "every"),
    ],
)
def test_a_list_of_dates_is_refused_where_it_is_wrong(document: dict[str, Any], pointer: str, words: str) -> None:
    with pytest.raises(RequestError) as refused:
        spec_from_document({"handler": "h", **document})
    assert refused.value.pointer == pointer
    assert words in str(refused.value)


instants = st.integers(1, 7_000_000_000).map(lambda second: second * US_PER_S)
any_schedule: st.SearchStrategy[Schedule] = st.one_of(
    st.just(Cron("0 9 * * *")),
    st.just(Every(7_200 * US_PER_S)),
    st.builds(Once, instants),
    st.lists(instants, min_size=1, max_size=5, unique=True).map(lambda times: Dates(tuple(sorted(times)))),
)
any_timing = st.builds(
    Timing,
    misfire=st.sampled_from(Misfire),
    catch_up_max=st.integers(1, 1_000),
    catch_up_window_us=st.integers(10, 365 * 86_400).map(lambda seconds: seconds * US_PER_S),
    catch_up_order=st.sampled_from(CatchUpOrder),
    jitter_us=st.integers(0, 1_800).map(lambda seconds: seconds * US_PER_S),
    jitter_per_fire=st.booleans(),
    pause_after_failures=st.integers(0, 1_000),
    max_runs=st.integers(0, 1_000_000_000),
)


@settings(deadline=None)
@given(any_schedule, any_timing, st.none() | instants)
def test_any_job_survives_its_document_its_stored_form_and_its_event(
    schedule: Schedule, timing: Timing, from_at: int | None
) -> None:
    document = spec_to_document(JobSpec("h", schedule, timing=timing))
    if from_at is not None and isinstance(schedule, Every):
        document["active_from"] = "2026-12-01T09:00:00Z"
    try:
        spec = spec_from_document(document)
    except RequestError as wide:
        if wide.pointer != "/jitter":  # two dates may lie as near to one another as a second
            raise
        return
    assert spec.schedule == schedule
    if not timing.jitter_us:
        timing = Timing(**{**_parts(timing), "jitter_per_fire": False})
    assert Timing(**{**_parts(spec.timing), "from_at": 0}) == timing
    assert spec_from_document(spec_to_document(spec)) == spec
    assert spec_from_json(spec_to_json(spec)) == spec
    event = event_of(Command(CommandKind.CREATE, "acme:x", "c", "a", 0, spec=spec))
    assert spec_from_document(from_record(decode_job_event(encode_job_event(event))).document) == spec


def _parts(timing: Timing) -> dict[str, Any]:
    return {name: getattr(timing, name) for name in Timing.__slots__}


def test_a_thousand_dates_fit_into_every_record_that_carries_them() -> None:
    spec = JobSpec("h", Dates(tuple(number * DAY_US for number in range(1_000))))
    event = event_of(Command(CommandKind.CREATE, "acme:x", "c", "a", 0, spec=spec))
    assert decode_job_event(encode_job_event(event)) == event


def test_what_is_wrong_in_an_event_is_pointed_at_in_its_own_words() -> None:
    event = JobEvent(CommandKind.CREATE, name="x", handler="h", every_us=US_PER_S, active_until_at=-1)
    with pytest.raises(RequestError) as refused:
        from_record(event)
    assert refused.value.pointer == "/active_until_at"
