"""Which jobs should have succeeded by now? A slow look over the jobs that say ``expect_within``, for ever.

Beside the recorder, because it asks what that one writes, and because its group gives every shard one owner. What must
hold: it keeps nothing of a job, so a restart forgets nothing; a lap is told when it is over, whole; its shards take
turns, slice by slice, or one with many jobs would keep all others waiting for ever. So a finding comes, and goes, a lap
late: at least ``LAP_S``, and longer the more jobs there are, because it takes ``SHARE`` of a processor at most. How it
fails: a backend that is away, and the slice is taken again. A slice that fails again and again of a store that answers
all else is gone through job by job, and what cannot be read (nor understood, of a later release) is passed over,
counted and named: else one such job would hide all that are overdue, for ever. A page of the list of jobs that cannot
be read holds its shard's lap up.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field
from typing import Protocol

import structlog

from waterclock.clock import Clock
from waterclock.model.errors import BackendDown, RequestError, UndecodableRecord
from waterclock.model.ids import Instant, slots_of_partition
from waterclock.model.job import JobStatus
from waterclock.model.stored_spec import NOT_UNDERSTOOD
from waterclock.store.expecting import Expectation, expectation_of, is_waited_for
from waterclock.store.port import JobRow, Reading
from waterclock.store.shelves import JobPages, ShelfReading
from waterclock.store.upkeep import OVERDUE, UpkeepKeeping

from .share import REST_MAX_S, Share

SHARE = 0.1
LAP_S = 60.0
SLICE = 50
_NAMED_MAX = 20
_TRIES = 3
"""So often a slice fails before it is gone through job by job."""
_STANDING = frozenset({JobStatus.ACTIVE, JobStatus.PAUSED})

_log = structlog.get_logger()


class Watched(Reading, ShelfReading, UpkeepKeeping, Protocol):
    """What it asks, and tells."""


@dataclass(slots=True)
class _Lap:
    pages: JobPages
    began_s: float
    watched_count: int = 0
    overdue: list[tuple[str, Expectation]] = field(default_factory=list)
    overdue_count: int = 0
    failed_count: int = 0
    """How often in a row the slice that is due was not answered."""
    singly: int = 0
    """So many slices more hold one job each."""
    unread: list[str] = field(default_factory=list)
    unread_count: int = 0


class OverdueWatch:
    """The core; one thread calls it. ``owned``: the shards that are ours at this moment, of ``shards``."""

    ready = True

    def __init__(
        self,
        store: Watched,
        clock: Clock,
        shards: int,
        owned: Callable[[], Collection[int]],
        *,
        share: float = SHARE,
        lap_s: float = LAP_S,
    ) -> None:
        self._store = store
        self._clock = clock
        self._shards = shards
        self._owned = owned
        self._share = Share(clock, share)
        self._lap_s = lap_s
        self._laps: dict[int, _Lap] = {}
        self._next_lap_s: dict[int, float] = {}
        self._turn = -1
        """Whose slice was the last."""

    def step(self) -> bool:
        """A slice of one shard. Always False: it rests after each."""
        if not self._share.begin():
            return False
        try:
            self._go_on()
        except (BackendDown, *NOT_UNDERSTOOD) as down:
            _log.info("the look for overdue jobs waits", trouble=str(down))
            self._share.rest(REST_MAX_S)
        else:
            self._share.end()
        return False

    def drain(self) -> bool:
        """The next owner begins a lap of its own."""
        return False

    def close(self) -> None:
        """Nothing is held."""

    def _go_on(self) -> None:
        owned = set(self._owned())
        for number in self._laps.keys() - owned:
            del self._laps[number]
        now_s = self._clock.monotonic_s()
        for number in sorted(owned, key=lambda each: (each <= self._turn, each)):
            if number not in self._laps and now_s >= self._next_lap_s.get(number, 0.0):
                self._laps[number] = _Lap(JobPages(slots_of_partition(number, self._shards)), now_s)
            if number in self._laps:
                self._turn = number
                self._slice(number, self._laps[number])
                return

    def _slice(self, number: int, lap: _Lap) -> None:
        pages = copy(lap.pages)
        listings = pages.onward(self._store, 1 if lap.singly else SLICE)
        now = self._clock.now()
        if listings is None:
            self._tell(number, lap, now)
            self._next_lap_s[number] = lap.began_s + self._lap_s
            del self._laps[number]
            return
        standing = [line.job_id for line in listings if line.status in _STANDING]
        try:
            self._judge(lap, standing, now)
        except (BackendDown, *NOT_UNDERSTOOD) as down:
            lap.failed_count += 1
            if not lap.singly and lap.failed_count < _TRIES:
                raise
            with suppress(UndecodableRecord):  # a newer release has told it: it was answered
                self._store.told(OVERDUE, str(number))  # a store that does not answer this either is away
            if not lap.singly:
                lap.singly = SLICE
                raise
            self._pass_over(lap, standing, down)
        lap.pages = pages
        lap.failed_count = 0
        lap.singly = max(0, lap.singly - 1)

    def _judge(self, lap: _Lap, standing: list[str], now: Instant) -> None:
        rows = [row for row in self._store.job_rows(standing) if row and is_waited_for(row)] if standing else []
        found = [(row.job_id, self._asked(row, now)) for row in rows if row.spec.timing.expect_within_us]
        overdue = [(job_id, each) for job_id, each in found if each is not None and each.is_overdue]
        lap.watched_count += len(found)
        lap.overdue_count += len(overdue)
        lap.overdue = [*lap.overdue, *overdue][:_NAMED_MAX]

    def _pass_over(self, lap: _Lap, job_ids: list[str], down: Exception) -> None:
        _log.warning("whether a job is overdue cannot be read", job_ids=job_ids, trouble=str(down))
        lap.unread_count += len(job_ids)
        lap.unread = [*lap.unread, *job_ids][:_NAMED_MAX]

    def _asked(self, row: JobRow, now: Instant) -> Expectation | None:
        try:
            return expectation_of(self._store, row, now)
        except RequestError as error:  # one bad job must not end the look; this line names it
            _log.warning("a job's expectation cannot be told", job_id=row.job_id, cause=str(error))
            return None

    def _tell(self, number: int, lap: _Lap, now: Instant) -> None:
        named = [{"job_id": job_id, "by": each.by, "succeeded_at": each.succeeded_at} for job_id, each in lap.overdue]
        parts = {
            "count": lap.overdue_count,
            "named": named,
            "watched": lap.watched_count,
            "unread": lap.unread_count,
            "unread_named": lap.unread,
            "ended_at": now,
        }
        self._store.tell(OVERDUE, str(number), parts, now)
