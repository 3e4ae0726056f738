"""Values of the run side: run events, work records, and the small records around them.

``run-events`` is the truth (design §4); a run's state is the fold of its events by ``reduce.py``. One flat head for
every event, and at most one detail, by kind: so the Avro record is short and any reader can skip what it does not need.
"""

from __future__ import annotations

from enum import IntEnum, StrEnum
from typing import NamedTuple, TypeAlias

from .backfill import Backfilled
from .dag_events import DagStart, NodeSkipped
from .ids import Instant
from .job import Tier


class EventKind(StrEnum):
    """Every fact about a run. UNKNOWN is Avro's default for a symbol of a later release: readers ignore it."""

    UNKNOWN = "UNKNOWN"
    PENDING = "PENDING"
    HELD = "HELD"
    SKIPPED = "SKIPPED"
    STARTED = "STARTED"
    ATTEMPT_SUCCEEDED = "ATTEMPT_SUCCEEDED"
    ATTEMPT_FAILED = "ATTEMPT_FAILED"
    ATTEMPT_TIMED_OUT = "ATTEMPT_TIMED_OUT"
    ATTEMPT_CANCELLED = "ATTEMPT_CANCELLED"
    ATTEMPT_LOST = "ATTEMPT_LOST"
    RETRYING = "RETRYING"
    RUN_FAILED = "RUN_FAILED"
    RUN_EXPIRED = "RUN_EXPIRED"
    CANCEL_REQUESTED = "CANCEL_REQUESTED"
    DAG_SUCCEEDED = "DAG_SUCCEEDED"
    DAG_FAILED = "DAG_FAILED"
    NODE_SKIPPED = "NODE_SKIPPED"
    REVISED = "REVISED"
    ANSWERED = "ANSWERED"
    DAG_PAUSED = "DAG_PAUSED"
    DAG_RESUMED = "DAG_RESUMED"
    BACKFILL = "BACKFILL"


class RunStatus(IntEnum):
    """Status of a run (design §2); the numbers are on-disk format. HELD is shown as PENDING."""

    PENDING = 0
    RUNNING = 1
    RETRYING = 2
    SUCCEEDED = 3
    FAILED = 4
    CANCELLED = 5
    SKIPPED = 6


FINAL = frozenset({RunStatus.SUCCEEDED, RunStatus.FAILED, RunStatus.CANCELLED, RunStatus.SKIPPED})


class Outcome(IntEnum):
    """How an attempt ended; the numbers are on-disk format. NONE: it has not."""

    NONE = 0
    SUCCEEDED = 1
    FAILED = 2
    TIMED_OUT = 3
    LOST = 4
    CANCELLED = 5


EXPIRED = "expired"  # the reason of a run, or DagRun, whose time is over, and of what ends with it
DRAINED = "drained"  # the error class of an attempt that was handed back: it costs none of the run's attempts


class Origin(StrEnum):
    """What made a run: its schedule, a trigger, a redrive, a Dag's release, a backfill. UNKNOWN is Avro's default."""

    UNKNOWN = "UNKNOWN"
    SCHEDULE = "SCHEDULE"
    TRIGGER = "TRIGGER"
    REDRIVE = "REDRIVE"
    RELEASE = "RELEASE"
    BACKFILL = "BACKFILL"


class Pending(NamedTuple):
    """Detail of PENDING and of HELD. ``due_at`` and ``entry`` are the due position where the timeline decided the run,
    else None: a PENDING that releases a HELD one names none. ``linked_run``: of a redrive, the run that was given up.
    ``queue_timeout_us``, ``run_timeout_us``: the limits of its job's failure policy, 0 where there is none; the retry
    router ends what exceeds them. ``gap_to_at``: the end of the gap whose catch-up made the run, else 0. ``is_last``:
    the last of its schedule by the ``max_runs`` that stood when it was decided. ``dag``: it is a DagRun.
    ``backfill``: the number of the backfill that made it, else 0. ``triggered_by``, ``hops``: see ``Cause``.
    """

    revision: int
    fire_at: Instant
    due_at: Instant | None
    tier: Tier
    origin: Origin
    entry: str = ""
    pool: str = "default"
    handler: str = ""
    zone: str = ""
    tzdata: str = ""
    linked_run: str = ""
    queue_timeout_us: int = 0
    run_timeout_us: int = 0
    gap_to_at: Instant = 0
    is_last: bool = False
    dag: DagStart | None = None
    backfill: int = 0
    triggered_by: str = ""
    hops: int = 0


