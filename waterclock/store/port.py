"""The Store port: what Waterclock needs of Cassandra, in the words of the domain and never in CQL.

Two implementations, held together by one conformance suite: ``cassandra.py`` and ``memory.py``. Rules for both:

* Every mutation carries a write timestamp (``wts``, microseconds) that the single writer computed once. A replay
  repeats it, a zombie carries an older one; the greater one wins per cell (last write wins).
* A write that times out is UNKNOWN: the store repeats it with the same stamp, a bounded number of times, and then
  raises WriteUnknown. Whoever gets that repeats the whole step with the same stamps.
* All methods block within a stated bound and raise BackendDown when no answer comes.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple, Protocol

from waterclock.model.events import Outcome, RunStatus
from waterclock.model.ids import Instant, RunId
from waterclock.model.job import JobSpec, JobStatus, JobVersion, Pause, Tier
from waterclock.model.run_log import LogStream

from .backfill_port import BackfillReading, BackfillRow, Recorded
from .calendar_port import CalendarKeeping
from .dag_port import DagReading, NodeRow
from .listing import JobListing
from .request_port import Requests
from .versions import Versions


class DueRow(NamedTuple):
    """A row of the time index: the first fire of a job in that minute (or, with an ``entry``, one deferred run).

    ``env`` is the ready envelope: what is needed to fire without a read (never empty). ``wts``: on writing, the
    stamp to write with; on reading, the stamp that the row was written with (WRITETIME of ``env``).
    """

    slot: int
    minute: int
    due_at: Instant
    job_id: str
    revision: int
    entry: str
    fire_at: Instant
    attempt: int
    tier: Tier
    tenant: str
    env: bytes
    wts: int


class DueDelete(NamedTuple):
    """Deletes exactly one ``due`` row. ``wts``: the command's stamp plus one hour (cassandra.md 4)."""

    slot: int
    minute: int
    due_at: Instant
    job_id: str
    revision: int
    entry: str
    wts: int


class JobRow(NamedTuple):
    """The authoritative row of a job, as of the command at (``src_partition``, ``src_offset``): the newest that has
    made a version, or asked for what stood already. One that only made a run leaves the row alone."""

    job_id: str
    spec: JobSpec
    status: JobStatus
    revision: int
    anchor_at: Instant
    spec_revision: int
    created_at: Instant
    updated_at: Instant
    src_partition: int
    src_offset: int
    wts: int
    pause: Pause | None = None


class JobChange(NamedTuple):
    """Everything that one applied command writes. ``version`` is None where it makes none (nothing changed).

    Written in the order versions, due deletes and writes, look-ups, ``jobs`` last. Each row carries its own stamp: that
    of the command, but for ``jobs`` (the stamp of the version that stands, so that equal cells meet equal ones) and the
    deletes.
    """

    job: JobRow
    version: JobVersion | None
    due_writes: tuple[DueRow, ...] = ()
    due_deletes: tuple[DueDelete, ...] = ()


class RunRow(NamedTuple):
    """History of one run: the projection of its events. Absent instants are 0, absent texts "".

    ``wts`` is ``dispatched_at`` (of PENDING or SKIPPED) ``+ attempt * 64 + rank``, 0 PENDING, 8 RUNNING, 16 RETRYING,
    32 final (cassandra.md 4). ``linked_run``: of a redrive, what was given up; of a TRIGGER, the run by whose end it
    was started. ``is_last``: its schedule makes no more. ``is_dag``: a DagRun, of which ``paused`` and ``rerun_from``
    speak.
    """

    job_id: str
    fire_at: Instant
    series: int
    revision: int
    tier: Tier
    origin: str
    status: RunStatus
    outcome: Outcome
    attempt: int
    dispatched_at: Instant
    started_at: Instant
    ended_at: Instant
    worker: str
    fence: int
    error: str
    result: bytes | None
    reason: str
    zone: str
    tzdata: str
    skipped_count: int
    skipped_to: Instant
    wts: int
    next_attempt_at: Instant = 0
    linked_run: str = ""
    cancel_requested: bool = False
    is_last: bool = False
    is_dag: bool = False
    paused: bool = False
    rerun_from: tuple[str, ...] = ()

    @property
    def triggered_by(self) -> str:
        """The run by whose end it was started, or ""."""
        return self.linked_run if self.origin == "TRIGGER" else ""

    @property
    def again_of(self) -> str:
        """The run that it runs again, or ""."""
        return "" if self.triggered_by else self.linked_run


