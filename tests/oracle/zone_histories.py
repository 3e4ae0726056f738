"""Which zones differ between two years, and when their clocks change. Imports nothing of ours.

Two names with the same offsets at every instant of those years cannot fire differently: one of them stands for all.
(What else zone data knows, such as which half of the year is called summer time, moves no fire.)
"""

import zoneinfo
from datetime import UTC, datetime, timedelta
from importlib import resources
from itertools import pairwise

zoneinfo.reset_tzpath(to=())
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
PROBE = 3 * 1_440
"""Minutes between two looks at a zone. No zone changed twice within six days since 2000."""


def offset(tz, minute):
    """Minutes east of UTC."""
    return (EPOCH + timedelta(minutes=minute)).astimezone(tz).utcoffset() // timedelta(minutes=1)


def kind(name, minute):
    """By how many minutes the clock is put forward at a change, and at which minute of the local day it was."""
    tz = zoneinfo.ZoneInfo(name)
    before = offset(tz, minute - 1)
    return offset(tz, minute) - before, (minute + before) % 1_440


def changes(name, first_year, last_year):
    """(offset at the start, ((UTC minute of a change, offset since), ...)); found by halving."""
    tz = zoneinfo.ZoneInfo(name)
    begin, end = ((datetime(year, 1, 1, tzinfo=UTC) - EPOCH) // timedelta(minutes=1)
                  for year in (first_year, last_year + 1))  # fmt: skip
    probes = [(minute, offset(tz, minute)) for minute in range(begin, end + PROBE, PROBE)]
    found = []
    for (before, old), (after, new) in pairwise(probes):
        if old == new:
            continue
        low, high = before, after
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if offset(tz, middle) != old else (middle, high)
        found.append((high, new))
    return probes[0][1], tuple(found)


def files():
    """One name for each file of zone data that differs; sorted. Cheap, and a few files tell the same of given years."""
    names = sorted(zoneinfo.available_timezones() - {"Factory"})
    return sorted({(resources.files("tzdata.zoneinfo") / name).read_bytes(): name for name in names}.values())


def histories(names, first_year, last_year):
    """One of the names for each history that differs, with the UTC minutes of its changes; sorted."""
    by_history = {}
    for name in names:
        by_history.setdefault(changes(name, first_year, last_year), name)
    return sorted((name, [minute for minute, _ in found]) for (_, found), name in by_history.items())