class Skipped(NamedTuple):
    """Detail of SKIPPED: the fires of ``revision`` from ``from_at`` to ``to_at``, ``fire_count``, both included.

    The event's run id is that of the first. ``due_at`` is the due position that was passed with it, 0: none.
    ``run_instead`` names the run that stands for them (coalesced), or "". ``cap`` names the bound that was full where
    an overlap policy would have held the fire, or "". A run of a series (a trigger's, a redrive's) that was dropped is
    none of the schedule's fires: its run id says so, and it is a range of itself alone. ``gap_to_at``: the end of the
    gap whose catch-up decided them, else 0.
    """

    revision: int
    from_at: Instant
    to_at: Instant
    fire_count: int
    tier: Tier
    due_at: Instant
    run_instead: str = ""
    cap: str = ""
    gap_to_at: Instant = 0


class Started(NamedTuple):
    """Detail of STARTED: the work record that was claimed, by its coordinates."""

    topic: str
    partition: int
    offset: int


class Ended(NamedTuple):
    """Detail of an attempt's outcome. ``error_*`` are bounded texts; ``result`` is at most 8 KiB of JSON.

    A result is None where there is none, and ``NOT_KEPT`` where there was one: whoever would have been given it must
    not take it for nothing.
    ``emitted``: how many records left with it; their effect ids are ``<run id>/out/0`` and on. ``retry_after_us``: how
    long its target asked us to wait, 0 where it did not.
    """

    started_at: Instant
    error_class: str = ""
    error_message: str = ""
    error_trace: str = ""
    result: bytes | None = None
    emitted: int = 0
    retry_after_us: int = 0


class Retrying(NamedTuple):
    """Detail of RETRYING: when the next attempt may begin, and how long that was to wait when it was decided."""

    due_at: Instant
    delay_us: int


class Revised(NamedTuple):
    """Detail of REVISED: ``revision`` counts for fires after ``stamp_at`` that lie beyond ``edge_at`` (design §6).

    Its fires due by ``edge_at`` were decided then, but for those due in ``gaps``: [from, to), still to be caught up.
    """

    revision: int
    stamp_at: Instant
    edge_at: Instant
    action: str
    gaps: tuple[tuple[Instant, Instant], ...] = ()


class CommandVerdict(StrEnum):
    """What became of a command."""

    APPLIED = "applied"
    UNCHANGED = "unchanged"
    REPEATED = "repeated"
    REFUSED = "refused"


class Answered(NamedTuple):
    """Detail of ANSWERED: what became of the command at ``offset`` of its commands partition.

    ``verdict``: a :class:`CommandVerdict`. ``revision``: the job's that stands after it, or 0. ``run_id``: a trigger's;
    of a command about a backfill, that one's id.
    Refused: ``problem`` is a slug (``conflict``, ``not-found``, ``invalid``, ``key-reused``, ``busy``), the rest is
    what a RequestError says. ``first_command_id``: for a repeat, the command that was obeyed; ``revision`` and
    ``run_id`` are what that one made. ``held``, ``skipped``: why its run waits, or was dropped, or "".
    """

    command_id: str
    offset: int
    verdict: str
    revision: int
    run_id: str = ""
    problem: str = ""
    message: str = ""
    pointer: str = ""
    hint: str = ""
    first_command_id: str = ""
    held: str = ""
    skipped: str = ""


Detail: TypeAlias = Pending | Skipped | Started | Ended | Revised | Answered | Retrying | NodeSkipped | Backfilled


