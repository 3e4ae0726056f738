"""iCalendar text (RFC 5545) as days and periods: the one module that imports ``icalendar`` and ``dateutil``.

Runs in a process of its own (``ics.py``), for a text of some hundred bytes can keep a recurrence rule busy for hours.
Taken are events: whole days and periods, with RRULE (daily and slower), RDATE, EXDATE, and occurrences that were
changed or cancelled. Tasks, alarms and free-busy lists are passed over. How it fails: RequestError with what cannot be
taken; whatever else the libraries raise is told by whoever started this.

Lengths are RFC 5545's (3.3.6), but for one: an event that recurs, with DTEND in the zone of DTSTART, ends at that time
of day each time. The RFC's same exact length (3.8.5.3) would end a night's freeze an hour off when the clock changes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

# First: it makes zoneinfo read the pinned package's data, not the machine's.
from waterclock.model.zones import check_zone  # isort: skip

import icalendar
from dateutil.rrule import rrulestr

from waterclock.model.errors import RequestError

OCCURRENCES_MAX = 5_000
BACK = timedelta(days=366)
AHEAD = timedelta(days=3_660)
"""Ten years."""

_FREQUENCIES = frozenset({"DAILY", "WEEKLY", "MONTHLY", "YEARLY"})

_FOLD = re.compile(rb"(?<![\r\n])(?:\r?\n)+[ \t]")
"""Taken out of the bytes: it may stand within a name, and within a character of several bytes (RFC 5545, 3.1)."""

_OF_HOURS = re.compile(rb'^DURATION(?=(?:;(?:"[^"\r\n]*"|[^":\r\n])*)?:\+?PT)', re.IGNORECASE | re.MULTILINE)
_EXACT = "X-WATERCLOCK-EXACT"
"""Marks a DURATION without days: icalendar makes PT24H and P1D the same, which they are not when the clock changes."""


_Changed = dict[str, list[date | datetime]]
"""RECURRENCE-ID by UID, as written: which moment or day it is depends on the event that it is an occurrence of."""


class _Length(NamedTuple):
    """``nominal``: on the clock of the zone, added first; ``exact``: of time that passes."""

    nominal: timedelta
    exact: timedelta


class _Span(NamedTuple):
    """One occurrence, in UTC; a whole day begins at UTC's midnight."""

    start: datetime
    end: datetime
    is_whole_day: bool


class _Window(NamedTuple):
    begin: datetime
    end: datetime


def read_events(data: bytes, *, zone: str, now: datetime) -> dict[str, Any]:
    """``{"days": [...], "periods": [...], "occurrences": n, "name": "..."}`` from a year before ``now`` to ten after.

    ``zone``: of times that name none. Raises RequestError, and what the libraries raise.
    """
    check_zone(zone)
    floating = ZoneInfo(zone)
    unfolded = _FOLD.sub(b"", data)
    calendar = icalendar.Calendar.from_ical(_OF_HOURS.sub(b"DURATION;" + _EXACT.encode() + b"=1", unfolded))
    events = list(calendar.walk("VEVENT"))
    if not events:
        raise RequestError("The file holds no event", hint="Export the calendar as iCalendar, with its events")
    changed = _changed(events)
    window = _Window(now.astimezone(UTC) - BACK, now.astimezone(UTC) + AHEAD)
    days: set[date] = set()
    periods: list[tuple[datetime, datetime]] = []
    count = 0
    for event in events:
        for span in _spans(event, floating, window, changed):
            count += 1
            if count > OCCURRENCES_MAX:
                raise RequestError(
                    f"The file has more than {OCCURRENCES_MAX} occurrences within ten years",
                    hint="Leave out what recurs so often, or give it as weekdays or periods",
                )
            if span.is_whole_day:
                number_of = max((span.end - span.start).days, 1)
                days.update((span.start + timedelta(number)).date() for number in range(number_of))
            elif span.end > span.start:
                periods.append((span.start, span.end))
    if not days and not periods:
        raise RequestError("No event of the file lies within the next ten years", hint="Look at its dates")
    name = str(calendar.get("X-WR-CALNAME", ""))[:200]
    return {"days": [*_joined(days)], "periods": [*map(_period, sorted(periods))], "occurrences": count, "name": name}


def _spans(event: Any, floating: tzinfo, window: _Window, changed: _Changed) -> Iterator[_Span]:
    """The occurrences of an event of which a part lies within the window."""
    if str(event.get("STATUS", "")).upper() == "CANCELLED":
        return
    if event.get("DTSTART") is None:
        raise RequestError("An event has no beginning", hint="Each VEVENT needs DTSTART")
    if event.get("EXRULE") is not None:
        raise RequestError("An event has an EXRULE, which nobody writes any more", hint="Give EXDATE instead")
    _check_zone_of(event.get("DTSTART"))
    first, is_whole_day = _moment(_written(event.get("DTSTART")), floating)
    length = _length(event, floating, is_whole_day=is_whole_day)
    named = [*_listed(event.get("EXDATE")), *_replaced(event, changed, is_whole_day=is_whole_day)]
    gone, gone_days = _gone(named, floating, is_whole_day=is_whole_day)
    for local in {*_starts(event, first, floating, window, is_whole_day=is_whole_day)}:
        start = local.astimezone(UTC)
        if start > window.end or start in gone or local.astimezone(first.tzinfo).date() in gone_days:
            continue
        end = _end(local, length)
        is_near = _reaches_into(window, start, end) if is_whole_day else end >= window.begin
        if is_near:
            yield _Span(start, end, is_whole_day)


