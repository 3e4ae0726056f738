"""The judge of fire times: step every UTC minute, localise it, test the field sets. Imports nothing of ours."""

import zoneinfo
from datetime import UTC, datetime, timedelta
from itertools import pairwise

zoneinfo.reset_tzpath(to=())
WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
NAMES = {name: number for number, name in enumerate(WEEKDAYS)} | {name: number for number, name in enumerate(MONTHS, 1)}


def values(column, low, high):
    """The values of a column without L and #; a range may wrap, 7 is Sunday."""
    found = set()
    for item in column.split(","):
        body, _, step = item.partition("/")
        first, _, last = body.partition("-")
        begin = low if first in "*?" else int(NAMES.get(first, first))
        end = int(NAMES.get(last, last)) if last else high if step or first in "*?" else begin
        span = range(begin, end + 1) if begin <= end else [*range(begin, high + 1), *range(low, end + 1)]
        found |= {0 if high == 6 and value == 7 else value for value in list(span)[:: int(step or 1)]}
    return found


def day_test(dom, month, dow):
    """A function of a date: day-of-month or day-of-week where both are restricted, and the month."""
    months = values(month, 1, 12)
    named = [item for item in dom.split(",") if item != "l"]
    days = values(",".join(named), 1, 31) if named else set()
    last = "l" in dom.split(",")
    nths = [item for item in dow.split(",") if "#" in item or item[0] == "l"]
    weekdays = set() if nths else values(dow, 0, 6)
    any_day, any_weekday = len(days) == 31, len(weekdays) == 7

    def on_weekday(at):
        for item in nths:
            day, _, nth = (item[1:], "", "l") if item[0] == "l" else item.partition("#")
            right_day = at.isoweekday() % 7 == int(NAMES.get(day, day)) % 7
            if right_day and ((at + timedelta(7)).month != at.month if nth == "l" else (at.day + 6) // 7 == int(nth)):
                return True
        return at.isoweekday() % 7 in weekdays

    def test(at):
        by_day = at.day in days or (last and (at + timedelta(1)).month != at.month)
        both = by_day and on_weekday(at) if any_day or any_weekday else by_day or on_weekday(at)
        return at.month in months and both

    return test


def localise(zone, begin, end):
    """(local time, whether it comes the second time, UTC offset in minutes) of every UTC minute of [begin - 1, end)."""
    tz, epoch = zoneinfo.ZoneInfo(zone), datetime(1970, 1, 1, tzinfo=UTC)
    found = []
    for minute in range(begin - 1, end):
        at = (epoch + timedelta(minutes=minute)).astimezone(tz)
        found.append((at.replace(tzinfo=None, fold=0), at.fold == 1, at.utcoffset() // timedelta(minutes=1)))
    return found


def nominal(text, window, begin):
    """What the five fields name in ``window`` (made by localise from ``begin``), before any rule about clock changes.

    The UTC minutes whose local time matches, each with whether that time comes the second time; and for each gap its
    UTC minute, its length in minutes, and the local times inside that match and do not exist.
    """
    columns = text.lower().split()
    minutes, hours, on_day, known = values(columns[0], 0, 59), values(columns[1], 0, 23), day_test(*columns[2:]), {}

    def matches(at):
        if at.minute not in minutes or at.hour not in hours:
            return False
        return known[at.date()] if at.date() in known else known.setdefault(at.date(), on_day(at))

    named, gaps = [], []
    for minute, ((_, _, before), (local, second_time, offset)) in enumerate(pairwise(window), begin):
        if local.minute in minutes and matches(local):
            named.append((minute, second_time))
        if offset > before:
            inside = (local - timedelta(minutes=back) for back in range(offset - before, 0, -1))
            gaps.append((minute, offset - before, [at for at in inside if matches(at)]))
    return named, gaps


def rules(text, gap="auto", fold="auto"):
    """(whether times in a gap move to its end, whether a repeated time counts once): time.md, section 5."""
    columns = text.split()
    wild = columns[0][0] == "*" or columns[1][0] == "*"
    return gap == "shift" or (gap == "auto" and not wild), fold == "first" or (fold == "auto" and not wild)


def fires(text, window, begin, gap="auto", fold="auto"):
    """The UTC minutes of ``window`` at which the five fields fire."""
    return ruled(*nominal(text, window, begin), *rules(text, gap, fold))


def ruled(named, gaps, moves, once):
    """The UTC minutes that are left and added by the two rules."""
    found = {minute for minute, second_time in named if not (second_time and once)}
    return sorted(found | {minute for minute, length, inside in gaps if moves and length < 180 and inside})
