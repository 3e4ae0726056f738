"""Which fires of a backfill have run: history as far as it is written, then run-events from there to the end.

What must hold, and the order is for that: how far history is written is asked for first (whatever a recorder told once
stays true), then the end of run-events, then the rows, then the events from the first to the second. So no run is
missed. It stays true afterwards, for the timeline has passed these fires, and nobody else makes runs of them. A bounded
slice at a turn: fires wait behind it. How it fails: BackendDown, and the slice is read again.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from waterclock.log.port import Isolation, Log, Reader, Record, TopicPartition
from waterclock.model.errors import RequestError
from waterclock.model.events import EventKind, RunStatus, Skipped
from waterclock.model.ids import Instant, RunId, parse_run_id
from waterclock.model.job import JobVersion
from waterclock.model.reduce import covers
from waterclock.model.timetable import next_of
from waterclock.store.made_runs import DAY_US, HISTORY_DAYS, MadeRun, RunsPlace, RunsReading
from waterclock.wire.codec import decode_event

_EVENTS = 2_000
"""Run events of one slice; of other jobs the key alone is looked at."""

_DAYS = 8
"""Days of history that are asked for together."""

_DAYS_FOUND = 200
"""Days with fires that are looked for at once."""


class Found(NamedTuple):
    """Fire times that have run, as of the run-events offset ``known_to``; what becomes of ``held`` ones is open."""

    fires: frozenset[Instant]
    held: frozenset[Instant]
    known_to: int


class Reading:
    """What is being read for one backfill. ``start``: the first event that history may not hold."""

    def __init__(
        self,
        version: JobVersion,
        from_at: Instant,
        to_at: Instant,
        events: TopicPartition,
        start: int,
        end: int,
        now: Instant,
    ) -> None:
        self._version = version
        self._from_at, self._to_at = from_at, to_at
        self._events = events
        self._start, self._end = start, end
        self._looked_to = max(from_at, (now // DAY_US - HISTORY_DAYS) * DAY_US) - 1
        self._is_whole = False
        self._places: deque[RunsPlace] = deque()
        self._made: set[Instant] = set()
        self._held: set[Instant] = set()
        self._reader: Reader | None = None

    def go_on(self, log: Log, store: RunsReading) -> Found | None:
        """Read one slice; what was found once all is read. Raises BackendDown."""
        if not self._is_whole and not self._places:
            self._find_days()
        if self._places:
            self._read_history(store)
        elif self._is_whole and self._read_events(log):
            self.close()
            return Found(frozenset(self._made), frozenset(self._held - self._made), self._end)
        return None

    def close(self) -> None:
        """Let go of the reader."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _find_days(self) -> None:
        """The next days that hold fires: history keeps a partition for each."""
        for _ in range(_DAYS_FOUND):
            fire_at = next_of(self._version, self._looked_to)
            if fire_at is None or fire_at >= self._to_at:
                self._is_whole = True
                return
            day = fire_at // DAY_US
            self._places.append(RunsPlace(day, min(self._to_at, (day + 1) * DAY_US)))
            self._looked_to = (day + 1) * DAY_US - 1

    def _read_history(self, store: RunsReading) -> None:
        asked = [self._places[number] for number in range(min(_DAYS, len(self._places)))]
        pages = store.made_runs(self._version.job_id, asked)
        for _ in asked:
            self._places.popleft()
        for page in pages:
            for run in page.runs:
                self._take_row(run)
            if page.next_place is not None and page.next_place.before >= self._from_at:
                self._places.append(page.next_place)

    def _take_row(self, run: MadeRun) -> None:
        if run.series or not self._from_at <= run.fire_at < self._to_at or run.status is RunStatus.SKIPPED:
            return
        is_held = run.status is RunStatus.PENDING and run.is_held
        (self._held if is_held else self._made).add(run.fire_at)

    def _read_events(self, log: Log) -> bool:
        """True once the end was reached."""
        if self._start >= self._end:
            return True
        if self._reader is None:
            reader = log.reader(Isolation.COMMITTED)
            reader.assign({self._events: self._start})
            self._reader = reader
        key = self._version.job_id.encode()
        for record in self._reader.poll(_EVENTS, 0.0):
            if record.key == key and record.offset < self._end:
                self._take_event(record)
        return self._reader.position(self._events) >= self._end

    def _take_event(self, record: Record) -> None:
        try:
            event = decode_event(record.value or b"")
            if event.kind is EventKind.SKIPPED and isinstance(event.detail, Skipped):
                self._take_skip(event.detail)
            elif event.kind is EventKind.PENDING or event.kind is EventKind.HELD:
                self._take_made(parse_run_id(event.run_id), is_held=event.kind is EventKind.HELD)
            elif event.kind is EventKind.CANCEL_REQUESTED:
                self._take_cancel(parse_run_id(event.run_id))
        except RequestError:
            return  # the retry router forwards it to rejects; it makes no run

    def _take_made(self, run: RunId, *, is_held: bool) -> None:
        if run.series or run.node or not self._from_at <= run.fire_at < self._to_at:
            return
        if is_held and run.fire_at not in self._made:
            self._held.add(run.fire_at)
        elif not is_held:
            self._held.discard(run.fire_at)
            self._made.add(run.fire_at)

    def _take_cancel(self, run: RunId) -> None:
        """One that waits ends by it: it is CANCELLED, and was made as any other."""
        if not (run.series or run.node) and run.fire_at in self._held:
            self._held.discard(run.fire_at)
            self._made.add(run.fire_at)

    def _take_skip(self, skipped: Skipped) -> None:
        """What was held and is dropped gives way; what was made does not."""
        job_id = self._version.job_id
        gone = [fire for fire in self._held if covers(job_id, skipped, RunId(job_id, fire))]
        self._held.difference_update(gone)
