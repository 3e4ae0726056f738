"""Fire times against brute force: around transitions of all kinds of zones, and over any text of the grammar."""

from __future__ import annotations

import importlib.util
import zoneinfo
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from importlib import resources
from itertools import islice, pairwise, product
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from waterclock.model.cron import CronSpec, compile_cron
from waterclock.model.errors import RequestError
from waterclock.model.ids import US_PER_MINUTE
from waterclock.model.job import Cron, Fold, Gap
from waterclock.model.zones import known_zones

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DAY = 1_440
ODD_ZONES = [
    "Australia/Lord_Howe", "Antarctica/Troll", "Antarctica/Casey", "Pacific/Apia", "America/Caracas", "Asia/Pyongyang",
    "Asia/Colombo", "America/St_Johns", "Pacific/Chatham", "America/Havana", "America/New_York", "Europe/Berlin",
    "Africa/Casablanca", "America/Goose_Bay",
]  # fmt: skip
EXPRESSIONS = [
    "* * * * *", "*/45 * * * *", "30 * * * *", "0 */2 * * *", "*/30 2 * * *", "30 2 * * *", "15,45 2 * * *",
    "30 1 * * *", "0 0 * * *", "1 0 * * *", "59 23 * * *", "0 3 * * *", "5 0-4/2 * * *", "0 22-2 * * *", "30 2 * * 0",
    "0 0 l * *", "15 1 1,15 * fri", "30 1,2,3 * mar,oct,nov sun#1,sun#2", "10 2 * * l0", "0,30 0,23 * * sat-mon",
]  # fmt: skip
POLICIES = [(Gap.AUTO, Fold.AUTO), (Gap.SHIFT, Fold.BOTH), (Gap.SKIP, Fold.FIRST)]


