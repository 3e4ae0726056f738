"""Timing in a job document: ``active_from``, ``active_until``, ``jitter``, ``misfire``, ``catch_up``,
``pause_after_failures``, ``max_runs``, ``calendars``, ``on_calendar`` and ``expect_within``, key by key.

``{"active_from": "2026-12-01T00:00:00Z", "jitter": "30s", "misfire": "all", "catch_up": {"max": 20}}``. What must hold:
``timing_from_document(timing_to_document(t)) == t`` for every timing that came through here. How it fails: RequestError
with the pointer of the field and what to write instead.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, NoReturn

from . import schedule as fires
from .calendar import calendar_from_text
from .calendar_document import CALENDARS_MAX, COMPILED_MAX, check_calendar_name, uses_named
from .errors import RequestError
from .ids import US_PER_S, Instant
from .job import Cron, Dates, Delay, Every, JobSpec, Once, Schedule
from .moving import FIRES_OF_YEAR_MAX
from .schedule import AT_MAX, next_fire
from .time_text import format_duration, format_rfc3339, parse_duration, parse_rfc3339
from .timetable import next_run
from .timing import JITTER_US_MAX, PLAIN, CalendarUse, CatchUpOrder, Misfire, OnCalendar, Timing

_DAY_US = 86_400 * US_PER_S

CATCH_UP_MAX = 1_000
FAILURES_MAX = 1_000
"""The most failures in a row that a job may ask to be paused after."""

MAX_RUNS_MAX = 1_000_000_000
"""The most runs that a schedule can be bound to."""

WINDOW_US_MIN = 10 * US_PER_S
WINDOW_US_MAX = 365 * _DAY_US
GAPS_LOOKED_AT = 1_000
"""Fires whose distances a jitter is measured by."""

_GAPS_FROM: Instant = 1_767_225_600 * US_PER_S
"""2026-01-01: where no other start is given, fires are counted from here, so that asking twice is answered alike."""
_GAPS_UNTIL_US = 30 * 366 * _DAY_US

EXPECT_US_MIN = 60 * US_PER_S
EXPECT_US_MAX = 30 * _DAY_US
"""As long as history is kept: what is older cannot be told from what never was."""

_YEAR_US = 366 * _DAY_US

KEYS = (
    "active_from",
    "active_until",
    "jitter",
    "misfire",
    "catch_up",
    "pause_after_failures",
    "max_runs",
    "expect_within",
    "calendars",
    "on_calendar",
)
_CATCH_UP_KEYS = ("max", "window", "order")
_JITTER_KEYS = ("window", "per_fire", "placement", "offset")
_FAILURES_HINT = f"A whole number from 1 to {FAILURES_MAX}; leave it out and failures pause nothing"
_MAX_RUNS_HINT = f"A whole number from 1 to {MAX_RUNS_MAX}; leave it out and there is no end"
_JITTER_HINT = (
    'A duration such as "30s", {"window": "30s", "per_fire": true} or {"window": "10m", "placement": "balanced"}'
)
_PLACEMENTS = ("hash", "balanced")


def timing_from_document(
    document: Mapping[str, object], schedule: Schedule, calendars: Mapping[str, CalendarUse] | None = None
) -> Timing:
    """The timing that a document's keys describe, for its schedule; without them the plain one. Raises RequestError.

    ``calendars``: those that stand, by name, as far as the document names them; None: this door looks none up.
    """
    parts: dict[str, Any] = {}
    for key, name in (("active_from", "from_at"), ("active_until", "until_at")):
        if key in document:
            parts[name] = parse_rfc3339(document[key], f"/{key}")
    if "misfire" in document:
        parts["misfire"] = _word(document["misfire"], Misfire, "/misfire")
    if "catch_up" in document:
        parts |= _catch_up(document["catch_up"])
    if "jitter" in document:
        parts |= _jitter(document["jitter"])
    if "expect_within" in document:
        parts["expect_within_us"] = parse_duration(document["expect_within"], "/expect_within")
    if "calendars" in document:
        parts["calendars"] = uses_named(document, calendars)
    if "on_calendar" in document:
        parts["on_calendar"] = _word(document["on_calendar"], OnCalendar, "/on_calendar")
    if "pause_after_failures" in document:
        parts["pause_after_failures"] = _count(document, "pause_after_failures", FAILURES_MAX, _FAILURES_HINT)
    if "max_runs" in document:
        parts["max_runs"] = _count(document, "max_runs", MAX_RUNS_MAX, _MAX_RUNS_HINT)
    timing = Timing(**parts)
    check_timing(timing, schedule)
    _check_that_it_fires(timing, schedule)
    _check_that_it_runs(timing, schedule)
    _check_gaps(timing, schedule)
    return timing


def timing_to_document(timing: Timing) -> dict[str, Any]:
    """The keys, each where it says something else than the default, and then in full."""
    document: dict[str, Any] = {}
    for key, at in (("active_from", timing.from_at), ("active_until", timing.until_at)):
        if at:
            document[key] = format_rfc3339(at)
    if timing.jitter_us:
        window = format_duration(timing.jitter_us)
        document["jitter"] = {"window": window, "per_fire": timing.jitter_per_fire}
        if timing.balanced:
            document["jitter"] |= {"placement": "balanced"} | _offset_of(timing)
    if timing.calendars:
        document["calendars"] = [use.name for use in timing.calendars]
    if timing.on_calendar is not PLAIN.on_calendar:
        document["on_calendar"] = timing.on_calendar.value
    if timing.misfire is not PLAIN.misfire:
        document["misfire"] = timing.misfire.value
    catch_up = (timing.catch_up_max, timing.catch_up_window_us, timing.catch_up_order)
    if catch_up != (PLAIN.catch_up_max, PLAIN.catch_up_window_us, PLAIN.catch_up_order):
        window = format_duration(timing.catch_up_window_us)
        order = timing.catch_up_order.value
        document["catch_up"] = {"max": timing.catch_up_max, "window": window, "order": order}
    if timing.expect_within_us:
        document["expect_within"] = format_duration(timing.expect_within_us)
    if timing.pause_after_failures:
        document["pause_after_failures"] = timing.pause_after_failures
    if timing.max_runs:
        document["max_runs"] = timing.max_runs
    return document


def check_timing(timing: Timing, schedule: Schedule) -> None:
    """Refuse a timing that cannot be kept: RequestError. Cheap: for every command, which may come by no document."""
    ends = (timing.from_at, timing.until_at)
    numbers: tuple[int, ...] = (*ends, timing.catch_up_max, timing.catch_up_window_us, timing.jitter_us)
    numbers += (timing.expect_within_us, timing.placed_us, *(use.version for use in timing.calendars))
    numbers += (timing.pause_after_failures, timing.max_runs)
    if not all(isinstance(number, int) for number in numbers):
        _refuse("/timing", "The timing holds what is no whole number", "Send the job as a document")
    for at, key in ((timing.from_at, "active_from"), (timing.until_at, "active_until")):
        if not 0 <= at < AT_MAX:
            _refuse(f"/{key}", "The instant is out of range", "From 1970 to 2199")
    if timing.until_at and timing.until_at <= timing.from_at:
        _refuse("/active_until", "It does not come after active_from", "Fires lie from the one up to the other")
    if not 1 <= timing.catch_up_max <= CATCH_UP_MAX:
        _refuse("/catch_up/max", f"{timing.catch_up_max} is out of range", f"A whole number from 1 to {CATCH_UP_MAX}")
    if not WINDOW_US_MIN <= timing.catch_up_window_us <= WINDOW_US_MAX:
        _refuse("/catch_up/window", "The window is out of range", "From 10s to 365d")
    if not 0 <= timing.jitter_us <= JITTER_US_MAX or timing.jitter_us % US_PER_S:
        longest = format_duration(JITTER_US_MAX)
        _refuse("/jitter", "The window is out of range", f"Whole seconds, from 1s to {longest}")
    within_us = timing.expect_within_us
    if within_us and (not EXPECT_US_MIN <= within_us <= EXPECT_US_MAX or within_us % US_PER_S):
        _refuse("/expect_within", "The time is out of range", "Whole seconds, from 1m to 30d")
    if isinstance(schedule, Every) and timing.jitter_us > schedule.every_us // 2:
        _refuse_wide(timing, schedule.every_us)
    _check_counts(timing)
    _check_placement(timing)
    if timing.calendars:
        _check_calendars(timing, schedule)


def _check_counts(timing: Timing) -> None:
    if not 0 <= timing.pause_after_failures <= FAILURES_MAX:
        _refuse("/pause_after_failures", f"{timing.pause_after_failures} is out of range", _FAILURES_HINT)
    if not 0 <= timing.max_runs <= MAX_RUNS_MAX:
        _refuse("/max_runs", f"{timing.max_runs} is out of range", _MAX_RUNS_HINT)


def _check_placement(timing: Timing) -> None:
    if timing.placed_us != -1 and not timing.balanced:
        _refuse("/jitter/offset", "The offset goes with a balanced placement alone", 'Add "placement": "balanced"')
    if timing.balanced and (timing.jitter_per_fire or not timing.jitter_us):
        _refuse("/jitter/placement", "A balanced placement is one offset within a window", "Give the window alone")
    if not -1 <= timing.placed_us < max(timing.jitter_us, 1) or (timing.placed_us > 0 and timing.placed_us % US_PER_S):
        _refuse("/jitter/offset", "The offset lies outside the window", "Leave it out, and one is picked")


def _check_calendars(timing: Timing, schedule: Schedule) -> None:
    """Refuse what no door of ours has looked up, and a schedule with more fires than calendars can move."""
    size = 0
    for use in timing.calendars:
        check_calendar_name(use.name, "/calendars")
        size += len(use.compiled)
        if size > COMPILED_MAX or len(timing.calendars) > CALENDARS_MAX:
            _refuse("/calendars", "The job's calendars are too large", "Use fewer or smaller ones")
        calendar_from_text(use.compiled)
    if timing.moves and isinstance(schedule, Cron | Every):
        year = _YEAR_US // schedule.every_us if isinstance(schedule, Every) else _fires_of_year(schedule)
        if year > FIRES_OF_YEAR_MAX:
            _refuse(
                "/on_calendar",
                f"next_allowed is for at most {FIRES_OF_YEAR_MAX} fires a year: this schedule has {year}",
                "Use skip: a job that fires more often than hourly fires soon enough again",
            )


def _fires_of_year(schedule: Cron) -> int:
    return fires.count_fires(schedule, 0, _GAPS_FROM, _GAPS_FROM + _YEAR_US)


def _check_that_it_fires(timing: Timing, schedule: Schedule) -> None:
    """Refuse ends that leave no fire. Intervals and delays are not looked at: where they begin is known once
    they stand."""
    if isinstance(schedule, Every | Delay) or not (timing.from_at or timing.until_at):
        return
    first = next_fire(schedule, 0, timing.from_at - 1 if timing.from_at else 0)
    if isinstance(schedule, Cron) and not timing.from_at:
        return  # it did fire before
    if first is None or (timing.until_at and first >= timing.until_at):
        key = "active_until" if timing.until_at else "active_from"
        _refuse(f"/{key}", "The schedule has no fire within its ends", "Move active_from or active_until, or drop them")


def _check_that_it_runs(timing: Timing, schedule: Schedule) -> None:
    """Refuse calendars that allow no fire at all. Intervals and delays are not looked at: where they begin is known
    later."""
    if not timing.calendars or isinstance(schedule, Every | Delay):
        return
    spec = JobSpec("", schedule, timing=timing)
    if next_run(spec, 0, max(timing.from_at, _GAPS_FROM) - 1) is None and next_run(spec, 0, 0) is None:
        _refuse("/calendars", "Its calendars allow none of its fires", "Change a calendar, or the schedule")


def _check_gaps(timing: Timing, schedule: Schedule) -> None:
    """Refuse a jitter of more than half the smallest distance of the next 1,000 fires: it would mix them up."""
    if not timing.jitter_us or isinstance(schedule, Every | Delay | Once):
        return
    if isinstance(schedule, Dates):
        times = list(schedule.times)
    else:
        after = (timing.from_at or _GAPS_FROM) - 1
        times = fires.fires_between(schedule, 0, after, after + _GAPS_UNTIL_US, GAPS_LOOKED_AT)
    smallest_us = min((later - earlier for earlier, later in pairwise(times)), default=0)
    if smallest_us and timing.jitter_us > smallest_us // 2:
        _refuse_wide(timing, smallest_us)


def _refuse_wide(timing: Timing, gap_us: int) -> NoReturn:
    most = gap_us // 2 // US_PER_S
    hint = f"At most {format_duration(most * US_PER_S)}: half of that" if most else "Leave it out"
    gap = format_duration(gap_us) if gap_us % US_PER_S == 0 else f"{gap_us / US_PER_S} s"
    _refuse("/jitter", f"{format_duration(timing.jitter_us)} is too wide for fires that are {gap} apart", hint)


def _catch_up(value: object) -> dict[str, Any]:
    given = _object(value, "/catch_up", _CATCH_UP_KEYS, 'Such as {"max": 20, "window": "6h", "order": "newest"}')
    parts: dict[str, Any] = {}
    if "max" in given:
        most = given["max"]
        if isinstance(most, bool) or not isinstance(most, int):
            _refuse("/catch_up/max", f"{_shown(most)} is not a number", f"A whole number from 1 to {CATCH_UP_MAX}")
        parts["catch_up_max"] = most
    if "window" in given:
        parts["catch_up_window_us"] = parse_duration(given["window"], "/catch_up/window")
    if "order" in given:
        parts["catch_up_order"] = _word(given["order"], CatchUpOrder, "/catch_up/order")
    return parts


def _count(document: Mapping[str, object], key: str, most: int, hint: str) -> int:
    value = document[key]
    if isinstance(value, bool) or not isinstance(value, int):
        _refuse(f"/{key}", f"{_shown(value)} is not a number", hint)
    if not 1 <= value <= most:
        _refuse(f"/{key}", f"{_shown(value)} is out of range", hint)
    return value


def _jitter(value: object) -> dict[str, Any]:
    if isinstance(value, str):
        return {"jitter_us": parse_duration(value, "/jitter")}
    given = _object(value, "/jitter", _JITTER_KEYS, _JITTER_HINT)
    if "window" not in given:
        _refuse("/jitter/window", "The jitter needs its window", _JITTER_HINT)
    per_fire = given.get("per_fire", False)
    if not isinstance(per_fire, bool):
        _refuse("/jitter/per_fire", f"{_shown(per_fire)} is not true or false", "true: each fire is moved on its own")
    window_us = parse_duration(given["window"], "/jitter/window")
    parts: dict[str, Any] = {"jitter_us": window_us, "jitter_per_fire": per_fire}
    placement = given.get("placement", "hash")
    if placement not in _PLACEMENTS:
        _refuse("/jitter/placement", f"{_shown(placement)} is not known here", f"One of {', '.join(_PLACEMENTS)}")
    parts["balanced"] = placement == "balanced"
    if given.get("offset") is not None:
        # "0s" is an offset, and no duration.
        parts["placed_us"] = 0 if given["offset"] == "0s" else parse_duration(given["offset"], "/jitter/offset")
    return parts


def _offset_of(timing: Timing) -> dict[str, str]:
    if timing.placed_us < 0:
        return {}
    return {"offset": format_duration(timing.placed_us) if timing.placed_us else "0s"}


def _word(
    value: object, words: type[Misfire | CatchUpOrder | OnCalendar], pointer: str
) -> Misfire | CatchUpOrder | OnCalendar:
    known = {word.value: word for word in words}
    if not isinstance(value, str) or value not in known:
        _refuse(pointer, f"{_shown(value)} is not known here", f"One of {', '.join(known)}")
    return known[value]


def _object(value: object, pointer: str, keys: tuple[str, ...], hint: str) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        _refuse(pointer, f"{_shown(value)} is not an object", hint)
    for key in value:
        if key not in keys:
            near = difflib.get_close_matches(str(key)[:40], keys, n=1, cutoff=0.5)
            place = str(key)[:80].replace("~", "~0").replace("/", "~1")
            known = f"Did you mean {near[0]}?" if near else f"Known: {' '.join(keys)}"
            _refuse(f"{pointer}/{place}", f"{_shown(key)} is not known", known)
    return value


def _refuse(pointer: str, message: str, hint: str) -> NoReturn:
    raise RequestError(message, pointer=pointer, hint=hint)


def _shown(value: object) -> str:
    """A foreign value inside a message: short."""
    return repr(value)[:80]