class RunEvent(NamedTuple):
    """One fact. ``at`` is the writer's clock: no reducer reads it; a fixed delay counts from it (``delay_rules.py``).

    ``attempt`` counts from 1, 0 where there is none. ``worker``, ``incarnation`` and ``token`` name whose attempt an
    outcome speaks of (a STARTED cannot know its own token: it is its offset). REVISED, ANSWERED and BACKFILL name no
    run: "".
    """

    kind: EventKind
    job_id: str
    run_id: str
    at: Instant
    attempt: int = 0
    worker: str = ""
    incarnation: int = 0
    token: int = 0
    reason: str = ""
    detail: Detail | None = None


class WorkRecord(NamedTuple):
    """What a tier topic carries: everything that a worker needs to run one attempt.

    ``executor``: its stored form (``executor_from_json`` reads it), "" where ``handler`` names a Python function.
    ``policy``: the stored form of the job's failure policy. ``verify_from``: -1, or the run-events offset up to which
    its maker knew the run's state, ``verify_state``: its claimer folds from there to its own STARTED before it runs it
    (design §7). ``redrives``: how often it was redriven. ``dag_from``: of a node the run-events offset at which its
    DagRun begins (a node's state can be told only from there on), -1 of any other run. ``backfill``: the id of the
    backfill that made the run, else "". ``triggered_by``: see ``Cause``.
    """

    run_id: str
    fire_at: Instant
    due_at: Instant
    attempt: int
    job_id: str
    revision: int
    tier: Tier
    pool: str
    handler: str
    payload: bytes
    executor: str = ""
    at_most_once: bool = False
    policy: str = ""
    verify_from: int = -1
    verify_state: str = ""
    redrives: int = 0
    dag_from: int = -1
    backfill: str = ""
    triggered_by: str = ""


class LeaseKind(StrEnum):
    """Records on ``leases``. UNKNOWN is Avro's default."""

    UNKNOWN = "UNKNOWN"
    HELLO = "HELLO"
    FENCED = "FENCED"


class Lease(NamedTuple):
    """HELLO begins an incarnation (its offset is the incarnation's number); FENCED kills all before it."""

    kind: LeaseKind
    worker: str
    at: Instant
    by: str = ""


class Heartbeat(NamedTuple):
    """A plain beat. ``held_count`` and ``held_xor`` are count and XOR of the fencing tokens held (design §7).

    ``pool`` is the one whose work it takes; ``handlers`` are the names that it knows, at most 200 of them: a last
    ``*`` says that there are more. ``lease_ttl_us``: for how long it may be silent before it counts as dead.
    """

    worker: str
    incarnation: int
    at: Instant
    transactional_id: str
    held_count: int
    held_xor: int
    slots: int
    version: str = ""
    tzdata: str = ""
    pool: str = "default"
    handlers: tuple[str, ...] = ()
    lease_ttl_us: int = 15_000_000


class ControlKind(StrEnum):
    """Records on ``control``. UNKNOWN is Avro's default."""

    UNKNOWN = "UNKNOWN"
    CANCEL_REQUESTED = "CANCEL_REQUESTED"
    RUN_EXPIRED = "RUN_EXPIRED"


class Control(NamedTuple):
    """A cancel or an expiry, told to every worker before it is told to run-events (design §7).

    ``hard``: the attempt gets no time to end by itself (``terminate_other``).
    """

    kind: ControlKind
    job_id: str
    run_id: str
    at: Instant
    hard: bool = False


class SourceRecord(NamedTuple):
    """A Kafka record as received, kept whole."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()


class Reject(NamedTuple):
    """Bytes that a role could not decode or had to refuse: the reason, and the record itself."""

    role: str
    reason: str
    pointer: str
    hint: str
    at: Instant
    source: SourceRecord


class DeadLetter(NamedTuple):
    """A run given up: why, after how many attempts, and its work record as it was."""

    run_id: str
    job_id: str
    reason: str
    error_class: str
    error_message: str
    fingerprint: str
    attempts: int
    first_failure_at: Instant
    last_failure_at: Instant
    at: Instant
    work: SourceRecord | None
