"""The next fires of jobs with calendars and jitter, by brute force. Imports nothing of ours.

Every minute is localised, and each fire asked of the calendars' documents as people write them. ``python -m
tests.oracle.brute_calendars`` writes the page ``tests/golden/preview_calendars.txt``.
"""

import sys
import typing
from datetime import UTC, date, datetime, timedelta
from hashlib import blake2b
from pathlib import Path

from tests.oracle import calendars as walk
from tests.oracle.brute_force import fires, localise

PAGE = Path(__file__).resolve().parents[1] / "golden" / "preview_calendars.txt"
FIRES, DAYS = 8, 45
DAY, EPOCH = 1_440, datetime(1970, 1, 1, tzinfo=UTC)
WEEK = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")

HOLIDAYS = {"exclude": {"days": ["2026-12-25", "2026-12-26", {"from": "2027-01-01", "to": "2027-01-02"}]}}
WEEKENDS = {"exclude": {"weekdays": ["sat", "sun"]}}
FREEZE = {"exclude": {"periods": [{"from": "2026-12-24T16:30:00Z", "until": "2026-12-24T19:00:00Z"}]}}
TRADING = {"include": {"weekdays": ["mon", "wed", "fri"]}, "exclude": {"days": ["2026-12-28"]}}
SPRING = {"exclude": {"days": ["2026-03-28", "2026-10-24"]}}
CALENDARS = {"holidays": HOLIDAYS, "weekends": WEEKENDS, "freeze": FREEZE, "trading": TRADING, "spring": SPRING}


class Asked(typing.NamedTuple):
    """A job, and why it is here."""

    name: str
    text: str
    zone: str
    after: str
    names: tuple
    moves: bool = False
    window_s: int = 0
    per_fire: bool = False
    why: str = ""


JOBS = (
    Asked("daily", "0 9 * * *", "UTC", "2026-12-22T00:00Z", ("holidays",), why="whole days"),
    Asked("berlin", "30 0 * * *", "Europe/Berlin", "2026-12-22T00:00Z", ("holidays",), why="days of the zone, not UTC"),
    Asked("sydney", "30 8 * * *", "Australia/Sydney", "2026-12-22T00:00Z", ("holidays",), why="the same, far east"),
    Asked("both", "0 9 * * *", "UTC", "2026-12-22T00:00Z", ("holidays", "weekends"), why="two calendars meet"),
    Asked("hourly", "0 * * * *", "UTC", "2026-12-24T14:00Z", ("freeze",), why="a freeze"),
    Asked("often", "*/10 * * * *", "UTC", "2026-12-24T16:00Z", ("freeze",), why="many neighbours"),
    Asked("only", "0 9 * * *", "America/New_York", "2026-12-22T00:00Z", ("trading",), why="include and exclude"),
    Asked("weekly", "0 9 * * 5", "UTC", "2026-12-22T00:00Z", ("holidays",), True, why="moved"),
    Asked("work", "0 9 * * 1-5", "UTC", "2026-12-22T00:00Z", ("holidays", "weekends"), True, why="moved and merged"),
    Asked("month", "0 6 1 * *", "Europe/Paris", "2026-12-22T00:00Z", ("holidays", "weekends"), True, why="far"),
    Asked("late", "0 17,20 24 12 *", "UTC", "2026-12-22T00:00Z", ("freeze",), True, why="moved out of a freeze"),
    Asked("gap", "30 2 28 3 *", "Europe/Berlin", "2026-03-20T00:00Z", ("spring",), True, why="into a gap"),
    Asked("fold", "30 2 24 10 *", "Europe/Berlin", "2026-10-20T00:00Z", ("spring",), True, why="into a fold"),
    Asked("spread", "0 9 * * *", "UTC", "2026-12-22T00:00Z", ("holidays",), False, 600, why="jitter, the same for all"),
    Asked("dice", "0 * * * *", "UTC", "2026-12-24T14:00Z", ("freeze",), False, 90, True, why="jitter of each fire"),
    Asked(
        "moved", "0 9 * * 5", "Asia/Kathmandu", "2026-12-22T00:00Z", ("holidays",), True, 60, why="moved, then jitter"
    ),
)
HEAD = f"""The next {FIRES} fires of {len(JOBS)} jobs with calendars within {DAYS} days, by brute force.
Each line: local time, UTC, when it is due where jitter moves it, what a calendar did.
A line without a UTC time is no run: what its calendars skip.
"""


def _listed(days):
    for item in days:
        if isinstance(item, str):
            yield date.fromisoformat(item)
            continue
        first, last = date.fromisoformat(item["from"]), date.fromisoformat(item["to"])
        yield from (first + timedelta(days=number) for number in range((last - first).days + 1))


