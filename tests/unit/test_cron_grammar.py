"""What a cron expression may hold: accepted as we mean it, or refused with a hint."""

from __future__ import annotations

import time
import zoneinfo
from contextlib import suppress
from random import Random

import pytest
import tzdata

from waterclock.model import zones
from waterclock.model.cron import compile_cron
from waterclock.model.errors import RequestError
from waterclock.model.job import Cron, Fold, Gap
from waterclock.model.schedule import check_schedule

ALL_DAYS = (1 << 32) - 2
ALL_WEEKDAYS = (1 << 7) - 1


def bits(*values: int) -> int:
    return sum(1 << value for value in values)


def test_zone_data_comes_from_the_package_alone() -> None:
    assert zoneinfo.TZPATH == ()
    assert tzdata.IANA_VERSION == zones.TZDATA_VERSION == "2026f"


@pytest.mark.parametrize(
    ("text", "minute", "hour"),
    [
        ("0 9 * * *", bits(0), bits(9)),
        ("\t5   9-11 * *\t* ", bits(5), bits(9, 10, 11)),
        ("*/20 0-6/3,23 * * *", bits(0, 20, 40), bits(0, 3, 6, 23)),
        ("50/5 07 * * *", bits(50, 55), bits(7)),
        ("0 22-2 * * *", bits(0), bits(22, 23, 0, 1, 2)),
        ("0 22-2/3 * * *", bits(0), bits(22, 1)),
        ("7-9 7-9 * * *", bits(7, 8, 9), bits(7, 8, 9)),
        ("@hourly", bits(0), (1 << 24) - 1),
        ("@DAILY", bits(0), bits(0)),
        ("@midnight", bits(0), bits(0)),
    ],
)
def test_times_of_day_are_read_as_written(text: str, minute: int, hour: int) -> None:
    spec = compile_cron(Cron(text))
    assert (spec.minute, spec.hour, spec.second) == (minute, hour, 1)


@pytest.mark.parametrize(
    ("text", "days", "last", "weekdays", "nth"),
    [
        ("0 0 * * *", ALL_DAYS, False, ALL_WEEKDAYS, ()),
        ("0 0 ? * ?", ALL_DAYS, False, ALL_WEEKDAYS, ()),
        ("0 0 1-31 * 0-7", ALL_DAYS, False, ALL_WEEKDAYS, ()),
        ("0 0 1-31 * fri", ALL_DAYS, False, bits(5), ()),
        ("0 0 13 * sun-sat", bits(13), False, ALL_WEEKDAYS, ()),
        ("0 0 13 * */1", bits(13), False, ALL_WEEKDAYS, ()),
        ("0 0 L * *", 0, True, ALL_WEEKDAYS, ()),
        ("0 0 1,l * *", bits(1), True, ALL_WEEKDAYS, ()),
        ("0 0 * * 7", ALL_DAYS, False, bits(0), ()),
        ("0 0 * * 5-7", ALL_DAYS, False, bits(5, 6, 0), ()),
        ("0 0 * * 7-2", ALL_DAYS, False, bits(0, 1, 2), ()),
        ("0 0 * * Fri-MON", ALL_DAYS, False, bits(5, 6, 0, 1), ()),
        ("0 0 * * fri-wed/3", ALL_DAYS, False, bits(5, 1), ()),
        ("0 0 * * 5/1", ALL_DAYS, False, bits(5, 6), ()),
    ],
)
def test_days_are_read_as_written(
    text: str, days: int, last: bool, weekdays: int, nth: tuple[tuple[int, int], ...]
) -> None:
    rule = compile_cron(Cron(text)).days
    assert (rule.days, rule.last, rule.weekdays, rule.nth) == (days, last, weekdays, nth)


