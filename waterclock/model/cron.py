"""A cron schedule, compiled: from text to masks. The single place that imports croniter.

The pipeline: the text is linted and made plain (``cron_lint``), croniter parses and checks it, the value lists become
bit masks, and an expression that never fires is refused. Evaluation is ours (``cron_walk``): croniter fires twice in
a fold, moves what it should not in a gap, and takes 50 times as long.

What must hold: compiling is pure (no clock), so that every node decides alike about one text. How it fails:
RequestError with pointer ``/cron`` or ``/zone``; nothing else, whatever the text.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from croniter import croniter

from .cron_days import DayRule, compile_days
from .cron_lint import FIELDS, PlainCron, has_hashed, read_plain, refuse
from .cron_walk import CronWalk
from .errors import RequestError
from .ids import US_PER_S, Instant
from .job import Cron, Fold, Gap
from .zones import check_zone

FIRE_WITHIN_YEARS = 9
"""An expression without a fire so long after CHECKED_FROM is refused."""

CHECKED_FROM: Instant = 1_767_225_600 * US_PER_S
"""2026-01-01: fixed, because a compiler that read the clock would accept on one day what it refuses on another."""


@dataclass(frozen=True, slots=True, eq=False)
class CronSpec:
    """A compiled cron schedule. Masks are bits by value: minute 0..59, hour 0..23, second 0..59.

    ``text`` is the user's, ``resolved`` the same with macros and ``H`` replaced. ``wild``: the minute or hour text
    starts with ``*``; it decides what ``auto`` means. ``gap`` and ``fold`` are never ``auto`` here. ``warnings`` are
    remarks for the author, in whole sentences.
    """

    text: str
    resolved: str
    zone: str
    minute: int
    hour: int
    second: int
    days: DayRule
    wild: bool
    gap: Gap
    fold: Fold
    warnings: tuple[str, ...]
    walk: CronWalk

    def next(self, after: Instant) -> Instant | None:
        """The first fire strictly after ``after``; None where there is none within 41 years."""
        return self.walk.next(after)

    def last(self, after: Instant, until: Instant) -> Instant | None:
        """The newest fire in (after, until], or None."""
        return self.walk.last(after, until)

    def count(self, after: Instant, until: Instant) -> int:
        """How many fires lie in (after, until], without visiting them."""
        return self.walk.count(after, until)


def compile_cron(cron: Cron, job_id: str = "") -> CronSpec:
    """The compiled form of a schedule; repeated calls are a look-up. ``job_id`` is what ``H`` is drawn from.

    Raises RequestError with a hint: pointer ``/cron`` for the expression (also for an ``H`` where ``job_id`` is empty),
    ``/zone`` for the zone.
    """
    return _compile(cron, job_id if has_hashed(cron.text[:256]) else "")


@lru_cache(maxsize=16_384)
def _compile(cron: Cron, job_id: str) -> CronSpec:
    plain = read_plain(cron.text, seconds=cron.seconds, job_id=job_id)
    check_zone(cron.zone)
    lists, nth = _parse(plain, cron.text)
    second, minute, hour, month = (_mask(lists, name) for name in ("second", "minute", "hour", "month"))
    days = DayRule(
        days=_mask(lists, "day-of-month"),
        last="l" in lists["day-of-month"],
        weekdays=_mask(lists, "day-of-week"),
        nth=tuple(sorted((day, 0 if n == "l" else int(n)) for day, many in nth.items() for n in many)),
        months=month,
    )
    wild = plain.fields[1].startswith("*") or plain.fields[2].startswith("*")
    gap = (Gap.SKIP if wild else Gap.SHIFT) if cron.gap is Gap.AUTO else cron.gap
    fold = (Fold.BOTH if wild else Fold.FIRST) if cron.fold is Fold.AUTO else cron.fold
    walk = _shared_walk((_minutes_of_day(minute, hour), second, days, cron.zone, gap, fold))
    _check_that_it_fires(cron, walk)
    warnings = (*plain.warnings, *_day_warnings(days))
    return CronSpec(cron.text, plain.resolved, cron.zone, minute, hour, second, days, wild, gap, fold, warnings, walk)


def _parse(plain: PlainCron, written: str) -> tuple[dict[str, list[int | str]], dict[int, set[int | str]]]:
    """Value lists by field name, and the ``#`` and ``L`` weekdays, by croniter in its strict mode.

    ``expand(strict=True)`` raises where ``is_valid(strict=True)`` says False (that is how it is made), and says why.
    ``written``: the expression as its author knows it.
    """
    fields = " ".join(plain.fields)
    try:
        lists, nth = croniter.expand(fields, second_at_beginning=True, strict=True)
    except (ValueError, TypeError, OverflowError) as error:
        # Wide on purpose: croniter's own errors are ValueErrors and TypeErrors, and so are those of int().
        why = str(error).removeprefix(f"[{fields}] is not acceptable").lstrip("., ")[:200]
        if "never occur" in why:
            refuse(f"{written!r} never fires: {why}", "Correct the day or the month")
        refuse(f"{written!r} is not valid: {why}", "Accepted are *, n, a-b, lists, */step, a-b/step, a/step")
    # croniter hands the second back as its last column.
    names = [field.name for field in (*FIELDS[1:], FIELDS[0])]
    return dict(zip(names, lists, strict=True)), nth


def _mask(lists: dict[str, list[int | str]], name: str) -> int:
    """The values of a field as bits."""
    field = next(field for field in FIELDS if field.name == name)
    values = lists[name]
    if "*" in values:
        return (2 << field.high) - (1 << field.low)
    mask = 0
    for value in values:
        if isinstance(value, int):
            mask |= 1 << value
    return mask


def _minutes_of_day(minute: int, hour: int) -> int:
    """The 1,440 minutes of a day that match, as bits."""
    return sum(minute << 60 * number for number in range(24) if hour >> number & 1)


@lru_cache(maxsize=16_384)
def _shared_walk(meaning: tuple[int, int, DayRule, str, Gap, Fold]) -> CronWalk:
    """Expressions that mean the same share one walk, and so its memo."""
    minutes, second, days, zone, gap, fold = meaning
    shift, first_only = gap is Gap.SHIFT, fold is Fold.FIRST
    return CronWalk(minutes, second, compile_days(days), zone, shift=shift, first_only=first_only)


def _check_that_it_fires(cron: Cron, walk: CronWalk) -> None:
    if not walk.fires_within(CHECKED_FROM, FIRE_WITHIN_YEARS):
        raise RequestError(
            f"{cron.text!r} does not fire in {cron.zone} within {FIRE_WITHIN_YEARS} years",
            pointer="/cron",
            hint="Check day, month and weekday together, and gap: skip against the zone's summer time",
        )


def _day_warnings(days: DayRule) -> tuple[str, ...]:
    by_day = days.days != (1 << 32) - 2
    by_weekday = bool(days.nth) or days.weekdays != (1 << 7) - 1
    if by_day and by_weekday:
        return ("Day-of-month and day-of-week are both given: it fires on days that match either.",)
    return ()