class AttemptRow(NamedTuple):
    """One ended attempt that was followed by another (the last one is in the run's row)."""

    job_id: str
    fire_at: Instant
    series: int
    node: str
    attempt: int
    outcome: Outcome
    started_at: Instant
    ended_at: Instant
    worker: str
    fence: int
    error: str
    wts: int


class FailureRow(NamedTuple):
    """One failed run, in the list that people look at first. ``hour`` = hours since the epoch of ``ended_at``."""

    job_id: str
    fire_at: Instant
    series: int
    node: str
    ended_at: Instant
    reason: str
    fingerprint: str
    wts: int
    error_class: str = ""
    error: str = ""
    attempts: int = 0


class LetterAction(StrEnum):
    """What can be done about a dead letter; the order is on-disk format."""

    REDRIVEN = "redriven"
    DISCARDED = "discarded"


class LetterRow(NamedTuple):
    """What was done last about the dead letter of a run. ``at`` is also its write stamp.

    ``linked_run``: the run that a redrive made; ``actor``: who discarded it (of a redrive the audit tells).
    """

    job_id: str
    fire_at: Instant
    series: int
    node: str
    action: LetterAction
    linked_run: str
    actor: str
    at: Instant


class AuditRow(NamedTuple):
    """One command as received: who asked for what."""

    job_id: str
    at: Instant
    partition: int
    offset: int
    actor: str
    action: str
    detail: str


class LogRow(NamedTuple):
    """One line that an attempt printed. ``fence``: the token of the claim that printed it; ``seq`` counts within it.

    ``wts``: on writing, the stamp to write with, the same at every repeat; on reading, 0.
    """

    run_id: str
    attempt: int
    fence: int
    seq: int
    at: Instant
    stream: LogStream
    text: str
    wts: int = 0


class ApiKey(NamedTuple):
    """A key of the API, without its secret: ``digest`` is the secret's SHA-256. ``scopes``: words, spaces between.

    ``prefix`` is public and names the key. ``expires_at``, ``revoked_at``: 0 = never.
    """

    prefix: str
    digest: bytes
    tenant: str
    name: str
    scopes: str
    created_at: Instant
    expires_at: Instant = 0
    revoked_at: Instant = 0


class History(NamedTuple):
    """What one batch of the recorder writes."""

    runs: Sequence[RunRow] = ()
    attempts: Sequence[AttemptRow] = ()
    failures: Sequence[FailureRow] = ()
    audit: Sequence[AuditRow] = ()
    letters: Sequence[LetterRow] = ()
    nodes: Sequence[NodeRow] = ()
    backfills: Sequence[BackfillRow] = ()
    recorded: Sequence[Recorded] = ()


class Writing(Protocol):
    """Writes under way."""

    def wait(self, timeout_s: float) -> None:
        """Until all are acknowledged. Raises WriteUnknown or BackendDown."""
        ...


