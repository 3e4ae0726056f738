"""The shapes of requests and answers, for the OpenAPI document (and for nothing else).

Requests are checked by the one door of all job documents (``model/document.py``), never by these; a test holds both
together by sending what these describe. FastAPI collects the models that answers name; those of requests are added in
``describing.py``.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from .dag_shapes import Dag
from .part_shapes import CLOSED as _CLOSED
from .part_shapes import DURATION as _DURATION
from .part_shapes import (
    CatchUp,
    Expectation,
    GrpcCall,
    HttpCall,
    Jitter,
    KafkaRecord,
    Placement,
    Retry,
    ShellCommand,
    Timeouts,
    Triggers,
)
from .probe_shapes import METRICS as METRICS  # noqa: PLC0414 - routes name these as of here
from .probe_shapes import STREAM as STREAM  # noqa: PLC0414
from .probe_shapes import Health as Health  # noqa: PLC0414
from .probe_shapes import Ready as Ready  # noqa: PLC0414
from .problem_shapes import OperationProblem
from .problem_shapes import Problem as Problem  # noqa: PLC0414 - every route names it as one of these
from .problems import MEDIA_TYPE
from .request_parts import body as body  # noqa: PLC0414 - routes describe themselves by this module alone
from .request_parts import headers as headers  # noqa: PLC0414 - the same

_OPEN = ConfigDict(extra="allow")
_NAME = r"^[a-z0-9][a-z0-9._-]{0,127}$"
_POOL = r"^[a-z0-9][a-z0-9._-]{0,62}$"
_HANDLER = r"^[A-Za-z0-9_][A-Za-z0-9_.:-]{0,127}$"
_JSON: TypeAlias = Any

Instant = str
"""RFC 3339, UTC."""


class JobChange(BaseModel):
    """A merge patch of a definition: null removes a key, naming another kind of schedule or work replaces the old."""

    model_config = _CLOSED
    handler: str | None = Field(None, pattern=_HANDLER, description="A Python function, as a worker registered it")
    callback_url: str | None = Field(None, description="Short for `http` with that `url`")
    http: HttpCall | None = None
    grpc: GrpcCall | None = None
    shell: ShellCommand | None = None
    kafka: KafkaRecord | None = None
    dag: Dag | None = None
    cron: str | None = Field(None, examples=["0 9 * * 1-5"])
    zone: str | None = Field(None, description="IANA name, with cron or dates", examples=["Europe/Berlin"])
    seconds: bool | None = Field(None, description="The cron expression has six fields, the second first")
    gap: Literal["auto", "shift", "skip"] | None = None
    fold: Literal["auto", "first", "both"] | None = None
    every: str | None = Field(None, pattern=_DURATION, examples=["5m"])
    start_at: Instant | None = Field(None, description="First fire of an interval, RFC 3339")
    delay: str | None = Field(
        None, pattern=_DURATION, description="Fixed delay: after the end of each run", examples=["10m"]
    )
    at: Instant | None = Field(None, description="One-off, RFC 3339")
    dates: list[str] | None = Field(
        None,
        min_length=1,
        max_length=1000,
        description="A list: RFC 3339, or local times in the zone; answers have them in UTC",
        examples=[["2026-12-24T09:00", "2026-12-31T09:00"]],
    )
    on: Triggers | None = Field(None, description="What starts it, beside a schedule or instead of one")
    active_from: Instant | None = Field(None, description="No fire before it, RFC 3339")
    active_until: Instant | None = Field(None, description="No fire at or after it, RFC 3339")
    jitter: Jitter | str | None = Field(None, description="A string is a window, alike for all fires")
    misfire: Literal["latest", "skip", "all"] | None = Field(None, description="Which missed fires run; else latest")
    catch_up: CatchUp | None = None
    max_runs: int | None = Field(None, ge=1, le=1_000_000_000, description="Runs its schedule makes; then it ends")
    pause_after_failures: int | None = Field(None, ge=1, le=1000, description="FAILED runs in a row that pause the job")
    overlap: (
        Literal["allow", "skip", "buffer_one", "buffer_all", "cancel_other", "terminate_other", "sequential"] | None
    ) = Field(None, description="What becomes of a fire that finds a run of the job still open; else allow")
    max_concurrent: int | None = Field(None, ge=1, le=1000, description="How many of its runs may be open")
    concurrency_key: str | None = Field(
        None,
        min_length=2,
        max_length=200,
        description="A JSON pointer into the payload: runs with the same value there are limited together",
        examples=["/customer/id"],
    )
    max_concurrent_per_key: int | None = Field(
        None, ge=1, le=1000, description="How many with the same key may be open; else 1, where there is a key"
    )
    max_held: int | None = Field(None, ge=1, le=1000, description="How many may wait; else 100")
    expect_within: str | None = Field(
        None, pattern=_DURATION, description="A finding when no run has succeeded for so long", examples=["26h"]
    )
    calendars: list[str] | None = Field(
        None,
        max_length=8,
        description="Names of calendars: a fire that any of them blocks makes no run",
        examples=[["holidays"]],
    )
    on_calendar: Literal["skip", "next_allowed"] | None = Field(
        None, description="What becomes of a blocked fire: skipped, or moved to the next day that allows it; else skip"
    )
    tier: Literal["high", "medium", "low"] | None = None
    priority: str | None = Field(None, description="Another word for tier, in any case", examples=["HIGH"])
    pool: str | None = Field(None, pattern=_POOL)
    payload: _JSON = Field(None, description="Any JSON value; at most 64 KiB")
    payload_base64: str | None = Field(None, description="Any bytes")
    at_most_once: bool | None = Field(None, description="Called once or never, and not tried again")
    retry: Retry | bool | None = Field(None, description="`false`: no attempt after the first")
    timeouts: Timeouts | None = None


class JobDefinition(JobChange):
    """A job: one way to its work (handler, http, ...), a schedule (cron, every, delay, at, dates) or on, the rest."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    "name": "nightly-invoice",
                    "cron": "0 9 * * 1-5",
                    "callback_url": "https://billing.example/hooks/nightly",
                    "priority": "HIGH",
                    "payload": {"tenant": 7},
                }
            ]
        },
    )
    name: str | None = Field(None, pattern=_NAME, description="Unique in the tenant; without one it is made up")


