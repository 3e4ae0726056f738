"""Schedules that lie far ahead, written past the doors: what a dispatcher has beside the jobs that are due.

In Cassandra each is what a CREATE leaves there: the job, its version, its line in the list and its row of the time
index. In the fake there are the rows of the time index alone, as counts of buckets, which become rows for whoever reads
them.
"""

from __future__ import annotations

from collections.abc import Iterator

from waterclock.dispatcher.rows import due_row

from waterclock.clock import Clock
from waterclock.model.ids import US_PER_MINUTE, US_PER_S, Instant, minute_of, ordinal, slot_of
from waterclock.model.job import Every, JobSpec, JobStatus, JobVersion, Tier
from waterclock.store.cells import Select, Values
from waterclock.store.memory import MemoryTables
from waterclock.store.port import JobChange, JobRow
from waterclock.store.rows import due_values
from waterclock.store.tables import DUE
from waterclock.store.tabular import TabularStore

DAY_US = 86_400 * US_PER_S
SLOTS = 256
BATCH = 400
"""Jobs that are written at once."""


def far_job(number: int, made_at: Instant, after_us: int) -> JobVersion:
    """A job that fires once a day, for the first time ``after_us`` later or up to a day after that."""
    job_id = f"acme:far-{number}"
    first_at = (made_at + after_us + number * 7_919_000_003 % DAY_US) // US_PER_S * US_PER_S
    spec = JobSpec("demo.ping", Every(DAY_US, first_at), Tier.LOW)
    revision = ordinal(1, 0)
    return JobVersion(job_id, revision, spec, JobStatus.ACTIVE, "far", made_at, first_at, revision, made_at)


def fill(store: TabularStore, numbers: range, made_at: Instant, after_us: int) -> None:
    """Write these jobs as their dispatcher would have."""
    for begin in range(numbers.start, numbers.stop, BATCH):
        changes = [_change(number, made_at, after_us) for number in range(begin, min(begin + BATCH, numbers.stop))]
        store.apply(changes)


def _change(number: int, made_at: Instant, after_us: int) -> JobChange:
    version = far_job(number, made_at, after_us)
    schedule = version.spec.schedule
    assert isinstance(schedule, Every)
    assert schedule.start_at is not None
    job = JobRow(
        version.job_id,
        version.spec,
        version.status,
        version.revision,
        version.anchor_at,
        version.spec_revision,
        made_at,
        made_at,
        0,
        0,
        made_at,
    )
    return JobChange(job, version, (due_row(version, schedule.start_at, made_at),))


class FarTables(MemoryTables):
    """The fake's tables with so many rows of the time index, ``after_us`` after ``made_at`` and over a day at most; in
    each bucket the same number.

    Whoever reads a bucket gets its rows; nothing else is kept of them, so that the memory that is measured is that of
    the dispatcher.
    """

    def __init__(self, clock: Clock, rows: int, made_at: Instant, after_us: int) -> None:
        super().__init__(clock)
        self._made_at = made_at
        self.first_minute = minute_of(made_at + after_us) + 1
        self._per_bucket = -(-rows // (DAY_US // US_PER_MINUTE * SLOTS))
        minutes = -(-rows // (self._per_bucket * SLOTS))
        self._last_minute = self.first_minute + minutes
        self._jobs_of_slot = _jobs_of_slots(self._per_bucket)
        self.far_rows = self._per_bucket * minutes * SLOTS
        self.far_rows_read = 0

    def read(self, query: Select, key: Values) -> list[Values]:
        """Of a bucket far ahead its rows too."""
        found = super().read(query, key)
        if query.table is DUE and len(key) == len(DUE.partition):
            slot, minute = key[0], key[1]
            assert isinstance(slot, int)
            assert isinstance(minute, int)
            if self.first_minute <= minute < self._last_minute:
                found += self._far(slot, minute)
        return found

    def _far(self, slot: int, minute: int) -> Iterator[Values]:
        for job_id in self._jobs_of_slot[slot]:
            self.far_rows_read += 1
            at = minute * US_PER_MINUTE
            spec = JobSpec("demo.ping", Every(DAY_US, at), Tier.LOW)
            revision = ordinal(1, 0)
            version = JobVersion(
                job_id, revision, spec, JobStatus.ACTIVE, "far", self._made_at, at, revision, self._made_at
            )
            yield (*due_values(due_row(version, at, self._made_at))[2:], self._made_at)


def _jobs_of_slots(per_slot: int) -> list[list[str]]:
    """So many names for each slot."""
    found: list[list[str]] = [[] for _ in range(SLOTS)]
    missing, number = SLOTS * per_slot, 0
    while missing:
        job_id = f"acme:far-{number}"
        number += 1
        mine = found[slot_of(job_id)]
        if len(mine) < per_slot:
            mine.append(job_id)
            missing -= 1
    return found
