"""Bugs of calendars: patches of the product for one play. See ``planted.py``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

from waterclock.dispatcher import commands, deciding, misfire
from waterclock.dispatcher.owed import Stretch

from waterclock.model import moving, next_allowed
from waterclock.model.ids import Instant
from waterclock.model.job import Command, JobSpec, JobVersion
from waterclock.model.timing import CalendarUse, with_newer

from .planted_failures import Planted


@contextmanager
def newest_for_all() -> Iterator[None]:
    """A fire is judged by the newest version of its calendar, and not by the one of the revision that owes it."""
    newest: dict[str, CalendarUse] = {}

    def with_calendars(command: Command, *rest: Any) -> JobVersion | None:
        for use in command.calendars:
            newest[use.name] = max(newest.get(use.name, use), use, key=lambda each: each.version)
        return brings(command, *rest)

    def is_blocked(spec: JobSpec, at: Instant) -> bool:
        return right(replace(spec, timing=with_newer(spec.timing, tuple(newest.values()))), at)

    brings, right = commands._with_calendars, deciding.is_blocked
    with (
        mock.patch.object(commands, "_with_calendars", with_calendars),
        mock.patch.object(deciding, "is_blocked", is_blocked),
    ):
        yield


@contextmanager
def forgotten_when_late() -> Iterator[None]:
    """What was missed is made up for by its policy alone: nobody asks the calendars."""

    def by_calendar(owed: Sequence[Stretch]) -> tuple[list[Stretch], list[Stretch]]:
        return [], list(owed)

    with mock.patch.object(misfire, "_by_calendar", by_calendar):
        yield


@contextmanager
def never_older_kept() -> Iterator[None]:
    """An older version of a calendar that comes late takes the place of a newer one."""

    def with_any(timing: Any, offered: tuple[CalendarUse, ...]) -> Any:
        return right(timing, tuple(use._replace(version=2**40 + use.version) for use in offered))

    right = commands.with_newer
    with mock.patch.object(commands, "with_newer", with_any):
        yield


@contextmanager
def moved_a_day_too_few() -> Iterator[None]:
    """A fire is moved by one day and no more: where that is not free either, it is skipped."""
    moving.moving.cache_clear()
    with mock.patch.object(next_allowed, "DAYS_MAX", 1):
        yield
    moving.moving.cache_clear()


PLANTED_CALENDARS: dict[str, Planted] = {
    "a calendar's newest version for an older revision's fire": newest_for_all,
    "calendars not asked about missed fires": forgotten_when_late,
    "an older version of a calendar wins": never_older_kept,
    "moved by one day alone": moved_a_day_too_few,
}