class TriggerBody(BaseModel):
    """A payload in place of the job's own, this once."""

    model_config = _CLOSED
    payload: _JSON = None
    payload_base64: str | None = None


class NoteBody(BaseModel):
    """Why, for those who read it later."""

    model_config = _CLOSED
    note: str = Field("", max_length=500)


class PauseBody(NoteBody):
    """Why, and until when."""

    model_config = _CLOSED
    resume_at: Instant | None = Field(None, description="RFC 3339: it resumes by itself, and the fire at it is owed")


class Pause(BaseModel):
    """Who paused a job, why, and until when."""

    actor: str
    note: str | None
    paused_at: Instant
    resume_at: Instant | None = Field(description="It resumes by itself then")


class Job(BaseModel):
    """A job as it stands: its definition in full, and what became of it."""

    model_config = _OPEN
    job_id: str = Field(examples=["default:nightly-invoice"])
    name: str
    status: Literal["active", "paused", "deleted", "ended"]
    next_fire_time: Instant | None
    next_due_time: Instant | None = Field(description="When that fire is due, jitter included")
    schedule_error: str | None = Field(
        default=None, description="Why it does not fire: its schedule does not compile any more, as after an upgrade"
    )
    tier: Literal["high", "medium", "low"]
    pool: str
    pause: Pause | None
    revision: int = Field(description="Also its ETag")
    created_at: Instant
    updated_at: Instant
    expectation: Expectation | None = Field(
        default=None, description="null where nobody waits; only where one job is asked for"
    )
    calendar_versions: dict[str, int] | None = Field(
        default=None, description="Of each of its calendars the version that holds for its fires"
    )
    placement: Placement | None = Field(default=None, description="Where a second was picked just now")
    warnings: list[str] | None = Field(
        default=None, description="No worker for its pool, or none that knows its handler; not in lists"
    )


class JobPage(BaseModel):
    """One page of jobs, newest first. A page may hold fewer than `limit` and go on all the same."""

    jobs: list[Job]
    next_cursor: str | None


class Deleted(BaseModel):
    """The job is gone; its history stays for 30 days."""

    deleted: Literal[True]
    job_id: str


class Triggered(BaseModel):
    """The run that was made."""

    job_id: str
    run_id: str
    revision: int
    held: str | None = Field(description="Why it waits (overlap, concurrency); null: it does not")
    skipped: str | None = Field(description="Why it was dropped (overlap) and will never run; null: it was not")