def _starts(
    event: Any, first: datetime, floating: tzinfo, window: _Window, *, is_whole_day: bool
) -> Iterator[datetime]:
    """When it begins, in its own zone: by its rules and dates."""
    yield first
    for value in _listed(event.get("RDATE")):
        if isinstance(value, tuple):
            raise RequestError(
                "An event has an RDATE with a length of its own (VALUE=PERIOD)", hint="Give that one as another event"
            )
        yield _added(value, first, floating, is_whole_day=is_whole_day)
    rules = event.get("RRULE")
    for rule in rules if isinstance(rules, list) else [rules] if rules is not None else []:
        ends = [_end_of(until, first, floating, is_whole_day=is_whole_day) for until in rule.get("UNTIL", [])]
        yield from _recurring(rule, first, window, min([window.end, *ends]))


def _added(value: date | datetime, first: datetime, floating: tzinfo, *, is_whole_day: bool) -> datetime:
    """Where an RDATE begins: a day where the event is of whole days, at the event's time of day where it is not."""
    if is_whole_day:
        return _moment(_day_of(value, floating), floating)[0]
    if not isinstance(value, datetime):
        return datetime.combine(value, first.time(), first.tzinfo)
    return _moment(value, floating)[0]


def _recurring(rule: Any, first: datetime, window: _Window, last: datetime) -> Iterator[datetime]:
    """Local times on the clock of the first one, as RFC 5545 has it."""
    frequency = str(rule.get("FREQ", [""])[0]).upper()
    if frequency not in _FREQUENCIES:
        raise RequestError(
            f"An event recurs {frequency.lower() or 'by no known rule'}",
            hint="Daily, weekly, monthly or yearly: what recurs more often is no calendar of days and freezes",
        )
    plain = icalendar.vRecur({key: value for key, value in rule.items() if key != "UNTIL"})
    zone = first.tzinfo
    count = 0
    text = plain.to_ical().decode()  # type: ignore[no-untyped-call]  # icalendar types it in part
    for local in rrulestr(text, dtstart=first.replace(tzinfo=None)):
        start = local.replace(tzinfo=zone)
        if start.astimezone(UTC) > last:
            return
        count += start.astimezone(UTC) >= window.begin
        if count > OCCURRENCES_MAX:
            raise RequestError(f"An event recurs more than {OCCURRENCES_MAX} times", hint="Give weekdays or periods")
        yield start


def _end_of(until: date | datetime, first: datetime, floating: tzinfo, *, is_whole_day: bool) -> datetime:
    if is_whole_day and isinstance(until, datetime):
        until = _last_day(until, floating)
    if not isinstance(until, datetime):
        return datetime.combine(until, time.max, first.tzinfo).astimezone(UTC)
    return (until if until.tzinfo else until.replace(tzinfo=first.tzinfo)).astimezone(UTC)


def _last_day(until: datetime, floating: tzinfo) -> date:
    """Of whole days that recur until a time: some write their zone's midnight, or the end of its day, in UTC."""
    if until.tzinfo is None or not _is_near(until):
        return until.date()
    day = until.astimezone(floating).date()
    bounds = (_begins(day, floating), _begins(day + timedelta(1), floating) - timedelta(seconds=1))
    return day if until in bounds else until.date()


def _is_near(moment: datetime) -> bool:
    """Whether other clocks can show it: "for ever" is written as the last second that there is."""
    return 1_900 < moment.year < 9_000


def _begins(day: date, zone: tzinfo) -> datetime:
    """In UTC; of a day whose midnight the clock skips, where it goes on."""
    return datetime.combine(day, time(), zone).astimezone(UTC)


def _moment(value: date | datetime, floating: tzinfo) -> tuple[datetime, bool]:
    """(aware, whether it is a whole day, whose midnight is UTC's then)."""
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=floating)), False
    if isinstance(value, date):
        return datetime.combine(value, time(), UTC), True
    raise RequestError("An event begins at no date and no time", hint="DTSTART is a DATE or a DATE-TIME")


def _length(event: Any, floating: tzinfo, *, is_whole_day: bool) -> _Length:
    end, duration = event.get("DTEND"), event.get("DURATION")
    if end is not None:
        _check_zone_of(end)
        (start, is_day), (ends, ends_on_day) = (_moment(_written(each), floating) for each in (event["DTSTART"], end))
        if is_day != ends_on_day:
            raise RequestError("An event begins on a day and ends at a time, or the other way", hint="Use one form")
        between = ends - start  # of two clocks in UTC, of one clock on it: then so is the length
        found = _Length(between, timedelta()) if start.tzinfo is ends.tzinfo else _Length(timedelta(), between)
    elif duration is not None:
        days = timedelta(0 if _EXACT in duration.params else duration.dt.days)
        found = _Length(days, duration.dt - days)
    else:
        found = _Length(timedelta(days=1 if is_whole_day else 0), timedelta())
    if not timedelta() <= found.nominal + found.exact <= AHEAD:
        raise RequestError("An event ends before it begins, or lasts more than ten years", hint="Correct its end")
    return found


