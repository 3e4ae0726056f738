"""The Store over any ``Cells``: which rows a decision writes, in which order, with which stamp and life.

What must hold: rows of a command go out in the stages of JobChange, each acknowledged before the next; a row whose
expiry has passed is not written; a stamp is never 0 and never two hours ahead (it would win for ever). A stamp or a
bucket that breaks this is a bug of the caller: ValueError, nothing written. Failures are the port's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from waterclock.clock import Clock
from waterclock.model.errors import ClockBehind
from waterclock.model.ids import SLOT_COUNT, US_PER_MINUTE, US_PER_S, Instant, RunId
from waterclock.model.job import JobStatus, JobVersion

from . import rows
from .backfills import TabularBackfills, backfill_values
from .calendars import TabularCalendars
from .cells import Cells, Mutation, Put, Remove, Select
from .dag_nodes import TabularDagNodes, node_puts
from .drawers import drawer_values
from .listing import JobListing
from .made_runs import TabularMadeRuns, recorded_put
from .port import (
    ApiKey,
    AttemptRow,
    DueRow,
    FailureRow,
    History,
    JobChange,
    JobRow,
    LetterRow,
    LogRow,
    Writing,
)
from .request_port import KeptAnswer, Operation
from .run_history import waves
from .shelves import TabularShelves
from .tables import (
    API_ANSWERS,
    API_KEYS,
    API_OPERATIONS,
    ATTEMPTS,
    AUDIT,
    BACKFILLS,
    DUE,
    FAILURES,
    JOB_VERSIONS,
    JOBS,
    JOBS_BY_TENANT,
    LETTERS,
    PSHARDS,
    RUN_LOGS,
    RUNS_BY_DRAWER,
)
from .upkeep import TabularUpkeep

WAIT_S = 30.0
"""Bound of a blocking write: several times what the client and server spend on their own retries."""

DUE_KEPT_US = 3 * rows.US_PER_DAY
"""A ``due`` row lives this long after its time: the catch-up limit."""

TTL_CEILING_S = 365 * 86_400
"""From here on a ``due`` row gets no TTL: an expiry that far is nobody's, and past 2106 refused."""

DELETED_KEPT_US = 35 * rows.US_PER_DAY
"""The rows of a deleted job outlive its history (30 days), so that a listing can still name it."""

STAMP_AHEAD_US = 2 * rows.US_PER_HOUR
"""Greatest lead of a stamp over the clock: deletes of ``due`` rows carry their command's stamp plus one hour."""

VERSIONS_MAX = 100
"""Told of a job to whoever does not say how far back it looks."""

VERSIONS_PAGE = 50
"""Read of a job at a time by who does: each may carry 64 KiB of payload, and mostly the first few are enough."""

_REVISION_MAX = 2**63 - 1
FAILURE_HOURS = 24

_LETTERS_KEPT_US = 31 * rows.US_PER_DAY

_DUE_BUCKET = Select(DUE, in_flight=8)
_DUE_ROW = Select(DUE, equal=4)
_VERSION = Select(JOB_VERSIONS, equal=1)
_VERSIONS_BELOW = Select(JOB_VERSIONS, below=1, limited=True)
_VERSIONS = Select(JOB_VERSIONS, limited=True)
_JOB = Select(JOBS)
_JOBS_FIRST = Select(JOBS_BY_TENANT, limited=True, relaxed=True)
_JOBS_NEXT = Select(JOBS_BY_TENANT, below=2, limited=True, relaxed=True)
_ATTEMPTS = Select(ATTEMPTS, equal=3)
_FAILURES = Select(FAILURES, below=1, limited=True, relaxed=True)
_FAILURES_OF_INSTANT = Select(FAILURES, equal=1, above=4, limited=True, relaxed=True)
_FAILURE = Select(FAILURES, equal=5, relaxed=True)
_LETTER = Select(LETTERS, equal=3, relaxed=True)
_LINES_FIRST = Select(RUN_LOGS, limited=True, relaxed=True)
_LINES_NEXT = Select(RUN_LOGS, above=2, limited=True, relaxed=True)
_KEY = Select(API_KEYS, equal=1)
_KEYS = Select(API_KEYS, limited=True)
_ANSWER = Select(API_ANSWERS)
_OPERATION = Select(API_OPERATIONS)


