"""A calendar as it is compiled: which local days and which instants it blocks (time.md §9).

Two sides. What the ``include`` side covers is allowed, and without an include side everything is; what the ``exclude``
side covers is not, whatever the other says. A side is days (whole local days, in the zone of whoever asks: a bit set,
and days of the week) and ranges (instants, half-open, whole seconds).

The compiled text stands inside the timing of the versions of the jobs that use the calendar, so it is on-disk format:
a leading byte tells its form. What must hold: ``parse(text(calendar)) == calendar``, and the text is bounded. How it
fails: RequestError for a text that we did not write.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeAlias

from .errors import RequestError

RANGES_MAX = 5_000
"""Ranges of one calendar, once those that touch are joined."""

SPAN_DAYS_MAX = 20 * 366
"""Days from a calendar's first day to its last: a bit each."""

AT_S_MAX = 7_258_118_400
"""The year 2200, in seconds."""

DAY_MAX = AT_S_MAX // 86_400

EVERY_WEEKDAY = 0b1111111

_FORM = 1

Range: TypeAlias = tuple[int, int]
"""Seconds since the epoch, [first, second)."""


class Side(NamedTuple):
    """What one side covers. ``weekdays``: bit 0 is Monday. ``days``: bit n is the day ``first_day + n`` since 1970.

    ``ranges`` rise, and neither meet nor touch. Where ``days`` is 0 so is ``first_day``, else bit 0 is set.
    """

    weekdays: int = 0
    first_day: int = 0
    days: int = 0
    ranges: tuple[Range, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not (self.weekdays or self.days or self.ranges)

    def day_mask(self, first: int, last: int) -> int:
        """The days from ``first`` to ``last``, both included, as bits from ``first`` on."""
        width = last - first + 1
        shift = self.first_day - first
        mask = self.days << shift if shift >= 0 else self.days >> -shift
        if self.weekdays:
            turn = (first + 3) % 7  # 1970-01-01 was a Thursday: day 0 is weekday 3
            week = (self.weekdays >> turn | self.weekdays << (7 - turn)) & EVERY_WEEKDAY
            mask |= week * (((1 << 7 * (width // 7 + 1)) - 1) // EVERY_WEEKDAY)
        return mask & ((1 << width) - 1)


class Calendar(NamedTuple):
    """A compiled calendar: see the module."""

    include: Side = Side()
    exclude: Side = Side()

    def as_text(self) -> str:
        """The compiled text: printable ASCII."""
        return base64.b64encode(bytes([_FORM, *_side_bytes(self.include), *_side_bytes(self.exclude)])).decode()


def calendar_from_text(text: str) -> Calendar:
    """The calendar of a compiled text. Raises RequestError."""
    try:
        parts = iter(base64.b64decode(text, validate=True))
        if next(parts, None) != _FORM:
            raise ValueError("another form")
        found = Calendar(_side(parts), _side(parts))
        if next(parts, None) is not None:
            raise ValueError("more than two sides")
    except (ValueError, OverflowError, binascii.Error) as error:
        raise RequestError(
            f"A compiled calendar cannot be read: {str(error)[:80]}",
            pointer="/calendars",
            hint="Name the calendar, and let the API look it up",
        ) from None
    return found


def side_of(weekdays: Iterable[int], days: Iterable[int], ranges: Iterable[Range]) -> Side:
    """A side in its one form, from weekdays (0 = Monday), days since 1970 and ranges in any order. Raises ValueError
    where it spans too much or holds too many ranges."""
    week = 0
    for weekday in weekdays:
        week |= 1 << weekday
    listed = sorted(set(days))
    mask = 0
    if listed:
        if listed[-1] - listed[0] >= SPAN_DAYS_MAX:
            raise ValueError(f"it spans {listed[-1] - listed[0] + 1} days")
        for day in listed:
            mask |= 1 << day - listed[0]
    joined = joined_ranges(ranges)
    if len(joined) > RANGES_MAX:
        raise ValueError(f"it has {len(joined)} ranges")
    return Side(week, listed[0] if listed else 0, mask, tuple(joined))


def joined_ranges(ranges: Iterable[Range]) -> list[Range]:
    """The same instants in ranges that rise and do not touch; empty ones are dropped."""
    found: list[Range] = []
    for start, end in sorted(ranges):
        if start >= end:
            continue
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end)
        else:
            found.append((start, end))
    return found


def _side_bytes(side: Side) -> Iterator[int]:
    yield side.weekdays
    yield from _number(side.first_day)
    bits = side.days.to_bytes((side.days.bit_length() + 7) // 8, "little")
    yield from _number(len(bits))
    yield from bits
    yield from _number(len(side.ranges))
    at = 0
    for start, end in side.ranges:
        yield from _number(start - at)
        yield from _number(end - start)
        at = end


def _number(value: int) -> Iterator[int]:
    """Seven bits a byte, the low ones first."""
    while value > 0x7F:
        yield value & 0x7F | 0x80
        value >>= 7
    yield value


def _read_number(parts: Iterator[int]) -> int:
    value = 0
    for shift in range(0, 49, 7):
        byte = next(parts, None)
        if byte is None:
            raise ValueError("it ends too soon")
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value
    raise ValueError("a number without an end")


def _side(parts: Iterator[int]) -> Side:
    weekdays = next(parts, EVERY_WEEKDAY + 1)
    if weekdays > EVERY_WEEKDAY:
        raise ValueError("no days of a week")
    first_day, size = _read_number(parts), _read_number(parts)
    if size > SPAN_DAYS_MAX // 8 + 1 or first_day > DAY_MAX:
        raise ValueError("it spans too many days")
    bits = bytes(byte for _, byte in zip(range(size), parts, strict=False))
    days = int.from_bytes(bits, "little")
    if len(bits) < size or (size and not bits[-1]) or (days & 1 != (days > 0)) or (not days and first_day):
        raise ValueError("its days are not in their one form")
    count, at = _read_number(parts), 0
    if count > RANGES_MAX:
        raise ValueError("too many ranges")
    ranges: list[Range] = []
    for number in range(count):
        start = at + _read_number(parts)
        end = start + _read_number(parts)
        if start >= end or (number and start <= at) or end > AT_S_MAX:
            raise ValueError("its ranges do not rise")
        ranges.append((start, end))
        at = end
    return Side(weekdays, first_day, days, tuple(ranges))
