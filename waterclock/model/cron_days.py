"""Which days a cron schedule means: day-of-month, day-of-week, month, with ``L`` and ``#``, as bit masks.

A month is one of 28 shapes (first weekday, length), so the day rule is 28 masks of 32 bits; searching and counting
days are shifts and population counts. Days are numbered from 1970-01-01 (a Thursday), Sunday is weekday 0.

What must hold: a full range counts as ``*``; both day fields given means that *either* matches (POSIX, croniter).
Every search is bounded by the last day that its caller names.
"""

from __future__ import annotations

from datetime import date
from functools import lru_cache
from typing import NamedTuple

_ORDINAL = date(1970, 1, 1).toordinal()
_LENGTHS = (0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_ALL_DAYS = (1 << 32) - 2
_ALL_WEEKDAYS = (1 << 7) - 1


class DayRule(NamedTuple):
    """The day fields of an expression.

    ``days``: bits 1..31, ``last``: ``L`` was given; ``weekdays``: bits 0..6; ``nth``: (weekday, 1..5, or 0 for last).
    Where ``nth`` is given ``weekdays`` does not count. ``months``: bits 1..12, at least one.
    """

    days: int
    last: bool
    weekdays: int
    nth: tuple[tuple[int, int], ...]
    months: int


class _Month(NamedTuple):
    """Where a month lies: the day number of its first day, its number 1..12, its year and length."""

    first: int
    year: int
    number: int
    length: int

    def following(self, months: int) -> _Month:
        """The next month whose bit is set in ``months``."""
        ahead = months >> self.number + 1
        if ahead:
            return _month(self.year, self.number + (ahead & -ahead).bit_length())
        return _month(self.year + 1, (months & -months).bit_length() - 1)

    def preceding(self, months: int) -> _Month:
        """The newest earlier month whose bit is set in ``months``."""
        behind = months & (1 << self.number) - 1
        if behind:
            return _month(self.year, behind.bit_length() - 1)
        return _month(self.year - 1, months.bit_length() - 1)


class Days:
    """A compiled :class:`DayRule`. Build it by :func:`compile_days`, which shares equal ones."""

    __slots__ = ("_months", "_shapes")

    def __init__(self, rule: DayRule) -> None:
        self._months = rule.months
        self._shapes = tuple(_shape(rule, first, length) for first in range(7) for length in range(28, 32))

    def _mask(self, month: _Month) -> int:
        """The matching days of a month, bits 1..31."""
        if not self._months >> month.number & 1:
            return 0
        return self._shapes[(month.first + 4) % 7 * 4 + month.length - 28]

    def matches(self, day: int) -> bool:
        """Whether one day is meant."""
        month = _month_of(day)
        return bool(self._mask(month) >> day - month.first + 1 & 1)

    def first_from(self, day: int, last_day: int) -> int | None:
        """The first matching day in [day, last_day]. Bound: one step for each month between them."""
        month = _month_of(day)
        skip = day - month.first + 1
        while month.first <= last_day:
            rest = self._mask(month) >> skip
            if rest:
                found = month.first - 1 + skip + (rest & -rest).bit_length() - 1
                return found if found <= last_day else None
            month, skip = month.following(self._months), 1
        return None

    def last_upto(self, day: int, first_day: int) -> int | None:
        """The last matching day in [first_day, day]. Bound: one step for each month between them."""
        month = _month_of(day)
        rest = self._mask(month) & (2 << day - month.first + 1) - 1
        while not rest:
            if month.first <= first_day:
                return None
            month = month.preceding(self._months)
            rest = self._mask(month)
        found = month.first - 1 + rest.bit_length() - 1
        return found if found >= first_day else None

    def count(self, day: int, end: int) -> int:
        """How many days in [day, end) match. Bound: one step for each month between them."""
        if day >= end:
            return 0
        month = _month_of(day)
        total = -(self._mask(month) & (1 << day - month.first + 1) - 1).bit_count()
        while month.first + month.length <= end:
            total += self._mask(month).bit_count()
            month = month.following(self._months)
        if month.first < end:
            total += (self._mask(month) & (1 << end - month.first + 1) - 1).bit_count()
        return total


@lru_cache(maxsize=4_096)
def compile_days(rule: DayRule) -> Days:
    """The compiled rule; equal rules share one."""
    return Days(rule)


def _length(year: int, number: int) -> int:
    if number == 2 and year % 4 == 0 and (year % 100 != 0 or year % 400 == 0):
        return 29
    return _LENGTHS[number]


def _month(year: int, number: int) -> _Month:
    return _Month(date(year, number, 1).toordinal() - _ORDINAL, year, number, _length(year, number))


def _month_of(day: int) -> _Month:
    at = date.fromordinal(day + _ORDINAL)
    year, number = at.year, at.month
    return _Month(day - at.day + 1, year, number, _length(year, number))


def _shape(rule: DayRule, first: int, length: int) -> int:
    """The matching days of a month that begins on weekday ``first`` and has ``length`` days."""
    whole = (2 << length) - 2
    by_day = rule.days | (1 << length if rule.last else 0)
    by_weekday = 0
    any_weekday = False
    if rule.nth:
        for nth in rule.nth:
            by_weekday |= _nth_day(nth, first, length)
    else:
        by_weekday = sum(1 << day for day in range(1, length + 1) if rule.weekdays >> (first + day - 1) % 7 & 1)
        any_weekday = rule.weekdays & _ALL_WEEKDAYS == _ALL_WEEKDAYS
    if rule.days & _ALL_DAYS == _ALL_DAYS:
        return by_weekday & whole
    return (by_day if any_weekday else by_day | by_weekday) & whole


def _nth_day(nth: tuple[int, int], first: int, length: int) -> int:
    """The bit of the n-th such weekday of the month (n = 0: the last); 0 where the month has none."""
    weekday, n = nth
    day = 1 + (weekday - first) % 7
    if n == 0:
        return 1 << day + (length - day) // 7 * 7
    day += 7 * (n - 1)
    return 1 << day if day <= length else 0
