"""iCalendar text (RFC 5545) as days and periods: the one module that imports ``icalendar`` and ``dateutil``.

Runs in a process of its own (``ics.py``), for a text of some hundred bytes can keep a recurrence rule busy for hours.
Taken are events: whole days and periods, with RRULE (daily and slower), RDATE, EXDATE, and occurrences that were
changed or cancelled. Tasks, alarms and free-busy lists are passed over. How it fails: RequestError with what cannot be
taken; whatever else the libraries raise is told by whoever started this.
"""

from __future__ import annotations

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


class _Span(NamedTuple):
    """One occurrence: local, naive for whole days."""

    start: datetime
    length: timedelta
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
    calendar = icalendar.Calendar.from_ical(data)
    events = list(calendar.walk("VEVENT"))
    if not events:
        raise RequestError("The file holds no event", hint="Export the calendar as iCalendar, with its events")
    changed = {_changed(event, floating) for event in events if event.get("RECURRENCE-ID") is not None}
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
                days.update((span.start + timedelta(number)).date() for number in range(max(span.length.days, 1)))
            elif span.length > timedelta():
                start = span.start.astimezone(UTC).replace(microsecond=0)
                periods.append((start, start + span.length))
    if not days and not periods:
        raise RequestError("No event of the file lies within the next ten years", hint="Look at its dates")
    name = str(calendar.get("X-WR-CALNAME", ""))[:200]
    return {"days": [*_joined(days)], "periods": [*map(_period, sorted(periods))], "occurrences": count, "name": name}


def _spans(event: Any, floating: tzinfo, window: _Window, changed: set[tuple[str, datetime]]) -> Iterator[_Span]:
    """The occurrences of an event within the window."""
    if str(event.get("STATUS", "")).upper() == "CANCELLED":
        return
    if event.get("DTSTART") is None:
        raise RequestError("An event has no beginning", hint="Each VEVENT needs DTSTART")
    if event.get("EXRULE") is not None:
        raise RequestError("An event has an EXRULE, which nobody writes any more", hint="Give EXDATE instead")
    first, is_whole_day = _moment(event.get("DTSTART").dt, floating)
    length = _length(event, is_whole_day=is_whole_day)
    uid = str(event.get("UID", ""))
    is_change = event.get("RECURRENCE-ID") is not None
    gone = {_moment(each.dt, floating)[0] for each in _listed(event.get("EXDATE"))}
    for start in {*_starts(event, first, floating, window)}:
        in_window = window.begin <= start.astimezone(UTC) <= window.end or (is_whole_day and _near(start, window))
        if in_window and start not in gone and (is_change or (uid, start) not in changed):
            yield _Span(start, length, is_whole_day)


def _starts(event: Any, first: datetime, floating: tzinfo, window: _Window) -> Iterator[datetime]:
    """When it begins, in its own zone: by its rules and dates."""
    yield first
    for each in _listed(event.get("RDATE")):
        begins = each.dt[0] if isinstance(each.dt, tuple) else each.dt
        yield _moment(begins, floating)[0]
    rules = event.get("RRULE")
    for rule in rules if isinstance(rules, list) else [rules] if rules is not None else []:
        yield from _recurring(rule, first, window)


def _recurring(rule: Any, first: datetime, window: _Window) -> Iterator[datetime]:
    """Local times on the clock of the first one, as RFC 5545 has it."""
    frequency = str(rule.get("FREQ", [""])[0]).upper()
    if frequency not in _FREQUENCIES:
        raise RequestError(
            f"An event recurs {frequency.lower() or 'by no known rule'}",
            hint="Daily, weekly, monthly or yearly: what recurs more often is no calendar of days and freezes",
        )
    last = window.end
    plain = icalendar.vRecur({key: value for key, value in rule.items() if key != "UNTIL"})
    for until in rule.get("UNTIL", []):
        last = min(last, _end_of(until, first))
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


def _end_of(until: date | datetime, first: datetime) -> datetime:
    if not isinstance(until, datetime):
        return datetime.combine(until, time.max, first.tzinfo).astimezone(UTC)
    return (until if until.tzinfo else until.replace(tzinfo=first.tzinfo)).astimezone(UTC)


def _moment(value: date | datetime, floating: tzinfo) -> tuple[datetime, bool]:
    """(aware, whether it is a whole day, whose midnight is UTC's then)."""
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=floating)), False
    if isinstance(value, date):
        return datetime.combine(value, time(), UTC), True
    raise RequestError("An event begins at no date and no time", hint="DTSTART is a DATE or a DATE-TIME")


def _length(event: Any, *, is_whole_day: bool) -> timedelta:
    end, duration = event.get("DTEND"), event.get("DURATION")
    if end is not None:
        start, ends = event.get("DTSTART").dt, end.dt
        if isinstance(start, datetime) != isinstance(ends, datetime):
            raise RequestError("An event begins on a day and ends at a time, or the other way", hint="Use one form")
        found: timedelta = ends - start
    else:
        found = duration.dt if duration is not None else timedelta(days=1 if is_whole_day else 0)
    if not timedelta() <= found <= AHEAD:
        raise RequestError("An event ends before it begins, or lasts more than ten years", hint="Correct its end")
    return found


def _changed(event: Any, floating: tzinfo) -> tuple[str, datetime]:
    return str(event.get("UID", "")), _moment(event.get("RECURRENCE-ID").dt, floating)[0]


def _listed(value: Any) -> Iterable[Any]:
    """The entries of EXDATE or RDATE, which may come once or several times."""
    for part in value if isinstance(value, list) else [value] if value is not None else []:
        yield from part.dts


def _near(start: datetime, window: _Window) -> bool:
    return window.begin - timedelta(days=1) <= start <= window.end


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
