"""A cron schedule in English, by cron-descriptor: never shown alone, the next fires stand beside it.

What must hold: the words are true. cron-descriptor reads Quartz, so what it would word wrongly is rewritten to the same
meaning first (a step that does not divide its field, a full range of days, several kinds of days). Where it has no
words, the resolved expression stands for itself.
"""

from __future__ import annotations

import re

from cron_descriptor import ExpressionDescriptor, FormatException, MissingFieldException, Options

from .cron import CronSpec
from .cron_days import DayRule
from .cron_lint import FIELDS, Field

_STEP = re.compile(r"(\*|\d+)/(\d+)")
_LISTED_MAX = 6
"""Values that are listed; more are told as a range with a step."""

_ALL_DAYS = (1 << 32) - 2
_ALL_WEEKDAYS = (1 << 7) - 1


def in_words(spec: CronSpec) -> str:
    """The expression in an English sentence, without its zone; where there are no words for it, itself."""
    columns = spec.resolved.split()
    fields = FIELDS[-len(columns) :]
    *times, day, month, weekday = (_evenly(field, column) for field, column in zip(fields, columns, strict=True))
    try:
        sentences = [_sentence(" ".join((*times, *days))) for days in _day_columns(spec.days, day, month, weekday)]
    except (FormatException, MissingFieldException, ValueError, LookupError):
        # Wide on purpose: it is a courtesy, and must not keep anybody from seeing the fires.
        return spec.resolved
    if len(sentences) == 1:
        return sentences[0]
    # Not "only on Friday" beside another kind of day.
    first, *others = (sentence.replace(", only on ", ", on ") for sentence in sentences)
    return "; and ".join([first, *(sentence[0].lower() + sentence[1:] for sentence in others)])


def _sentence(expression: str) -> str:
    # Its own language, and not the machine's: the same words everywhere.
    options = Options(use_24hour_time_format=True, locale_code="en_US")
    return str(ExpressionDescriptor(expression, options))


def _evenly(field: Field, column: str) -> str:
    """Each step that does not go around its field evenly as a list or a range: ``*/45`` is not "every 45 minutes"."""
    return ",".join(_step_spelt_out(field, item) for item in column.split(","))


def _step_spelt_out(field: Field, item: str) -> str:
    match = _STEP.fullmatch(item)
    if match is None:
        return item
    low, step = field.low if match[1] == "*" else int(match[1]), int(match[2])
    if (field.high - field.low + 1) % step == 0 and low - field.low < step:
        return item
    values = range(low, field.high + 1, step)
    return f"{low}-{field.high}/{step}" if len(values) > _LISTED_MAX else ",".join(map(str, values))


def _day_columns(rule: DayRule, day: str, month: str, weekday: str) -> list[tuple[str, str, str]]:
    """Day, month and weekday of each sentence: either day field may match, so every kind of day has its own.

    A full range is no restriction, and is not called one.
    """
    any_day = rule.days == _ALL_DAYS
    any_weekday = not rule.nth and rule.weekdays == _ALL_WEEKDAYS
    if any_day and any_weekday:
        return [("*", month, "*")]
    numbers = ",".join(item for item in day.split(",") if item != "l")
    days = [] if any_day else [part for part in (numbers, "L" if rule.last else "") if part]
    weekdays = [] if any_weekday else weekday.upper().split(",") if rule.nth else [weekday]
    return [*((part, month, "*") for part in days), *(("*", month, part) for part in weekdays)]