class TabularStore(TabularCalendars, TabularDagNodes, TabularShelves, TabularUpkeep, TabularMadeRuns, TabularBackfills):
    """Every method of the Store port. It keeps nothing between calls: as many threads may call as the cells allow."""

    def __init__(self, clock: Clock, cells: Cells, *, has_old_runs: bool) -> None:
        self._clock = clock
        self._cells = cells
        self._has_old_runs = has_old_runs

    # -- the time index

    def versions_below(self, wanted: Sequence[tuple[str, int]]) -> list[JobVersion | None]:
        found = self._cells.select("versions_below", _VERSIONS_BELOW, [(job, below, 1) for job, below in wanted])
        return [
            rows.version_of(job, versions[0]) if versions else None
            for (job, _), versions in zip(wanted, found, strict=True)
        ]

    def versions(self, job_ids: Sequence[str], back_to: Instant | None = None) -> dict[str, list[JobVersion]]:
        if back_to is not None:
            return self._versions_back_to(job_ids, back_to)
        found = self._cells.select("versions", _VERSIONS, [(job, VERSIONS_MAX) for job in job_ids])
        return {
            job: [rows.version_of(job, values) for values in versions]
            for job, versions in zip(job_ids, found, strict=True)
            if versions
        }

    def _versions_back_to(self, job_ids: Sequence[str], back_to: Instant) -> dict[str, list[JobVersion]]:
        known: dict[str, list[JobVersion]] = {}
        edges = dict.fromkeys(job_ids, _REVISION_MAX)
        while edges:  # ends: each page of a job lies below the one before
            keys = [(job, below, VERSIONS_PAGE) for job, below in edges.items()]
            found = self._cells.select("versions", _VERSIONS_BELOW, keys)
            edges = {}
            for (job, _, asked), page in zip(keys, found, strict=True):
                if not page:
                    continue
                versions = known.setdefault(job, [])
                versions += [rows.version_of(job, values) for values in page]
                if len(page) == asked and versions[-1].stamp_at > back_to:
                    edges[job] = versions[-1].revision
        return known

    def apply(self, changes: Sequence[JobChange]) -> None:
        for operation, mutations in self._stages(changes):
            if mutations:
                self._write(operation, mutations).wait(WAIT_S)

    def load_due(self, slots: Sequence[int], minute: int, minutes: int = 1) -> list[DueRow]:
        keys = [(slot, minute + number) for number in range(minutes) for slot in slots]
        found = self._cells.select("load_due", _DUE_BUCKET, keys)
        row = rows.due_row
        return [row(*key, values) for key, bucket in zip(keys, found, strict=True) for values in bucket]

    def write_due(self, due: Sequence[DueRow], *, kept_from: Instant = 0) -> None:
        mutations = list(self._due_puts(due, kept_from))
        if mutations:
            self._write("write_due:anew" if kept_from else "write_due", mutations).wait(WAIT_S)

    def standing_due(self, due: Sequence[DueRow]) -> list[bool]:
        keys = [(row.slot, row.minute, row.due_at, row.job_id, row.revision, row.entry) for row in due]
        return [bool(found) for found in self._cells.select("standing_due", _DUE_ROW, keys)]

    def dispose_due(self, slots: Sequence[int], minute: int) -> bool:
        wts = (minute + 1) * US_PER_MINUTE + rows.US_PER_HOUR
        if wts > self._clock.now():
            return False
        if slots:
            self._write("dispose_due", [Remove(DUE, (slot, minute), wts) for slot in slots]).wait(WAIT_S)
        return True

    # -- histories

    def record(self, history: History) -> Writing:
        mutations: list[Mutation] = [Put(RUNS_BY_DRAWER, drawer_values(run), run.wts) for run in history.runs]
        mutations += [Put(ATTEMPTS, rows.attempt_values(row), row.wts) for row in history.attempts]
        mutations += [Put(FAILURES, rows.failure_values(row), row.wts) for row in history.failures]
        mutations += [Put(AUDIT, rows.audit_values(row), row.at) for row in history.audit]
        mutations += [Put(LETTERS, rows.letter_values(row), row.at) for row in history.letters]
        mutations += node_puts(history.nodes)
        mutations += [Put(BACKFILLS, backfill_values(row), row.wts) for row in history.backfills]
        mutations += [recorded_put(row) for row in history.recorded]
        return self._write("record", mutations)

    def keep_lines(self, lines: Sequence[LogRow]) -> Writing:
        return self._write("keep_lines", [Put(RUN_LOGS, rows.line_values(line), line.wts) for line in lines])

    # -- reading

    def job(self, job_id: str) -> JobRow | None:
        (found,) = self._cells.select("job", _JOB, [(job_id,)])
        return rows.job_row(job_id, found[0]) if found else None

    def job_rows(self, job_ids: Sequence[str]) -> list[JobRow | None]:
        found = self._cells.select("job_rows", _JOB, [(job_id,) for job_id in job_ids])
        return [rows.job_row(job, values[0]) if values else None for job, values in zip(job_ids, found, strict=True)]

    def jobs(self, tenant: str, limit: int, after: tuple[Instant, str] | None = None) -> list[JobListing]:
        query = _JOBS_NEXT if after else _JOBS_FIRST
        keys = [(tenant, pshard, *(after or ()), limit) for pshard in range(PSHARDS)]
        parts = self._cells.select("jobs", query, keys)
        lines = [rows.listing_of(values) for part in parts for values in part]
        lines.sort(key=lambda line: (line.created_at, line.job_id), reverse=True)
        return lines[:limit]

    def attempts(self, job_id: str, fire_at: Instant, series: int, node: str = "") -> list[AttemptRow]:
        (found,) = self._cells.select("attempts", _ATTEMPTS, [(job_id, rows.day_of(fire_at), fire_at, series, node)])
        return [rows.attempt_row(job_id, values) for values in found]

    def lines(self, run_id: str, attempt: int, limit: int, after: tuple[int, int] | None = None) -> list[LogRow]:
        query = _LINES_NEXT if after else _LINES_FIRST
        (found,) = self._cells.select("lines", query, [(run_id, attempt, *(after or ()), limit)])
        return [rows.line_row(run_id, attempt, values) for values in found]

    def failures(
        self, tenant: str, limit: int, since: Instant | None = None, after: tuple[Instant, RunId] | None = None
    ) -> list[FailureRow]:
        now = self._clock.now()
        since = now - FAILURE_HOURS * rows.US_PER_HOUR if since is None else max(since, now - _LETTERS_KEPT_US)
        edge = now + rows.US_PER_HOUR
        found: list[FailureRow] = []
        if after is not None and since < after[0] < edge:  # beyond them a client's cursor would name any hour
            edge, found = after[0], self._failures_of_instant(tenant, after, limit)
        elif after is not None:
            return []
        for hours in waves(range(edge // rows.US_PER_HOUR, since // rows.US_PER_HOUR - 1, -1)):
            if len(found) >= limit:
                break
            keys = [(tenant, each, pshard, edge, limit) for each in hours for pshard in range(PSHARDS)]
            for part in self._cells.select("failures", _FAILURES, keys):
                found += [rows.failure_row(values) for values in part]
        recent = [row for row in found if row.ended_at > since]
        recent.sort(key=lambda row: (-row.ended_at, row.job_id, row.fire_at, row.series, row.node))
        return recent[:limit]

    def _failures_of_instant(self, tenant: str, after: tuple[Instant, RunId], limit: int) -> list[FailureRow]:
        """Those of one instant stand in the order of their runs."""
        ended_at, run = after
        hour = ended_at // rows.US_PER_HOUR
        keys = [(tenant, hour, pshard, ended_at, *run, limit) for pshard in range(PSHARDS)]
        parts = self._cells.select("failures", _FAILURES_OF_INSTANT, keys)
        return [rows.failure_row(values) for part in parts for values in part]

    def failure_rows(self, places: Sequence[tuple[Instant, RunId]]) -> list[FailureRow | None]:
        found = self._cells.select("failure_rows", _FAILURE, [rows.failure_key(*place) for place in places])
        return [rows.failure_row(part[0]) if part else None for part in found]

    def letter_rows(self, runs: Sequence[RunId]) -> list[LetterRow | None]:
        keys = [(run.job_id, rows.day_of(run.fire_at), *run[1:]) for run in runs]
        found = self._cells.select("letter_rows", _LETTER, keys)
        return [rows.letter_row(key[0], part[0]) if part else None for key, part in zip(keys, found, strict=True)]

    def version(self, job_id: str, revision: int) -> JobVersion | None:
        (found,) = self._cells.select("version", _VERSION, [(job_id, revision)])
        return rows.version_of(job_id, found[0]) if found else None

    def history(self, job_id: str, limit: int, below: int | None = None) -> list[JobVersion]:
        edge = _REVISION_MAX if below is None else min(below, _REVISION_MAX)
        (found,) = self._cells.select("history", _VERSIONS_BELOW, [(job_id, edge, limit)])
        return [rows.version_of(job_id, values) for values in found]

    # -- the API's keys, and what it remembers of requests

    def put_key(self, key: ApiKey) -> None:
        stamp = max(key.created_at, key.revoked_at)
        self._write("put_key", [Put(API_KEYS, rows.key_values(key), stamp)]).wait(WAIT_S)

    def key(self, prefix: str) -> ApiKey | None:
        (found,) = self._cells.select("key", _KEY, [(rows.KEY_SHELF, prefix)])
        return ApiKey(*found[0]) if found else None

    def keys(self, limit: int) -> list[ApiKey]:
        (found,) = self._cells.select("keys", _KEYS, [(rows.KEY_SHELF, limit)])
        return [ApiKey(*values) for values in found]

    def keep_answer(self, answer: KeptAnswer) -> None:
        self._write("keep_answer", [Put(API_ANSWERS, tuple(answer), answer.at)]).wait(WAIT_S)

    def kept_answer(self, tenant: str, request_key: str) -> KeptAnswer | None:
        (found,) = self._cells.select("kept_answer", _ANSWER, [(tenant, request_key)])
        return KeptAnswer(tenant, request_key, *found[0]) if found else None

    def keep_operation(self, operation: Operation) -> None:
        self._write("keep_operation", [Put(API_OPERATIONS, tuple(operation), operation.at)]).wait(WAIT_S)

    def operation(self, tenant: str, operation_id: str) -> Operation | None:
        (found,) = self._cells.select("operation", _OPERATION, [(tenant, operation_id)])
        return Operation(tenant, operation_id, *found[0]) if found else None

    # -- the connection

    def release(self) -> str:
        return self._cells.release()

    def close(self) -> None:
        self._cells.close()

    # -- how rows go out

    def _stages(self, changes: Sequence[JobChange]) -> Iterator[tuple[str, list[Mutation]]]:
        """A replay repeats the whole: so a crash between two stages leaves nothing that it would not mend."""
        versions = [change.version for change in changes if change.version is not None]
        yield "apply:versions", [Put(JOB_VERSIONS, rows.version_values(each), each.stamp_at) for each in versions]
        due: list[Mutation] = [
            Remove(DUE, rows.due_key(delete), delete.wts) for change in changes for delete in change.due_deletes
        ]
        # A command may be applied so late that its job's first row is older than rows live.
        due += self._due_puts([row for change in changes for row in change.due_writes], kept_from=self._clock.now())
        yield "apply:due", due
        jobs = [(change.job, self._deleted_ttl_s(change.job)) for change in changes]
        yield "apply:listing", [Put(JOBS_BY_TENANT, rows.listing_values(job), job.wts, ttl) for job, ttl in jobs]
        yield "apply:jobs", [Put(JOBS, rows.job_values(job), job.wts, ttl) for job, ttl in jobs]

    def _deleted_ttl_s(self, job: JobRow) -> int | None:
        """At least one second, also long after: to leave the row out would leave the job as it was before."""
        if job.status is not JobStatus.DELETED:
            return None
        return max(1, (job.wts + DELETED_KEPT_US - self._clock.now()) // US_PER_S)

    def _due_puts(self, due: Sequence[DueRow], kept_from: Instant = 0) -> Iterator[Put]:
        now = self._clock.now()
        for row in due:
            if row.minute != row.due_at // US_PER_MINUTE or not 0 <= row.slot < SLOT_COUNT or not row.env:
                raise ValueError(f"not a row of the time index: {row!r}")
            ttl_s = (max(row.due_at, kept_from) + DUE_KEPT_US - now) // US_PER_S
            if row.entry or ttl_s >= TTL_CEILING_S:
                yield Put(DUE, rows.due_values(row), row.wts)
            elif ttl_s > 0:
                yield Put(DUE, rows.due_values(row), row.wts, ttl_s)

    def _write(self, operation: str, mutations: Sequence[Mutation]) -> Writing:
        ceiling = self._clock.now() + STAMP_AHEAD_US
        for mutation in mutations:
            if mutation.wts > ceiling:
                raise ClockBehind("cassandra", f"{operation}: a stamp of {mutation.wts} lies more than "
                                  f"{STAMP_AHEAD_US // rows.US_PER_HOUR} hours ahead of this process's clock, which is "
                                  f"behind that of the brokers: set it right")  # fmt: skip
            if mutation.wts <= 0:
                raise ValueError(f"{operation}: {mutation.wts} is no stamp")
        return self._cells.write(operation, mutations)
