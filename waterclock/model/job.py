"""Values of the job side: what a tenant defines, and the commands that change it. No rule lives here."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from .concurrency import FREE, Concurrency
from .executor import Executor, executor_label
from .failure_policy import DEFAULT, FailurePolicy
from .ids import Instant
from .timing import PLAIN, CalendarUse, Timing

if TYPE_CHECKING:
    from .dag import DagSpec
    from .triggers import Triggers


class Tier(IntEnum):
    """A lane with topics of its own. The number is on-disk format and orders the timeline: HIGH first."""

    HIGH = 0
    MEDIUM = 1
    LOW = 2

    @property
    def word(self) -> str:
        """The tier as topics, tables and people spell it: ``high``, ``medium``, ``low``."""
        return self.name.lower()


class Gap(StrEnum):
    """What happens to a nominal local time that does not exist (spring). ``auto``: by kind of expression."""

    AUTO = "auto"
    SHIFT = "shift"
    SKIP = "skip"


class Fold(StrEnum):
    """What happens to a nominal local time that comes twice (autumn)."""

    AUTO = "auto"
    FIRST = "first"
    BOTH = "both"


@dataclass(frozen=True, slots=True)
class Cron:
    """A cron schedule: five fields, or six (seconds first) when ``seconds`` is set; ``zone`` is an IANA name."""

    text: str
    zone: str = "UTC"
    seconds: bool = False
    gap: Gap = Gap.AUTO
    fold: Fold = Fold.AUTO


@dataclass(frozen=True, slots=True)
class Every:
    """Fixed rate: ``anchor + k * every_us``. ``start_at`` is the anchor; None: the bringing command's stamp.

    With a ``start_at`` the first fire is ``start_at`` itself (k = 0), without one it is one interval after the stamp.
    """

    every_us: int
    start_at: Instant | None = None


@dataclass(frozen=True, slots=True)
class Once:
    """One fire, at ``at``."""

    at: Instant


@dataclass(frozen=True, slots=True)
class Dates:
    """A fire at each of these instants, which rise; none of them: :data:`NEVER`."""

    times: tuple[Instant, ...]


@dataclass(frozen=True, slots=True)
class Delay:
    """Fixed delay: each fire comes ``delay_us`` after the end of the run before it (``delay_rules.py``).

    Its fires follow from what becomes of its runs, never from the schedule alone: only the shard's owner names them.
    """

    delay_us: int


Schedule: TypeAlias = Cron | Every | Once | Dates | Delay

NEVER = Dates(())
"""No fires: what a job has that other things start."""


@dataclass(frozen=True, slots=True)
class JobSpec:
    """What a job is, apart from its identity. Immutable: every change makes a new version.

    ``handler`` names the Python function that a worker registered, "" where an ``executor`` reaches the work instead,
    or where the job is a ``dag``, whose nodes have handlers and executors of their own: it is exactly one of the three.
    ``payload`` is handed to either as bytes. ``at_most_once``: the call is made once or never, and not tried again.
    ``timing`` narrows and spreads the schedule's fires, says what becomes of missed ones and what pauses the job;
    ``concurrency`` what becomes of those that find others of its runs still open; ``on`` what starts it beside its
    schedule, or in the place of one (``NEVER``).
    """

    handler: str
    schedule: Schedule
    tier: Tier = Tier.MEDIUM
    pool: str = "default"
    payload: bytes = b""
    executor: Executor | None = None
    at_most_once: bool = False
    policy: FailurePolicy = DEFAULT
    timing: Timing = PLAIN
    concurrency: Concurrency = FREE
    dag: DagSpec | None = None
    on: Triggers | None = None

    @property
    def is_followed(self) -> bool:
        """The shard's owner follows its runs to their end: others wait for them, or count from them, or their failures
        are counted."""
        counts = bool(self.timing.pause_after_failures) or isinstance(self.schedule, Delay)
        return counts or not self.concurrency.is_free

    @property
    def is_admitted(self) -> bool:
        """The shard's owner decides its runs one by one: they are followed, or counted (``max_runs``)."""
        return bool(self.timing.max_runs) or self.is_followed

    @property
    def label(self) -> str:
        """What people read: the handler's name, where the executor goes, or ``dag``."""
        if self.dag is not None:
            return "dag"
        return self.handler if self.executor is None else executor_label(self.executor)


class JobStatus(IntEnum):
    """Status of a job; the numbers are on-disk format. ENDED: it has made all the runs that its ``max_runs`` allows."""

    ACTIVE = 0
    PAUSED = 1
    DELETED = 2
    ENDED = 3