@pytest.mark.parametrize(
    ("column", "nth"),
    [("5#3", ((5, 3),)), ("L5", ((5, 0),)), ("fri#2,7#1", ((0, 1), (5, 2))), ("l0,L7", ((0, 0),))],
)
def test_nth_and_last_weekdays_are_read_as_written(column: str, nth: tuple[tuple[int, int], ...]) -> None:
    assert compile_cron(Cron(f"0 0 * * {column}")).days.nth == nth


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "* * * *", "* * * * * *", "* * * * * * *", "* * * * * 2026",
        "5-5 * * * *", "30-10 * * * *", "*/70 * * * *", "*/60 * * * *", "*/0 * * * *", "59/15 * * * *", "0 23/1 * * *",
        "60 * * * *", "0 24 * * *", "0 0 0 * *", "0 0 32 * *", "0 0 * 0 *", "0 0 * 13 *", "0 0 * * 8", "-5 * * * *",
        "0,,5 * * * *", "0, * * * *", ", * * * *", "* - * * *", "*-5 * * * *", "*/ * * * *", "*/5/2 * * * *",
        "a * * * *", "0 0 20-5 * *", "0 0 * nov-feb *", "0 0 * * sun-sun", "0 0 * * 0-0", "0 0 * * 7-0", "0 0 * * 6/1",
        "0 0 * * 7/2", "0 0 * * */7", "? * * * *", "0 0 ?,1 * *", "0 0 * ? *",
        "0 0 15W * *", "0 0 LW * *", "0 0 w * *", "0 0 * * 5W", "0 0 L-3 * *", "0 0 28-L * *", "0 0 * * 5L",
        "0 0 * * L", "0 0 L5 * *", "0 0 * * 5#6", "0 0 * * 5#0", "0 0 * * 1-3#2", "0 0 * * *#1", "0 0 * * 8#1",
        "0 0 * * foo#1", "0 0 * * fri#2,mon", "0 0 * * L5,1-5", "0 0 * * L8", "L * * * *", "0 0 * L *",
        "R * * * *", "R(0-5) * * * *", "0 0 * * mom", "0 0 * june *",
        "0 0 30 2 *", "0 0 31 2,4,6,9,11 *", "0 0 * 2 1#5",
        "TZ=UTC 0 0 * * *", "CRON_TZ=UTC 0 0 * * *", "@reboot", "@every 5m", "@fortnightly", "@", "@daily 5",
        "\uff10 0 * * *", "\u0663 0 * * *", "0 0\n* * *", "0 0\x00* * *", "0\u00a00 * * *", "0 0 * * *\x1c",
        "*/1," * 20_000 + "* * * * *", "1" * 129,
    ],
)  # fmt: skip
def test_what_could_be_misread_is_refused_with_a_hint(text: str) -> None:
    with pytest.raises(RequestError) as refused:
        compile_cron(Cron(text), "acme:nightly")
    assert refused.value.pointer == "/cron"
    assert refused.value.hint
    assert len(str(refused.value)) < 600


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("0 0 15W * *", "nearest weekday"),
        ("0 0 * * 5L", "L5"),
        ("* * * * * *", '"seconds": true'),
        ("@every 5m", '"every": "5m"'),
        ("@daly", "@daily"),
        ("0 0 * * mom", "mon"),
        ("TZ=UTC 0 0 * * *", '"zone"'),
        ("*/60 * * * *", "write 0"),
    ],
)
def test_a_hint_says_what_to_write(text: str, words: str) -> None:
    with pytest.raises(RequestError) as refused:
        compile_cron(Cron(text))
    assert words in refused.value.hint


@pytest.mark.parametrize("text", ["5 4 31 2 *", "0 0 31 FEB,4 *"])
def test_an_expression_that_never_fires_is_quoted_as_it_was_written(text: str) -> None:
    with pytest.raises(RequestError, match=r"Day\(s\) \[31\] can never occur in month\(s\) \[2") as refused:
        compile_cron(Cron(text))
    assert refused.value.message.startswith(f"{text!r} never fires: Day")
    assert refused.value.hint == "Correct the day or the month"


@pytest.mark.parametrize("text", ["7-3 * * * *", "0 7-2 * * *", "0 0,7-2/2 * * *", "0 0 7-3 * *", "0 0 * 7-3 *"])
def test_a_range_from_seven_is_for_days_of_the_week_alone(text: str) -> None:
    with pytest.raises(RequestError) as refused:
        check_schedule(Cron(text), "acme:nightly")
    assert refused.value.pointer == "/cron"
    check_schedule(Cron("7-9 7-9 7-9 7-9 7-2"))


@pytest.mark.parametrize(
    ("text", "minute", "hour"), [("7-3 * * * *", bits(0, 1, 2, 3), -1), ("0 7-2 * * *", 1, bits(0, 1, 2))]
)
def test_one_that_was_stored_before_fires_as_it_did(text: str, minute: int, hour: int) -> None:
    spec = compile_cron(Cron(text))
    assert (spec.minute, spec.hour) == (minute, hour if hour >= 0 else (1 << 24) - 1)
    assert any("is read as 0-" in warning for warning in spec.warnings)


