"""What a backfill would come to: its fires, those that ran before, those that a calendar blocks. For a dry run.

Nothing is promised: history lags by a second or so, and the owner of the shard counts again when it begins. How it
fails: RequestError with the field at fault, as the owner would say it; BackendDown.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from waterclock.model.backfill import check_may_be_backfilled, fire_count_of
from waterclock.model.errors import RequestError
from waterclock.model.events import RunStatus
from waterclock.model.ids import Instant
from waterclock.model.job import JobVersion
from waterclock.model.timetable import count_blocked, is_blocked, next_of

from .made_runs import DAY_US, HISTORY_DAYS, RunsPlace, RunsReading

_DAYS = 8


class Counted(NamedTuple):
    """``fire_count`` fires: ``left_count`` have run, ``blocked_count`` are blocked, the rest would run."""

    fire_count: int
    left_count: int
    blocked_count: int

    @property
    def made_count(self) -> int:
        """How many runs it would make."""
        return self.fire_count - self.left_count - self.blocked_count


def count_backfill(store: RunsReading, version: JobVersion, from_at: Instant, to_at: Instant, now: Instant) -> Counted:
    """Count the fires of ``version`` in [``from_at``, ``to_at``), cut at ``now``."""
    check_may_be_backfilled(version)
    to_at = min(to_at, now)
    if from_at >= to_at:
        raise RequestError("the range is none, or lies in the future", pointer="/to", hint="A backfill is of the past")
    fire_count = fire_count_of(version, from_at, to_at)
    blocked_count = count_blocked(version, from_at - 1, to_at - 1)
    ran = _ran(store, version, max(from_at, (now // DAY_US - HISTORY_DAYS) * DAY_US), to_at)
    return Counted(fire_count, len(ran), blocked_count)


def _ran(store: RunsReading, version: JobVersion, from_at: Instant, to_at: Instant) -> set[Instant]:
    """Fires of the version that history shows as run, page by page."""
    places = deque(
        RunsPlace(day, min(to_at, (day + 1) * DAY_US)) for day in range(from_at // DAY_US, (to_at - 1) // DAY_US + 1)
    )
    found: set[Instant] = set()
    while places:  # ends: each page goes back in its day, and there are a month's days at most
        asked = [places.popleft() for _ in range(min(_DAYS, len(places)))]
        for page in store.made_runs(version.job_id, asked):
            found |= {run.fire_at for run in page.runs if not run.series and run.status is not RunStatus.SKIPPED}
            if page.next_place is not None and page.next_place.before > from_at:
                places.append(page.next_place)
    mine = (at for at in found if from_at <= at < to_at and next_of(version, at - 1) == at)
    return {at for at in mine if not is_blocked(version.spec, at)}
