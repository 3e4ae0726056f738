"""Time zones as integer lines: where a zone's UTC offset is constant, local time is UTC minutes plus a number.

The evaluator of cron schedules walks these spans and never touches a local ``datetime``, whose arithmetic and
comparisons lie around a transition.

What must hold: zone data comes from the pinned ``tzdata`` package and never from the machine (two machines would
disagree about a fire time, and so about a run's identity); a name is checked against the list of known names and never
tried out, because ``ZoneInfo(key)`` answers bad names with four different exceptions. Spans are exact from 1973 on
(every offset is a whole number of minutes since then).

How it fails: an unknown name is a RequestError with the nearest known name; nothing else here raises.
"""

from __future__ import annotations

import difflib
import zoneinfo
from bisect import bisect_right
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import NamedTuple

import tzdata  # type: ignore[import-untyped]  # a package of data: it ships no types, one text is read from it

from .errors import RequestError

# First of all, and before any zone is read: the package's data, not the machine's.
zoneinfo.reset_tzpath(to=())
zoneinfo.ZoneInfo.clear_cache()

TZDATA_VERSION: str = tzdata.IANA_VERSION
"""The version of the zone data in use, such as ``2026f``."""

ZONE_MAX = 64
"""Characters in a zone's name, checked before anything else looks at it."""

TIME_END = 4_100_000_000
"""UTC minute (in the year 9765) at which searches stop: ``datetime`` ends shortly after it."""

_CHUNK_BITS = 21
_DAY = 1_440
_LOOK_BACK = 7 * _DAY
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Span(NamedTuple):
    """UTC minutes [start, end) with one ``offset`` (minutes east of UTC). ``before``: the offset just before start.

    ``offset > before`` is a gap in local time at ``start``, ``offset < before`` a fold. Long spans are cut in pieces;
    a piece that begins without a transition has ``before == offset``.
    """

    start: int
    end: int
    offset: int
    before: int


class _Chunk(NamedTuple):
    starts: tuple[int, ...]
    spans: tuple[Span, ...]


@lru_cache(maxsize=1)
def known_zones() -> frozenset[str]:
    """Every zone name that a schedule may use."""
    return frozenset(zoneinfo.available_timezones() - {"Factory"})


def check_zone(name: str) -> None:
    """Accept a known IANA name, in its exact spelling. Raises RequestError (pointer ``/zone``) with the nearest one."""
    if len(name) <= ZONE_MAX and name in known_zones():
        return
    # Cut to one more than may be: what is kept of names that anybody may send must not be as long as they are.
    raise RequestError(f"{name[:ZONE_MAX]!r} is not a time zone", pointer="/zone", hint=_hint(name[: ZONE_MAX + 1]))


@lru_cache(maxsize=1_024)
def _hint(name: str) -> str:
    if len(name) > ZONE_MAX:
        return f"A zone has at most {ZONE_MAX} characters, such as Europe/Berlin"
    if name[:1] in {"+", "-"} or name[:3].upper() in {"UTC", "GMT"}:
        return "An offset knows no summer time: name a place, such as Europe/Berlin, or UTC"
    by_lower = {known.lower(): known for known in sorted(known_zones())}
    near = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return f"Did you mean {by_lower[near[0]]}?" if near else "Use an IANA name, such as Europe/Berlin or UTC"


def _offset(zone: zoneinfo.ZoneInfo, minute: int) -> int:
    local = (_EPOCH + timedelta(minutes=minute)).astimezone(zone)
    return (local.utcoffset() or timedelta()) // timedelta(minutes=1)


def _transition(zone: zoneinfo.ZoneInfo, before: int, after: int) -> int:
    """The first minute in (before, after] with the offset of ``after``. Bound: 11 steps for a day."""
    target = _offset(zone, after)
    while after - before > 1:
        middle = (before + after) // 2
        if _offset(zone, middle) == target:
            after = middle
        else:
            before = middle
    return after


@lru_cache(maxsize=8_192)
def _chunk(name: str, number: int) -> _Chunk:
    """The spans over about four years, from a week before the chunk begins.

    The week lets a fold or gap that ends just behind the chunk's edge be seen from inside. Offsets are probed once a
    day (no two transitions since 2000 are within six days), and a change is found by bisection.
    """
    zone = zoneinfo.ZoneInfo(name)
    begin = (number << _CHUNK_BITS) - _LOOK_BACK
    end = min((number + 1) << _CHUNK_BITS, TIME_END)
    spans: list[Span] = []
    start, offset = begin, _offset(zone, begin)
    before = offset
    for probe in [*range(begin + _DAY, end - 1, _DAY), end - 1]:
        found = _offset(zone, probe)
        if found != offset:
            change = _transition(zone, probe - _DAY, probe)
            spans.append(Span(start, change, offset, before))
            start, offset, before = change, found, offset
    spans.append(Span(start, end, offset, before))
    return _Chunk(tuple(span.start for span in spans), tuple(spans))


def span_at(zone: str, minute: int) -> Span:
    """The span that holds the UTC minute (below TIME_END). ``zone`` has passed :func:`check_zone`."""
    chunk = _chunk(zone, minute >> _CHUNK_BITS)
    return chunk.spans[bisect_right(chunk.starts, minute) - 1]


def spans_from(zone: str, minute: int, end: int) -> Iterator[tuple[int, Span]]:
    """(first minute not yet walked, its span), forward from ``minute`` to before ``end``."""
    end = min(end, TIME_END)
    while minute < end:
        span = span_at(zone, minute)
        yield minute, span
        minute = span.end


def spans_back(zone: str, minute: int, floor: int) -> Iterator[tuple[int, Span]]:
    """(last minute not yet walked, its span), backward from ``minute`` down to ``floor``."""
    minute = min(minute, TIME_END - 1)
    while minute >= floor:
        span = span_at(zone, minute)
        yield minute, span
        minute = span.start - 1