def test_seconds_come_first_and_only_when_asked_for() -> None:
    spec = compile_cron(Cron("5,35 0 12 * * *", seconds=True))
    assert (spec.second, spec.minute, spec.hour) == (bits(5, 35), bits(0), bits(12))
    assert compile_cron(Cron("@daily", seconds=True)).second == 1
    with pytest.raises(RequestError, match="5 fields and not 6"):
        compile_cron(Cron("0 12 * * *", seconds=True))


@pytest.mark.parametrize(
    ("text", "wild"),
    [
        ("30 2 * * *", False),
        ("*/5 2 * * *", True),
        ("0 */2 * * *", True),
        ("0-59 2 * * *", False),
        ("@hourly", True),
        ("@daily", False),
    ],
)
def test_auto_means_the_rule_of_the_kind_of_expression(text: str, wild: bool) -> None:
    spec = compile_cron(Cron(text))
    assert spec.wild is wild
    assert (spec.gap, spec.fold) == ((Gap.SKIP, Fold.BOTH) if wild else (Gap.SHIFT, Fold.FIRST))
    chosen = compile_cron(Cron(text, gap=Gap.SKIP, fold=Fold.FIRST))
    assert (chosen.gap, chosen.fold) == (Gap.SKIP, Fold.FIRST)


@pytest.mark.parametrize("text", ["0 22-2 * * *", "0 0 * * fri-mon", "*/45 * * * *", "0 0 13 * 5", "50/15 * * * *"])
def test_what_surprises_people_carries_a_warning(text: str) -> None:
    assert compile_cron(Cron(text)).warnings
    assert not compile_cron(Cron("*/15 9 * * mon-fri")).warnings


@pytest.mark.parametrize(
    ("text", "resolved"),
    [
        ("H H * * *", "51 23 * * *"),
        ("H/15 * * * *", "6-59/15 * * * *"),
        ("h H(9-17) H * *", "51 11 6 * *"),
        ("H(0-29)/10 H/6 H/7 H H", "1-29/10 5-23/6 6-28/7 9 1"),
    ],
)
def test_h_stays_what_it_was_for_a_job(text: str, resolved: str) -> None:
    assert compile_cron(Cron(text), "acme:nightly").resolved == resolved


def test_h_spreads_jobs_over_the_hour_and_needs_a_job() -> None:
    minutes = {compile_cron(Cron("H * * * *"), f"acme:job-{number}").minute for number in range(400)}
    assert len(minutes) == 60
    with pytest.raises(RequestError, match="job's id"):
        compile_cron(Cron("H * * * *"))


@pytest.mark.parametrize(
    "text", ["H(5-5) * * * *", "H(9-5) * * * *", "H(0-60) * * * *", "H/60 * * * *", "H(0-9)/10 * * * *"]
)
def test_an_empty_h_is_refused(text: str) -> None:
    with pytest.raises(RequestError):
        compile_cron(Cron(text), "acme:nightly")


@pytest.mark.parametrize(
    ("zone", "hint"),
    [
        ("europe/berlin", "Europe/Berlin"),
        ("Europe/Berln", "Europe/Berlin"),
        ("+02:00", "offset"),
        ("GMT+2", "offset"),
        ("Europe", "Europe/Rome"),
        ("../etc/passwd", "IANA"),
        ("Factory", "IANA"),
        ("", "IANA"),
        ("x" * 300, "64"),
    ],
)
def test_an_unknown_zone_is_refused_and_the_nearest_named(zone: str, hint: str) -> None:
    with pytest.raises(RequestError) as refused:
        compile_cron(Cron("0 0 * * *", zone))
    assert refused.value.pointer == "/zone"
    assert hint in refused.value.hint


def test_hostile_texts_cost_at_most_50_ms_each_and_raise_nothing_else() -> None:
    drawn = Random(20261121)
    pieces = ["*", "*/1", "/", "-", ",", "#", "L", "W", "H", "?", "R", "mon", "jan", "0-59", "1-31/2", "99999", " ",
              "(", ")", "H(0-5)/2", "2#5", "\t", "@daily", "29 2", "30 2", "\u0660", "\x00"]  # fmt: skip
    texts = ["".join(drawn.choices(pieces, k=drawn.randrange(1, 60))) for _ in range(300)]
    for _ in range(200):
        columns = [",".join(drawn.choices(pieces[:18], k=drawn.randrange(1, 12))) for _ in range(5)]
        texts.append(" ".join(columns))
    slow = []
    for text in texts:
        began = time.thread_time()
        with suppress(RequestError):
            compile_cron(Cron(text, "America/New_York"), "acme:nightly")
        if time.thread_time() - began > 0.05:
            slow.append(text)
    assert not slow
