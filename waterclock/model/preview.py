"""The future of a schedule before it is saved: its next fires, each with what a clock change does to it.

A mark says what a person would not guess from the expression: that a fire serves local times which do not exist, that
such times before it are served by nothing, that its local time comes twice. Jitter is no mark: a row has its due time.
What calendars do are marks of their own (``preview_calendar.py``).

What must hold: rows come from the evaluator that decides (``upcoming``, ``schedule``), never from a second one. Pure.
How it fails: RequestError where a cron text does not compile.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import NamedTuple, assert_never
from zoneinfo import ZoneInfo

from .cron import CronSpec, compile_cron
from .cron_walk import GapTimes
from .cron_words import in_words
from .ids import US_PER_MINUTE, Instant, tenant_of_job
from .job import NEVER, Cron, Dates, Delay, Every, Fold, JobSpec, JobStatus, Once, Schedule
from .preview_calendar import CalendarMark, calendar_marks
from .schedule import fires_between
from .time_text import format_duration, format_rfc3339
from .timetable import free_from, is_blocked
from .timing import Timing
from .upcoming import HORIZON_US, due_times, upcoming
from .zones import TIME_END, span_at, spans_from

PREVIEW_MAX = 100
"""Rows of one preview."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class MarkKind(StrEnum):
    """What is unusual about a fire. MOVED: it serves nominal times that do not exist, which lie in the gap before it.

    SKIPPED: between the row before and this one lie nominal times that do not exist and are no fires. FIRST_OF_TWO,
    SECOND_OF_TWO: its local time comes twice, and this is the first or the second of them.
    """

    MOVED = "moved"
    SKIPPED = "skipped"
    FIRST_OF_TWO = "first_of_two"
    SECOND_OF_TWO = "second_of_two"


class Mark(NamedTuple):
    """One mark: ``times`` nominal times from ``nominal_from`` to ``nominal_to`` (local, without an offset).

    ``alone``: of a time that comes twice, whether the other one is no fire.
    """

    kind: MarkKind
    nominal_from: datetime
    nominal_to: datetime
    times: int = 1
    alone: bool = False


class Row(NamedTuple):
    """One fire. ``local`` is aware, in the schedule's zone; ``offset_changed``: against the row before it.

    ``due_at``: the fire time plus jitter; None where the jitter cannot be known, because the job has no id yet.
    """

    fire_time: Instant
    local: datetime
    offset_changed: bool
    marks: tuple[Mark, ...]
    due_at: Instant | None
    calendar_marks: tuple[CalendarMark, ...] = ()


class Preview(NamedTuple):
    """``read_as``: the cron text with macros and ``H`` resolved, "" for other kinds. ``words``: the same in English."""

    zone: str
    read_as: str
    words: str
    warnings: tuple[str, ...]
    rows: tuple[Row, ...]


def preview_cron(cron: Cron, after: Instant, count: int, *, job_id: str = "") -> Preview:
    """The next fires of an expression after ``after``, at most ``count``. ``job_id``: what ``H`` is drawn from."""
    spec = compile_cron(cron, job_id)
    fires = fires_between(cron, 0, after, after + HORIZON_US, min(count, PREVIEW_MAX), job_id=job_id)
    return Preview(spec.zone, spec.resolved, in_words(spec), spec.warnings, _cron_rows(spec, fires, after))


def preview_job(spec: JobSpec, anchor_at: Instant, after: Instant, count: int, *, job_id: str = "") -> Preview:
    """The next fires of a job that would be saved now. ``anchor_at``: what an interval would count from.

    What ``H`` means must be in ``spec`` already. ``job_id``: what jitter is drawn from; "" where there is none yet.
    """
    schedule, timing = spec.schedule, spec.timing
    fires = upcoming(spec, JobStatus.ACTIVE, anchor_at, after, min(count, PREVIEW_MAX))
    if isinstance(schedule, Delay):
        fires = [*_first_of_chain(spec, schedule, after)]
    warnings = _warnings(spec, after, job_id)
    if isinstance(schedule, Cron):
        cron = compile_cron(schedule)
        rows = _cron_rows(cron, fires, max(after, timing.from_at - 1))
        said = (cron.zone, cron.resolved, in_words(cron) + _timing_in_words(timing), (*cron.warnings, *warnings))
    else:
        rows = tuple(Row(fire, _local(fire, "UTC"), False, (), fire) for fire in fires)
        said = ("UTC", "", _in_words(schedule, anchor_at) + _timing_in_words(timing), warnings)
    if timing.calendars:
        rows = tuple(_with_calendars(spec, anchor_at, after, rows, tenant_of_job(job_id)))
    if timing.jitter_us:
        knows_due = bool(job_id) or timing.placed_us >= 0
        due: list[Instant] | list[None] = (
            due_times(job_id, spec, anchor_at, fires) if knows_due else [None] * len(fires)
        )
        rows = tuple(row._replace(due_at=due_at) for row, due_at in zip(rows, due, strict=True))
    return Preview(*said, rows)


