"""What a job's calendars do to its next fires, for people: which are skipped before a fire, and which it stands for.

Pure. Neighbouring fires that are skipped make one mark. Bound: ``MARKS_MAX`` of them for one row, and then one for all
that is left, which names no calendar.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import NamedTuple
from zoneinfo import ZoneInfo

from .blocks import blocks_of
from .ids import Instant
from .job import JobSpec
from .moving import moving, zone_of
from .timetable import blocked_parts, count_fires, last_fire, next_fire

MARKS_MAX = 10

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class CalendarMarkKind(StrEnum):
    """SKIPPED: between the row before and this one lie fires that calendars block. MOVED: they moved fires to this."""

    SKIPPED = "calendar_skipped"
    MOVED = "calendar_moved"


class CalendarMark(NamedTuple):
    """``times`` fires from ``nominal_from`` to ``nominal_to``: local times of the schedule's zone.

    ``calendars``: those that block the first or the last of them, as people name them.
    """

    kind: CalendarMarkKind
    nominal_from: datetime
    nominal_to: datetime
    times: int
    calendars: tuple[str, ...]


def calendar_marks(
    spec: JobSpec, anchor_at: Instant, after: Instant, fire_at: Instant, tenant: str
) -> tuple[CalendarMark, ...]:
    """The marks of the fire at ``fire_at``, where the row before it is the fire at ``after``."""
    if not spec.timing.calendars:
        return ()
    found: list[CalendarMark] = []
    for start, end in blocked_parts(spec, after, fire_at):
        times = count_fires(spec, anchor_at, start, end)
        if not times:
            continue
        first = next_fire(spec, anchor_at, start)
        last = last_fire(spec, anchor_at, start, end)
        assert first is not None
        assert last is not None
        if len(found) == MARKS_MAX:
            found.append(_rest(spec, anchor_at, first, fire_at - 1))
            break
        found.append(_mark(spec, CalendarMarkKind.SKIPPED, first, last, times, tenant))
    if spec.timing.moves:
        sources = moving(spec.schedule, anchor_at, spec.timing).sources(fire_at)
        if sources:
            mark = _mark(spec, CalendarMarkKind.MOVED, sources[0], sources[-1], len(sources), tenant)
            found.append(mark)
    return tuple(found)


def _rest(spec: JobSpec, anchor_at: Instant, first: Instant, until: Instant) -> CalendarMark:
    """All that is skipped from ``first`` on, in one."""
    parts = [*blocked_parts(spec, first - 1, until)]
    times = sum(count_fires(spec, anchor_at, *part) for part in parts)
    newest = next(
        last for part in reversed(parts) if (last := last_fire(spec, anchor_at, *part)) is not None
    )  # the first part has a fire
    return CalendarMark(CalendarMarkKind.SKIPPED, _local(spec, first), _local(spec, newest), times, ())


def _mark(
    spec: JobSpec, kind: CalendarMarkKind, first: Instant, last: Instant, times: int, tenant: str
) -> CalendarMark:
    zone = zone_of(spec.schedule)
    names = tuple(
        f"{tenant}:{use.name}" if tenant else use.name
        for use in spec.timing.calendars
        if blocks_of((use.compiled,), zone).covers(first) or blocks_of((use.compiled,), zone).covers(last)
    )
    return CalendarMark(kind, _local(spec, first), _local(spec, last), times, names)


def _local(spec: JobSpec, at: Instant) -> datetime:
    zone = ZoneInfo(zone_of(spec.schedule))
    return (_EPOCH + timedelta(microseconds=at)).astimezone(zone).replace(tzinfo=None)