class TimeIndex(Protocol):
    """What the dispatcher needs: the only writer of jobs, versions, look-ups and ``due`` of its slots."""

    def versions_below(self, wanted: Sequence[tuple[str, int]]) -> list[JobVersion | None]:
        """For each (job id, revision): the newest version with a smaller revision, or None. Many at once."""
        ...

    def versions(self, job_ids: Sequence[str], back_to: Instant | None = None) -> dict[str, list[JobVersion]]:
        """The newest versions of each job, newest first, at most 100 a job; jobs without any are left out.

        ``back_to``: however many they are, back to one that is stamped at or below it, and maybe some more; back to
        the first where there is none. Who asks for that has to see to it that they are not too many.
        """
        ...

    def apply(self, changes: Sequence[JobChange]) -> None:
        """Write what commands decided, in the order of JobChange, each stage acknowledged before the next.

        Its rows live for three days from now, or from their due time where that is later.
        """
        ...

    def load_due(self, slots: Sequence[int], minute: int, minutes: int = 1) -> list[DueRow]:
        """All rows of these buckets, of so many minutes from ``minute`` on: unordered across slots, ordered by key
        within a bucket. Never without a minute."""
        ...

    def write_due(self, rows: Sequence[DueRow], *, kept_from: Instant = 0) -> None:
        """Write rows ahead, acknowledged. They expire three days after due, or after ``kept_from``; or are left out."""
        ...

    def dispose_due(self, slots: Sequence[int], minute: int) -> bool:
        """Delete whole consumed buckets, with the stamp end of bucket + 1 h.

        False, and nothing is done, while that stamp lies above the store's clock: it may have stepped back since the
        caller looked at his.
        """
        ...


class Histories(Protocol):
    """What the recorder writes: the only writer of runs, attempts, failures and audit."""

    def record(self, history: History) -> Writing:
        """Begin to write one batch; several may be under way."""
        ...


class LineKeeping(Protocol):
    """What the recorder writes of printed lines, apart from histories."""

    def keep_lines(self, lines: Sequence[LogRow]) -> Writing:
        """Begin to write these; writing one again is writing it once."""
        ...


class Reading(Versions, DagReading, BackfillReading, Protocol):
    """What people read: CLI, API."""

    def job(self, job_id: str) -> JobRow | None: ...

    def job_rows(self, job_ids: Sequence[str]) -> list[JobRow | None]:
        """Many at once, in the order of the ids: for lists."""
        ...

    def jobs(self, tenant: str, limit: int, after: tuple[Instant, str] | None = None) -> list[JobListing]:
        """Newest first; ``after``: the (created_at, job_id) of the last line of the page before."""
        ...

    def run(self, job_id: str, fire_at: Instant, series: int) -> RunRow | None: ...

    def runs(
        self, job_id: str, limit: int, before: Instant | None = None, before_series: int | None = None
    ) -> list[RunRow]:
        """Newest fire first, back to at most 31 days before ``before`` (default: the newest there are), and behind
        these the runs of backfills, of whatever past.

        ``before_series``: with it the page goes on after the run (``before``, ``before_series``), so that of several
        runs of one fire time none is left out.
        """
        ...

    def attempts(self, job_id: str, fire_at: Instant, series: int, node: str = "") -> list[AttemptRow]: ...

    def lines(self, run_id: str, attempt: int, limit: int, after: tuple[int, int] | None = None) -> list[LogRow]:
        """What an attempt printed, by claim and in order; ``after``: the (fence, seq) of the last line seen."""
        ...

    def failures(
        self, tenant: str, limit: int, since: Instant | None = None, after: tuple[Instant, RunId] | None = None
    ) -> list[FailureRow]:
        """Failures that ended after ``since`` (default: 24 hours ago, 31 days at most), newest first, then by run.

        ``after``: the page goes on behind this failure, so that of many of one instant none is left out.
        """
        ...

    def failure_rows(self, places: Sequence[tuple[Instant, RunId]]) -> list[FailureRow | None]:
        """The failures at these places, by when they ended and their runs; None: there is none. Many at once."""
        ...

    def letter_rows(self, runs: Sequence[RunId]) -> list[LetterRow | None]:
        """For each run, or node of a DagRun: what was done about its dead letter, None: nothing. Many at once."""
        ...


class Access(Protocol):
    """Keys of the API."""

    def put_key(self, key: ApiKey) -> None:
        """Write a new key, or one that was revoked."""
        ...

    def key(self, prefix: str) -> ApiKey | None: ...

    def keys(self, limit: int) -> list[ApiKey]:
        """In the order of their prefixes."""
        ...


class Store(TimeIndex, Histories, LineKeeping, Reading, Access, Requests, CalendarKeeping, Protocol):
    """All of it, and the connection."""

    def release(self) -> str:
        """Version of the server, for banners and checks."""

    def close(self) -> None: ...