class Status(BaseModel):
    """How a job stands."""

    job_id: str
    status: Literal["active", "paused", "deleted", "ended"]
    last_run: Instant | None = Field(description="When its newest run started")
    last_run_id: str | None
    last_run_status: str | None
    next_run: Instant | None
    retry_count: int = Field(description="Attempts of the newest run after its first")
    pool: str
    revision: int
    pause: Pause | None
    warnings: list[str] = Field(description="No worker for its pool, or none that knows its handler")


class Attempt(BaseModel):
    """An attempt that was followed by another."""

    attempt: int
    outcome: str
    started_at: Instant | None
    ended_at: Instant | None
    worker: str | None
    fencing_token: int | None
    error: str | None


class Run(BaseModel):
    """One firing of a job, as history has it."""

    run_id: str = Field(examples=["default:nightly-invoice@20261121T090000Z"])
    job_id: str
    status: Literal["PENDING", "RUNNING", "RETRYING", "SUCCEEDED", "FAILED", "CANCELLED", "SKIPPED"]
    fire_time: Instant | None
    made_by: str
    tier: str
    revision: int
    attempt: int
    outcome: str | None
    dispatched_at: Instant | None
    started_at: Instant | None
    ended_at: Instant | None
    worker: str | None
    fencing_token: int | None
    result: _JSON
    error: str | None
    reason: str | None
    held: str | None = Field(description="While it is PENDING: why it waits for others (overlap, concurrency)")
    next_attempt_at: Instant | None = Field(description="While it is RETRYING")
    cancel_requested: bool
    linked_run: str | None = Field(description="Of a redrive: the run that was given up")
    triggered_by: str | None = Field(description="The run by whose end it was started")
    is_last: bool = Field(description="The last its schedule makes, by the max_runs that stood when it was decided")
    skipped_count: int | None
    skipped_to: Instant | None
    is_dag: bool = Field(description="A DagRun: GET /api/v1/dag-runs/{dag_run_id} shows its nodes")


class RunInFull(Run):
    """A run with the attempts before its last one."""

    attempts: list[Attempt]


class RunPage(BaseModel):
    """One page of runs, newest fire first."""

    runs: list[Run]
    next_cursor: str | None


class Operation(BaseModel):
    """A command that outlasted its request."""

    operation_id: str
    status: Literal["pending", "applied", "unchanged", "repeated", "refused"]
    action: str
    job_id: str
    accepted_at: Instant
    revision: int | None
    run_id: str | None
    problem: OperationProblem | None


BODIES: tuple[type[BaseModel], ...] = (JobDefinition, JobChange, TriggerBody, NoteBody, PauseBody)
"""Models of requests."""


class Answers(Enum):
    """Statuses that a route may answer with, beside its own."""

    PROBE = (503,)
    READ = (400, 401, 403, 429, 503)
    READ_ONE = (400, 401, 403, 404, 429, 503)
    BULK = (400, 401, 403, 404, 408, 409, 413, 415, 422, 429, 503)
    CHANGE = (202, 400, 401, 403, 408, 413, 415, 422, 429, 503)
    CHANGE_ONE = (202, 400, 401, 403, 404, 408, 409, 412, 413, 415, 422, 429, 503)


def answers(kind: Answers, own: dict[int, type[BaseModel] | dict[str, Any]]) -> dict[int | str, dict[str, Any]]:
    """The answers of a route, as FastAPI takes them."""
    found: dict[int | str, dict[str, Any]] = {}
    for status in sorted({*kind.value, *own}):
        shape = own.get(status, Operation if status == 202 else Problem)
        if isinstance(shape, dict):
            found[status] = shape
        elif shape is Problem and kind is not Answers.PROBE:
            schema = {"$ref": "#/components/schemas/Problem"}
            found[status] = {"description": _MEANING[status], "content": {MEDIA_TYPE: {"schema": schema}}}
        else:
            model = shape if shape is not Problem else (Health | Ready)
            found[status] = {"model": model, "description": _MEANING[status]}
    return found


_MEANING = {
    200: "As asked",
    201: "Made",
    202: "Accepted; not applied yet",
    400: "The request cannot be read",
    401: "A valid key is needed",
    403: "The key does not allow this",
    404: "There is no such thing, or it is another tenant's",
    408: "The body took too long",
    409: "The name is taken, or the same request is being served",
    412: "The job has changed meanwhile",
    413: "The body is too large",
    415: "The body must be JSON",
    422: "The request says something that cannot be",
    428: "If-Match is needed",
    429: "Too many requests",
    503: "Busy, or a backend does not answer",
}