class CommandKind(StrEnum):
    """The verbs that change a job, fire it, or speak of one run of it. UNKNOWN: a symbol of a later release.

    CANCEL: end ``run_id``. REDRIVE: run ``work`` once more, as a new series. DEFER: hand ``work`` out at ``due_at``.
    DISCARD: put the dead letter of ``run_id`` away. ROLLBACK: bring the spec of ``to_revision`` back. CALENDAR: put
    newer versions of calendars that the job uses in the place of older ones. END: its ``max_runs`` are made, which only
    the shard's owner can know. RERUN: run the DagRun ``run_id`` again, as a new series. PAUSE_RUN, RESUME_RUN: no node
    of that DagRun begins in between. BACKFILL: run fires of a past range; the three that end so: pause, resume or
    cancel ``backfill_id``. LAPSE: a window of what starts the job is over (by the dispatcher).
    """

    UNKNOWN = "UNKNOWN"
    CREATE = "CREATE"
    UPDATE = "UPDATE"
    PAUSE = "PAUSE"
    RESUME = "RESUME"
    DELETE = "DELETE"
    TRIGGER = "TRIGGER"
    CANCEL = "CANCEL"
    REDRIVE = "REDRIVE"
    DEFER = "DEFER"
    DISCARD = "DISCARD"
    ROLLBACK = "ROLLBACK"
    CALENDAR = "CALENDAR"
    END = "END"
    RERUN = "RERUN"
    PAUSE_RUN = "PAUSE_RUN"
    RESUME_RUN = "RESUME_RUN"
    BACKFILL = "BACKFILL"
    PAUSE_BACKFILL = "PAUSE_BACKFILL"
    RESUME_BACKFILL = "RESUME_BACKFILL"
    CANCEL_BACKFILL = "CANCEL_BACKFILL"
    LAPSE = "LAPSE"


JOB_VERBS = (
    CommandKind.CREATE,
    CommandKind.UPDATE,
    CommandKind.PAUSE,
    CommandKind.RESUME,
    CommandKind.DELETE,
    CommandKind.TRIGGER,
)
"""What other services may ask for by a job event; the rest speaks of single runs, and comes from the API and roles."""

MUST_BE_NEW = -1
"""An ``expected_revision``: no such job stands, or the very same spec does."""


class Command(NamedTuple):
    """One order to a shard owner. ``at`` is the sender's clock and decides nothing: the broker's append time does.

    ``expected_revision``: 0 = whatever stands; else the command is refused when another revision stands;
    ``MUST_BE_NEW`` is for a CREATE that must not redefine.
    ``spec`` is set on CREATE and UPDATE; ``payload`` may replace the job's on TRIGGER. A command of the same job with
    the same ``idempotency_key`` (where there is none, with the same ``command_id``) is ignored for 24 hours.
    ``answer``: say on run-events what became of it (an ANSWERED); a repeat is always answered. ``run_id``: of a CANCEL
    the run, of a REDRIVE or DISCARD the one that was given up. ``work``: a framed work record; ``due_at``: when a DEFER
    wants it. ``resume_at``: of a PAUSE when it ends by itself (0: it does not), of a RESUME the end that it carries
    out. ``to_revision``: of a ROLLBACK the version whose spec comes back, of a RERUN that of the DagRun ``run_id``, of
    a BACKFILL the one whose fires are meant (0: the one that stands). ``calendars``: of a CALENDAR what it offers.
    ``rerun_from``: the nodes that a RERUN begins with, none: all of it anew. Of a BACKFILL: the range [``from_at``,
    ``to_at``) (``to_at`` 0: up to its append time), ``concurrency`` and ``tier`` (0, None: the defaults).
    ``backfill_id``: the one to turn. Of a TRIGGER by the end of a run: ``triggered_by`` is that run, ``ended`` its
    final status as a word, ``ended_at`` when, ``hops`` how many stand one before the other (``Cause``); by a record
    ``headers`` are those of its headers that the job's conditions ask for; ``gathers``: whether the job had a window as
    whoever told it knew the job. LAPSE: ``to_revision`` is the number of the command that opened the window, ``due_at``
    its end. ``request_hash``: of the HTTP request that brought it with its ``idempotency_key``, else b"": the same
    request is a repeat also where the API makes another command of it, for the job or its calendars changed meanwhile.
    """

    kind: CommandKind
    job_id: str
    command_id: str
    actor: str
    at: Instant
    expected_revision: int = 0
    spec: JobSpec | None = None
    payload: bytes | None = None
    note: str = ""
    idempotency_key: str = ""
    answer: bool = False
    run_id: str = ""
    due_at: Instant = 0
    work: bytes | None = None
    resume_at: Instant = 0
    to_revision: int = 0
    calendars: tuple[CalendarUse, ...] = ()
    rerun_from: tuple[str, ...] = ()
    from_at: Instant = 0
    to_at: Instant = 0
    concurrency: int = 0
    tier: Tier | None = None
    backfill_id: str = ""
    triggered_by: str = ""
    hops: int = 0
    ended: str = ""
    ended_at: Instant = 0
    headers: tuple[tuple[str, str], ...] = ()
    gathers: bool = False
    request_hash: bytes = b""


class Pause(NamedTuple):
    """Why a job is paused: who asked, with which words, since when. ``resume_at``: when it ends by itself, or 0."""

    actor: str
    note: str
    paused_at: Instant
    resume_at: Instant = 0


class JobVersion(NamedTuple):
    """One immutable version of a job: what a command made of it. ``stamp_at`` is wts(C), design §5.

    ``anchor_at`` is the resolved anchor of an interval (0 for the other kinds). ``spec_revision`` is the revision
    that brought the spec (a pause or resume keeps it). ``created_at``: the stamp of the job's first version.
    ``action`` is the command's kind in small letters, ``note`` its words (both "" in versions of an earlier release).
    ``pause``: while it is paused. ``from_revision``: of a rollback, the version whose spec it brought back.
    """

    job_id: str
    revision: int
    spec: JobSpec
    status: JobStatus
    actor: str
    stamp_at: Instant
    anchor_at: Instant = 0
    spec_revision: int = 0
    created_at: Instant = 0
    action: str = ""
    note: str = ""
    pause: Pause | None = None
    from_revision: int = 0