def _load_oracle() -> ModuleType:
    """By its path: the judge belongs to no package, and imports nothing of ours."""
    path = Path(__file__).parents[1] / "oracle" / "brute_force.py"
    spec = importlib.util.spec_from_file_location("brute_force", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


oracle = _load_oracle()


def walked(spec: CronSpec, begin: int, end: int) -> list[int]:
    """The fires in the UTC minutes [begin, end), as minutes."""
    found: list[int] = []
    fire = spec.next(begin * US_PER_MINUTE - 1)
    while fire is not None and fire < end * US_PER_MINUTE:
        assert fire % US_PER_MINUTE == 0
        assert not found or fire // US_PER_MINUTE > found[-1]
        found.append(fire // US_PER_MINUTE)
        fire = spec.next(fire)
    return found


def slice_of_zones() -> list[str]:
    """The odd ones, and every 20th of the zone files that differ."""
    by_content = {(resources.files("tzdata.zoneinfo") / name).read_bytes(): name for name in sorted(known_zones())}
    return sorted({*ODD_ZONES, *list(by_content.values())[::20]})


def transition_days(zone: str) -> list[int]:
    """UTC minutes at most a day behind each change of offset, 2000-2037."""
    tz = zoneinfo.ZoneInfo(zone)
    days = [datetime(2000, 1, 1, tzinfo=UTC) + timedelta(days=number) for number in range(38 * 365 + 10)]
    offsets = [(day, day.astimezone(tz).utcoffset()) for day in days]
    return [(day - EPOCH) // timedelta(minutes=1) for (_, old), (day, new) in pairwise(offsets) if old != new]


def test_the_walk_agrees_with_brute_force_around_transitions() -> None:
    changes = [(zone, minute) for zone in slice_of_zones() for minute in transition_days(zone)]
    # A few: the check `oracle` looks at all changes of all zones, and its short form at a twentieth of them.
    taken = [changes[number * len(changes) // 100] for number in range(100)]
    compared = 0
    for number, (zone, minute) in enumerate(taken):
        begin, end = minute - DAY - 300, minute + 400
        window = oracle.localise(zone, begin, end)
        for place, text in enumerate(EXPRESSIONS):
            gap, fold = POLICIES[(number + place) % len(POLICIES)]
            spec = compile_cron(Cron(text, zone, gap=gap, fold=fold))
            judged = oracle.fires(text, window, begin, gap.value, fold.value)
            assert walked(spec, begin, end) == judged, (zone, text, gap, fold, begin)
            after, until = begin * US_PER_MINUTE - 1, end * US_PER_MINUTE - 1
            assert spec.count(after, until) == len(judged), (zone, text, gap, fold, begin)
            assert spec.last(after, until) == (judged[-1] * US_PER_MINUTE if judged else None)
            compared += len(judged)
    assert compared > 20_000


def _column(low: int, high: int, extra: tuple[str, ...] = ()) -> st.SearchStrategy[str]:
    numbers = st.integers(low, high)
    pairs = st.tuples(numbers, numbers).filter(lambda pair: pair[0] < pair[1])
    steps = st.integers(1, high - low)
    item = st.one_of(
        numbers.map(str),
        pairs.map(lambda pair: f"{pair[0]}-{pair[1]}"),
        st.tuples(pairs, steps).map(lambda both: f"{both[0][0]}-{both[0][1]}/{both[1]}"),
        st.tuples(st.integers(low, high - 1), steps).map(lambda both: f"{both[0]}/{both[1]}"),
        steps.map(lambda step: f"*/{step}"),
        st.sampled_from(("*", *extra)),
    )
    return st.one_of(st.just("*"), item, st.lists(item, min_size=2, max_size=4).map(",".join))


_WRAPPED_HOURS = ("22-2", "20-3/2", "23-1")
_WEEKDAYS = st.one_of(
    _column(0, 6, ("mon-fri", "fri-mon", "Sat-TUE/3", "7", "5-7")), st.sampled_from(["l5", "2#1,mon#5"])
)
TEXTS = st.tuples(
    _column(0, 59), _column(0, 23, _WRAPPED_HOURS), _column(1, 31, ("l",)), _column(1, 12, ("jan", "mar-NOV/4")),
    _WEEKDAYS,
).map(" ".join)  # fmt: skip


def compiled(cron: Cron) -> CronSpec:
    """The compiled schedule; a text that never fires, or is too long, is not what is under test."""
    try:
        return compile_cron(cron)
    except RequestError as refused:
        assume(not any(word in refused.message for word in ("9 years", "can never occur", "characters")))
        raise


@settings(max_examples=150, deadline=None)
@given(TEXTS, st.sampled_from(ODD_ZONES), st.integers(0, 40), st.sampled_from(POLICIES))
def test_any_text_agrees_with_brute_force(text: str, zone: str, number: int, policy: tuple[Gap, Fold]) -> None:
    days = transition_days_of(zone)
    begin = days[number % len(days)] - DAY - 400
    spec = compiled(Cron(text, zone, gap=policy[0], fold=policy[1]))
    window = oracle.localise(zone, begin, begin + DAY + 800)
    judged = oracle.fires(text, window, begin, policy[0].value, policy[1].value)
    assert walked(spec, begin, begin + DAY + 800) == judged


_days_of: dict[str, list[int]] = {}


def transition_days_of(zone: str) -> list[int]:
    if zone not in _days_of:
        _days_of[zone] = transition_days(zone)
    return _days_of[zone]


@settings(max_examples=150, deadline=None)
@given(TEXTS, st.dates(date(1996, 1, 1), date(2090, 1, 1)))
def test_the_next_fifty_rise_match_and_miss_none(text: str, start: date) -> None:
    spec = compiled(Cron(text))
    minutes, hours, days, months, weekdays = text.lower().split()
    on_day: Callable[[date], bool] = oracle.day_test(days, months, weekdays)
    times = list(product(sorted(oracle.values(hours, 0, 23)), sorted(oracle.values(minutes, 0, 59))))
    dates = (start + timedelta(days=number) for number in range(30 * 366))
    expected = (
        ((day - EPOCH.date()).days * DAY + hour * 60 + minute) * US_PER_MINUTE
        for day in dates
        if on_day(day)
        for hour, minute in times
    )
    fire: int | None = (start - EPOCH.date()).days * DAY * US_PER_MINUTE - 1
    for judged in islice(expected, 50):
        assert fire is not None
        fire = spec.next(fire)
        assert fire == judged


@settings(max_examples=150, deadline=None)
@given(TEXTS, st.sampled_from(ODD_ZONES), st.integers(0, 40), st.integers(-3 * DAY, 3 * DAY), st.data())
def test_next_is_the_same_from_anywhere_before_it(
    text: str, zone: str, number: int, shift: int, data: st.DataObject
) -> None:
    days = transition_days_of(zone)
    after = (days[number % len(days)] + shift) * US_PER_MINUTE
    spec = compiled(Cron(text, zone))
    fire = spec.next(after)
    assume(fire is not None)
    assert fire is not None
    between = data.draw(st.integers(after, fire - 1))
    assert spec.next(between) == fire
    assert spec.count(after, fire - 1) == 0
    assert spec.count(after, fire) == spec.count(between, fire) == 1
    assert spec.last(after, fire) == fire
    assert spec.last(between, fire - 1) is None


@settings(max_examples=100, deadline=None)
@given(_column(0, 59), st.tuples(TEXTS, st.sampled_from(ODD_ZONES)), st.integers(0, 40), st.integers(0, 3 * 86_400))
def test_counting_seconds_agrees_with_walking_them(
    second: str, where: tuple[str, str], number: int, begin_s: int
) -> None:
    text, zone = where
    days = transition_days_of(zone)
    spec = compiled(Cron(f"{second} {text}", zone, seconds=True))
    after = (days[number % len(days)] - 2 * DAY) * US_PER_MINUTE + begin_s * 1_000_000
    fires = []
    fire = spec.next(after)
    while fire is not None and len(fires) < 80:
        fires.append(fire)
        assert spec.count(after, fire) == len(fires)
        assert spec.last(after, fire) == fire
        fire = spec.next(fire)
    assert fires == sorted(set(fires))


@pytest.mark.parametrize("planted", ["both in a fold", "nothing in a gap"])
def test_the_judge_would_notice_a_broken_rule(planted: str) -> None:
    zone, text = "America/New_York", {"both in a fold": "30 1 * * *", "nothing in a gap": "30 2 * * *"}[planted]
    broken = {"fold": Fold.BOTH} if planted == "both in a fold" else {"gap": Gap.SKIP}
    day = datetime(2026, 11, 1, tzinfo=UTC) if planted == "both in a fold" else datetime(2026, 3, 8, tzinfo=UTC)
    begin = (day - EPOCH) // timedelta(minutes=1)
    judged = oracle.fires(text, oracle.localise(zone, begin, begin + DAY), begin)
    assert len(judged) == 1
    assert walked(compile_cron(Cron(text, zone, **broken)), begin, begin + DAY) != judged