def _first_of_chain(spec: JobSpec, schedule: Delay, after: Instant) -> Iterator[Instant]:
    """The one fire of a fixed delay that is known: as it is saved, or, while that is blocked, delays later."""
    first = max(after + 1, spec.timing.from_at)
    free_at = free_from(spec, first)
    if free_at is None:
        return
    first += -(-(free_at - first) // schedule.delay_us) * schedule.delay_us
    if not is_blocked(spec, first) and not 0 < spec.timing.until_at <= first:
        yield first


def _with_calendars(
    spec: JobSpec, anchor_at: Instant, after: Instant, rows: Iterable[Row], tenant: str
) -> Iterator[Row]:
    for row in rows:
        yield row._replace(calendar_marks=calendar_marks(spec, anchor_at, after, row.fire_time, tenant))
        after = row.fire_time


def anchor_of(schedule: Schedule, now: Instant) -> Instant:
    """What an interval that is saved now counts from."""
    return schedule.start_at if isinstance(schedule, Every) and schedule.start_at is not None else now


def _cron_rows(spec: CronSpec, fires: Iterable[Instant], after: Instant) -> tuple[Row, ...]:
    rows: list[Row] = []
    before = _local(after, spec.zone)
    for fire in fires:
        local = _local(fire, spec.zone)
        marks = (*_gap_marks(spec, after, fire), *_fold_marks(spec, fire, local))
        rows.append(Row(fire, local, local.utcoffset() != before.utcoffset(), marks, fire))
        before, after = local, fire
    return tuple(rows)


def _gap_marks(spec: CronSpec, after: Instant, fire: Instant) -> list[Mark]:
    """Of each gap in (after, fire]. Bound: the spans of the 41 years in which a fire is looked for."""
    first, last = max(after // US_PER_MINUTE, 0), fire // US_PER_MINUTE
    marks: list[Mark] = []
    for minute, span in spans_from(spec.zone, first, last + 1):
        # A long span comes in pieces: a later one may still tell of the change at its start.
        if span.offset <= span.before or minute != span.start or not after < span.start * US_PER_MINUTE <= fire:
            continue
        times = spec.walk.in_gap(span)
        if times is not None and (not times.served or span.start * US_PER_MINUTE == fire):
            marks.append(_gap_mark(times))
    return marks


def _gap_mark(times: GapTimes) -> Mark:
    kind = MarkKind.MOVED if times.served else MarkKind.SKIPPED
    return Mark(kind, _wall(times.first), _wall(times.last), times.times)


def _fold_marks(spec: CronSpec, fire: Instant, local: datetime) -> list[Mark]:
    wall = local.replace(tzinfo=None)
    alone = spec.fold is Fold.FIRST
    minute = fire // US_PER_MINUTE
    span = span_at(spec.zone, minute)
    if minute + span.offset < span.start + span.before:
        return [Mark(MarkKind.SECOND_OF_TWO, wall, wall, alone=alone)]
    following = span_at(spec.zone, span.end) if span.end < TIME_END else span
    if following.start == span.end and minute + span.offset >= span.end + following.offset:
        return [Mark(MarkKind.FIRST_OF_TWO, wall, wall, alone=alone)]
    return []


def _local(at: Instant, zone: str) -> datetime:
    return (_EPOCH + timedelta(microseconds=at)).astimezone(ZoneInfo(zone))


def _wall(seconds: int) -> datetime:
    """A point of the local line."""
    return (_EPOCH + timedelta(seconds=seconds)).replace(tzinfo=None)


def _in_words(schedule: Every | Once | Dates | Delay, anchor_at: Instant) -> str:
    match schedule:
        case Once():
            return f"Once, at {format_rfc3339(schedule.at)}"
        case Dates():
            return _dates_in_words(schedule)
        case Every():
            every = f"Every {format_duration(schedule.every_us)}"
            if schedule.start_at is not None:
                return f"{every}, counted from {format_rfc3339(anchor_at)}"
            return f"{every}, counted from the moment in which it is saved"
        case Delay():
            return f"{format_duration(schedule.delay_us)} after the end of each run"
        case _:
            assert_never(schedule)


def _dates_in_words(dates: Dates) -> str:
    if dates == NEVER:
        return "No fires of its own: other jobs start it"
    first, last = dates.times[0], dates.times[-1]
    if first == last:
        return f"On one date, {format_rfc3339(first)}"
    return f"On {len(dates.times)} dates, from {format_rfc3339(first)} to {format_rfc3339(last)}"


def _timing_in_words(timing: Timing) -> str:
    """What is added to a schedule's words; "" for the plain timing. What becomes of missed fires is no part of it."""
    said: list[str] = []
    if timing.from_at:
        said.append(f"not before {format_rfc3339(timing.from_at)}")
    if timing.until_at:
        said.append(f"only before {format_rfc3339(timing.until_at)}")
    if timing.jitter_us:
        by = "each fire by its own offset" if timing.jitter_per_fire else "all fires by the same offset"
        if timing.placed_us >= 0:
            by = "all by the offset that was free when it was saved"
        said.append(f"due less than {format_duration(timing.jitter_us)} later, {by}")
    if timing.calendars:
        names = ", ".join(use.name for use in timing.calendars)
        said.append(f"moved to the next day that {names} allow" if timing.moves else f"skipped where {names} block it")
    return "".join(f"; {each}" for each in said)


def _warnings(spec: JobSpec, after: Instant, job_id: str) -> tuple[str, ...]:
    schedule, timing = spec.schedule, spec.timing
    said: list[str] = []
    if isinstance(schedule, Once):
        if schedule.at <= after:
            said.append("Its instant is over: saved now, it is decided at once.")
    elif 0 < timing.until_at <= after + 1:
        said.append("Its active_until is over: it never fires.")
    elif isinstance(schedule, Dates) and (over := bisect_right(schedule.times, after)):
        all_over = over == len(schedule.times)
        said.append("All its dates are over: it never fires." if all_over
                    else f"{over} of its {len(schedule.times)} dates are over: they are no fires.")  # fmt: skip
    if timing.calendars and not isinstance(schedule, Cron):
        said.append("Its calendars' days are days of UTC: only a cron schedule has a zone.")
    if isinstance(schedule, Delay):
        said.append("Only the first run is known: each later one follows from the end of the one before it.")
    if timing.jitter_us and timing.placed_us < 0 and not job_id:
        said.append("Jitter is drawn from the job's id: name the job to see when each fire is due.")
    return tuple(said)