def _holds(side, local, utc):
    spans = [(datetime.fromisoformat(each["from"]), datetime.fromisoformat(each["until"]))
             for each in side.get("periods", ())]  # fmt: skip
    weekday, days = WEEK[local.weekday()], set(_listed(side.get("days", ())))
    return weekday in side.get("weekdays", ()) or local.date() in days or any(a <= utc < b for a, b in spans)


def blockers(names, minute, zone):
    """The calendars that block a minute, by their documents."""
    utc = EPOCH + timedelta(minutes=minute)
    local = walk.local_of(minute * 60_000_000, zone)
    found = []
    for name in names:
        include, exclude = CALENDARS[name].get("include"), CALENDARS[name].get("exclude", {})
        if _holds(exclude, local, utc) or (include is not None and not _holds(include, local, utc)):
            found.append(name)
    return found


def target(names, minute, zone):
    """Where a fire goes; None: nowhere allows it within a year."""
    if not blockers(names, minute, zone):
        return minute
    local = walk.local_of(minute * 60_000_000, zone)
    for days in range(1, 367):
        at = walk.instant_of(local + timedelta(days=days), zone)
        if at is not None and not blockers(names, at // 60_000_000, zone):
            return at // 60_000_000
    return None


def lines(asked):
    """What the page says of one job."""
    after = (datetime.fromisoformat(asked.after) - EPOCH) // timedelta(minutes=1)
    begin = after - 10 * DAY
    named = fires(asked.text, localise(asked.zone, begin, after + DAYS * DAY), begin)
    runs, skipped = {}, []
    for minute in named:
        there = target(asked.names, minute, asked.zone) if asked.moves else minute
        if there is None or (there == minute and blockers(asked.names, minute, asked.zone)):
            skipped.append(minute)
        else:
            runs.setdefault(there, []).extend([minute] if there != minute else [])
    before = after
    for run in sorted(run for run in runs if run > after)[:FIRES]:
        for group in _groups([minute for minute in skipped if before < minute < run], asked):
            yield f"{_span(group, asked.zone)}  skipped by {', '.join(_names(group, asked))}"
        yield "  ".join([*_when(run, asked), *_moved(runs[run], asked)])
        before = run


def _groups(minutes, asked):
    """Neighbours: nothing between them is free."""
    group = []
    for minute in minutes:
        if group and not all(blockers(asked.names, between, asked.zone) for between in range(group[-1], minute)):
            yield group
            group = []
        group.append(minute)
    if group:
        yield group


def _names(group, asked):
    ends = blockers(asked.names, group[0], asked.zone) + blockers(asked.names, group[-1], asked.zone)
    return [name for name in asked.names if name in ends]


def _span(group, zone):
    first, last = (f"{walk.local_of(minute * 60_000_000, zone):%a %Y-%m-%d %H:%M}" for minute in (group[0], group[-1]))
    return first if len(group) == 1 else f"{first}..{last} ({len(group)})"


def _when(minute, asked):
    local = walk.local_of(minute * 60_000_000, asked.zone)
    yield f"{local:%a %Y-%m-%d %H:%M}"
    yield f"{EPOCH + timedelta(minutes=minute):%Y-%m-%dT%H:%MZ}"
    if asked.window_s:
        at = minute * 60_000_000
        text = f"acme:{asked.name}@{at}" if asked.per_fire else f"acme:{asked.name}"
        number = int.from_bytes(blake2b(text.encode(), digest_size=8, salt=b"jitter/1").digest(), "big")
        offset = number % (asked.window_s * 1_000_000)
        yield f"due {EPOCH + timedelta(microseconds=at + offset):%H:%M:%S.%f}"


def _moved(sources, asked):
    if sources:
        yield f"moved from {_span(sources, asked.zone)} by {', '.join(_names(sources, asked))}"


def heading(number, asked):
    """What the job is."""
    what = "next_allowed" if asked.moves else "skip"
    jitter = f", jitter {asked.window_s}s{' per fire' if asked.per_fire else ''}" if asked.window_s else ""
    names = "+".join(asked.names)
    yield f"{number}. {asked.text}  {asked.zone}, {what} {names}{jitter}, from {asked.after}  ({asked.why})"


def page():
    """The golden page."""
    parts = ([*heading(number, asked), *lines(asked), ""] for number, asked in enumerate(JOBS, 1))
    return "\n".join([HEAD, *(line for part in parts for line in part)])


if __name__ == "__main__":
    sys.stdout.write(f"{PAGE.name}: {PAGE.write_text(page(), encoding='utf-8')} characters\n")