def _end(start: datetime, length: _Length) -> datetime:
    begins = start.astimezone(UTC)
    end = (start + length.nominal).astimezone(UTC) + length.exact
    # Of a time that the clock skips, which means one after the change, the end on the clock may lie before it.
    return end if end > begins else begins + length.nominal + length.exact


def _gone(named: list[Any], floating: tzinfo, *, is_whole_day: bool) -> tuple[set[datetime], set[date]]:
    """What EXDATE takes away, and other events stand for by RECURRENCE-ID.

    Moments in UTC, and days on the event's clock, which some name of timed events too.
    """
    moments, days = set(), set()
    for value in named:
        if isinstance(value, datetime) and not is_whole_day:
            moments.add(_moment(value, floating)[0].astimezone(UTC))
        else:
            days.add(_day_of(value, floating))
    return moments, days


def _day_of(value: date | datetime, floating: tzinfo) -> date:
    """The day of a time in EXDATE or RDATE beside whole days, as Exchange gives them: that on the time's own clock.

    Of UTC that clock is a guess: some write the midnight of UTC for a day, some that of the zone they are in.
    """
    if not isinstance(value, datetime):
        return value
    if value.time() == time() or str(value.tzinfo) != "UTC":
        return value.date()
    day = value.astimezone(floating).date() if _is_near(value) else value.date()
    if not _is_near(value) or _begins(day, floating) != value:
        raise RequestError(
            f"A time beside whole days, {value:%Y-%m-%dT%H:%M:%SZ}, is no midnight in UTC nor in {floating}",
            hint="Give it as VALUE=DATE, or give the zone in which it is midnight",
        )
    return day


def _check_zone_of(value: Any) -> None:
    """Raises RequestError for a time in a zone that is not known, which icalendar gives as one that names none."""
    named = str(getattr(value, "params", {}).get("TZID", ""))
    for each in getattr(value, "dts", ()) if named else ():
        moment = each.dt[0] if isinstance(each.dt, tuple) else each.dt
        if isinstance(moment, datetime) and moment.tzinfo is None:
            raise RequestError(
                f"An event is in the zone {named[:60]!r}, which is not known",
                hint="Export it with its VTIMEZONE, or name an IANA zone such as Europe/Berlin",
            )


def _changed(events: list[Any]) -> _Changed:
    """The occurrences that events of their own stand for."""
    found: _Changed = {}
    for event in events:
        which = event.get("RECURRENCE-ID")
        if which is None:
            continue
        _check_zone_of(which)
        if "RANGE" in which.params:
            raise RequestError(
                "An event changes all that follow as well (RANGE=THISANDFUTURE)",
                hint="End the old one with UNTIL, and give what follows as another event",
            )
        found.setdefault(str(event.get("UID", "")), []).append(_written(which))
    return found


def _replaced(event: Any, changed: _Changed, *, is_whole_day: bool) -> list[date | datetime]:
    """The occurrences of an event for which others stand."""
    if event.get("RECURRENCE-ID") is not None:
        return []
    uid = str(event.get("UID", ""))
    named = changed.get(uid, [])
    # Without a UID nothing but the form tells a change of these days from one of another event's times.
    return named if uid else [each for each in named if isinstance(each, datetime) != is_whole_day]


def _listed(value: Any) -> Iterable[Any]:
    """The entries of EXDATE or RDATE, which may come once or several times."""
    for part in value if isinstance(value, list) else [value] if value is not None else []:
        _check_zone_of(part)
        for each in part.dts:
            yield _written(each, part.params)


def _written(value: Any, params: Any = None) -> Any:
    """A value as the file has it: of days with a TZID, which says nothing about them, icalendar makes midnights.

    ``params``: of the list that it stands in.
    """
    is_of_days = str((value.params if params is None else params).get("VALUE", "")).upper() == "DATE"
    return value.dt.date() if is_of_days and isinstance(value.dt, datetime) else value.dt


def _reaches_into(window: _Window, start: datetime, end: datetime) -> bool:
    """Of whole days, which are no moments: whether the last begins at most a day before the window."""
    return max(start, end - timedelta(days=1)) >= window.begin - timedelta(days=1)


def _joined(days: set[date]) -> Iterator[Any]:
    """Days in a row as one range."""
    rest = sorted(days)
    while rest:
        count = 1
        while count < len(rest) and rest[count] == rest[0] + timedelta(days=count):
            count += 1
        first, last = rest[0].isoformat(), rest[count - 1].isoformat()
        yield first if count == 1 else {"from": first, "to": last}
        rest = rest[count:]


def _period(period: tuple[datetime, datetime]) -> dict[str, str]:
    start, end = (each.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ") for each in period)
    return {"from": start, "until": end}
