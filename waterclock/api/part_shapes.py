"""The parts of a job's definition that have shapes of their own: ways to its work, its retry policy, its time-outs."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

CLOSED = ConfigDict(extra="forbid")
DURATION = r"^[1-9][0-9]{0,7}[smhd]$"


class RunEnds(BaseModel):
    """A run of another job of the tenant ends so. A DagRun counts by its own end, its nodes do not."""

    model_config = CLOSED
    job: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,127}$", examples=["load-orders"])
    ended: Literal["succeeded", "failed", "any"] = "succeeded"


class RecordComes(BaseModel):
    """A record is appended to a topic of ``intake.sources``, with each of these headers. Its value is the payload."""

    model_config = CLOSED
    topic: str = Field(pattern=r"^[A-Za-z0-9._-]{1,249}$", examples=["shop.orders"])
    headers: dict[str, str] = Field({}, max_length=8, examples=[{"type": "order-placed"}])


class Triggers(BaseModel):
    """What starts a job: each end that meets any condition makes one run, or all of them together do."""

    model_config = CLOSED
    any: list[RunEnds | RecordComes] | None = Field(None, min_length=1, max_length=16)
    all: list[RunEnds | RecordComes] | None = Field(None, min_length=2, max_length=16)
    within: str | None = Field(
        None,
        pattern=DURATION,
        description="all: so far apart they may come. any: so long after the first end one run is made for all of them",
        examples=["2h"],
    )


class HttpCall(BaseModel):
    """Call a URL with the payload as the body, signed after the Standard Webhooks scheme."""

    model_config = CLOSED
    url: str = Field(examples=["https://billing.example/hooks/nightly"])
    method: Literal["POST", "PUT", "PATCH", "GET", "DELETE"] = "POST"
    headers: dict[str, str] = {}
    timeout: str = Field("30s", pattern=DURATION)
    secret: str = Field("", description="Name of a signing secret in the worker's settings")


class GrpcCall(BaseModel):
    """A unary gRPC call with the payload as the request's bytes."""

    model_config = CLOSED
    target: str = Field(examples=["billing.example:443"])
    method: str = Field(examples=["billing.Invoices/Nightly"])
    metadata: dict[str, str] = {}
    timeout: str = Field("30s", pattern=DURATION)
    tls: bool = True


class ShellCommand(BaseModel):
    """A program on the worker's host, where its operators allow it; the payload is its standard input."""

    model_config = CLOSED
    argv: list[str] = Field(min_length=1, max_length=64)
    timeout: str = Field("60s", pattern=DURATION)


class KafkaRecord(BaseModel):
    """A record, written in the transaction that completes the run; its value is the payload."""

    model_config = CLOSED
    topic: str = Field(pattern=r"^[A-Za-z0-9._-]{1,249}$")
    key: str = ""
    headers: dict[str, str] = {}


class RetryRule(BaseModel):
    """Another rule for errors of one class."""

    model_config = CLOSED
    max_attempts: int | None = Field(None, ge=1, le=100)
    delays: list[str] | None = Field(None, max_length=20)


class Retry(BaseModel):
    """When to try again. What is not given is as by default: 4 attempts, exponential from 1 s with full jitter."""

    model_config = CLOSED
    max_attempts: int | None = Field(None, ge=1, le=100, description="The first one counts")
    backoff: Literal["exponential", "fixed", "list"] | None = None
    delay: str | None = Field(None, description="The first wait, or each", examples=["10s"])
    delays: list[str] | None = Field(None, max_length=20, description="With backoff list: one after the other")
    max_delay: str | None = None
    jitter: bool | None = None
    never: list[str] | None = Field(None, max_length=20, description="Error classes that are not tried again")
    by_class: dict[str, RetryRule] | None = None


class Jitter(BaseModel):
    """A computed spread of a job's fires: each is due later by less than the window."""

    model_config = CLOSED
    window: str = Field(
        pattern=DURATION, examples=["30s"], description="At most 30m, and half of what lies between fires"
    )
    per_fire: bool = Field(False, description="Each fire is moved on its own, instead of all of a job's alike")
    placement: Literal["hash", "balanced"] = Field(
        "hash", description="balanced: the least loaded second of the window, picked once, when the job is saved"
    )
    offset: str | None = Field(None, description="The second that was picked; given, it is not picked", examples=["7s"])


class CatchUp(BaseModel):
    """Bounds of making up for missed fires."""

    model_config = CLOSED
    max: int | None = Field(None, ge=1, le=1000, description="How many run at most with misfire all; else 100")
    window: str | None = Field(
        None, pattern=DURATION, examples=["6h"], description="What is later is skipped; 10s to 365d, else 24h"
    )
    order: Literal["oldest", "newest"] | None = Field(None, description="Which runs go out first; else oldest")


class Timeouts(BaseModel):
    """How long a run may wait for a worker, one attempt may run, and the whole run may take."""

    model_config = CLOSED
    queue: str | None = Field(None, examples=["10m"])
    attempt: str | None = Field(None, examples=["2m"])
    run: str | None = Field(None, examples=["1h"])


class Expectation(BaseModel):
    """Of a job that says `expect_within`: when it succeeded last, and until when the next success is waited for."""

    succeeded_at: str | None = Field(description="When its newest success ended; null: there is none")
    by: str
    overdue: bool


class Placement(BaseModel):
    """The second that a balanced placement picked, and why: a hint about the load, of a moment ago."""

    offset: str
    fire_time: str = Field(description="The fire whose window was looked at")
    due_at_fire_time: int = Field(description="Other jobs' fires that are due in that very second")
    due_at_offset: int = Field(description="And in the second that was picked")
    jobs_counted: int
    is_whole: bool = Field(description="No bound left jobs out")
    words: str
