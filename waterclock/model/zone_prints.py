"""Prints of zones: a short text that changes when a zone's transitions do, by which old decisions are told from new.

A print covers the transitions of the calendar years from the one before ``year`` to the tenth after it, and names the
year, so that two releases of tzdata can be compared by it at any time. It stands in rows of ``due``: on-disk format.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from hashlib import blake2b

from .ids import US_PER_S, Instant
from .zones import known_zones, spans_from

_BEFORE, _AFTER = 1, 11
_YEAR_MAX = 9_000


def zone_print(zone: str, year: int) -> str:
    """Such as ``2026:3fa94c01``. ``zone`` is known; years beyond any calendar of ours get one print."""
    return _print(zone, min(year, _YEAR_MAX))


def year_of(at: Instant) -> int:
    """The calendar year, UTC."""
    return datetime.fromtimestamp(min(at // US_PER_S, 253_402_300_799), UTC).year


def is_stale(zone: str, printed: str) -> bool:
    """Whether the zone's transitions are others than when this was printed. "" (none was) is not."""
    year = printed.partition(":")[0]
    if not year.isascii() or not year.isdigit() or zone not in known_zones():
        return False
    return zone_print(zone, int(year)) != printed


@lru_cache(maxsize=4_096)
def _print(zone: str, year: int) -> str:
    begin, end = (_minute(year + years) for years in (-_BEFORE, _AFTER))
    told = blake2b(digest_size=4)
    offset: int | None = None
    for start, span in spans_from(zone, begin, end):
        if span.offset != offset:
            offset = span.offset
            told.update(f"{start - begin}:{offset};".encode())
    return f"{year}:{told.hexdigest()}"


def _minute(year: int) -> int:
    return int(datetime(year, 1, 1, tzinfo=UTC).timestamp()) // 60
