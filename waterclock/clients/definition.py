"""A job as keyword arguments: the words of the job document, with their types.

The same words as in the command line, the API and JSON job events, checked by the same door
(``waterclock.model.document.spec_from_document``), so that a mistake is told in the caller's own process.
"""

from __future__ import annotations

from typing import Any, Literal, TypedDict


class HttpDefinition(TypedDict, total=False):
    """Call a URL. ``timeout``: such as ``30s``; ``secret``: name of a signing secret in the worker's settings."""

    url: str
    method: str
    headers: dict[str, str]
    timeout: str
    secret: str


class GrpcDefinition(TypedDict, total=False):
    """A unary gRPC call."""

    target: str
    method: str
    metadata: dict[str, str]
    timeout: str
    tls: bool


class ShellDefinition(TypedDict, total=False):
    """A program on the worker's host, where its operators allow it."""

    argv: list[str]
    timeout: str


class KafkaDefinition(TypedDict, total=False):
    """A record, written in the transaction that completes the run."""

    topic: str
    key: str
    headers: dict[str, str]


class ClassRuleDefinition(TypedDict, total=False):
    """Another rule for errors of one class."""

    max_attempts: int
    delays: list[str]


class RetryDefinition(TypedDict, total=False):
    """When a run that failed is tried again."""

    max_attempts: int
    backoff: Literal["exponential", "fixed", "list"]
    delay: str
    delays: list[str]
    max_delay: str
    jitter: bool
    never: list[str]
    by_class: dict[str, ClassRuleDefinition]


class TimeoutsDefinition(TypedDict, total=False):
    """How long an attempt may wait for a worker, how long it may run, how old the whole run may get."""

    queue: str
    attempt: str
    run: str


class JitterDefinition(TypedDict, total=False):
    """A computed spread of the fires. ``per_fire``: each is moved on its own. ``placement``: ``balanced`` is the least
    loaded second of the window, or ``offset``. The API picks it; by Kafka nobody does, so give ``offset`` beside it.
    """

    window: str
    per_fire: bool
    placement: Literal["hash", "balanced"]
    offset: str


class CatchUpDefinition(TypedDict, total=False):
    """Bounds of making up for missed fires."""

    max: int
    window: str
    order: Literal["oldest", "newest"]


class MapDefinition(TypedDict, total=False):
    """What a node is run over: ``over`` (a list, or the name of a node before it), or ``count``."""

    over: list[Any] | str
    count: int
    max: int
    concurrency: int


class NodeDefinition(TypedDict, total=False):
    """One node of a Dag. What it leaves out of a job's words is the job's."""

    name: str
    handler: str
    http: HttpDefinition
    callback_url: str
    grpc: GrpcDefinition
    shell: ShellDefinition
    kafka: KafkaDefinition
    after: list[str]
    trigger_rule: Literal[
        "all_success",
        "all_failed",
        "all_done",
        "all_done_min_one_success",
        "all_skipped",
        "one_success",
        "one_failed",
        "one_done",
        "none_failed",
        "none_failed_min_one_success",
        "none_skipped",
        "always",
    ]
    inputs: list[str]
    map: MapDefinition
    branch: bool
    tier: Literal["high", "medium", "low"]
    priority: str
    pool: str
    payload: Any
    payload_base64: str
    at_most_once: bool
    retry: RetryDefinition | Literal[False]
    timeouts: TimeoutsDefinition


class DagDefinition(TypedDict, total=False):
    """Nodes that wait for each other."""

    nodes: list[NodeDefinition]
    max_active_nodes: int
    timeout: str


class RunEndsDefinition(TypedDict, total=False):
    """A run of ``job``, one of the same tenant, ends so (``succeeded``, unless it says otherwise)."""

    job: str
    ended: Literal["succeeded", "failed", "any"]


class RecordComesDefinition(TypedDict, total=False):
    """A record is appended to ``topic``, with each of these ``headers``."""

    topic: str
    headers: dict[str, str]


class TriggersDefinition(TypedDict, total=False):
    """What starts a job, ``any`` or ``all``: each end that meets a condition, or what comes ``within`` a window."""

    any: list[RunEndsDefinition | RecordComesDefinition]
    all: list[RunEndsDefinition | RecordComesDefinition]
    within: str


class JobDefinition(TypedDict, total=False):
    """One way to the work (``handler``, ``http``, ``callback_url``, ``grpc``, ``shell``, ``kafka``, ``dag``), one
    schedule (``cron``, ``every``, ``delay``, ``at``, ``dates``) or ``on``, and the rest. Durations as ``5m``, instants
    as RFC 3339. ``calendars`` are for the HTTP client alone: by Kafka nobody looks them up, and they are refused.
    """

    handler: str
    http: HttpDefinition
    callback_url: str
    grpc: GrpcDefinition
    shell: ShellDefinition
    kafka: KafkaDefinition
    dag: DagDefinition
    cron: str
    zone: str
    seconds: bool
    gap: Literal["auto", "shift", "skip"]
    fold: Literal["auto", "first", "both"]
    every: str
    start_at: str
    delay: str
    at: str
    dates: list[str]
    on: TriggersDefinition
    active_from: str
    active_until: str
    jitter: JitterDefinition | str
    misfire: Literal["latest", "skip", "all"]
    catch_up: CatchUpDefinition
    pause_after_failures: int
    max_runs: int
    overlap: Literal["allow", "skip", "buffer_one", "buffer_all", "cancel_other", "terminate_other", "sequential"]
    max_concurrent: int
    concurrency_key: str
    max_concurrent_per_key: int
    max_held: int
    expect_within: str
    calendars: list[str]
    on_calendar: Literal["skip", "next_allowed"]
    tier: Literal["high", "medium", "low"]
    priority: str
    pool: str
    payload: Any
    payload_base64: str
    at_most_once: bool
    retry: RetryDefinition | Literal[False]
    timeouts: TimeoutsDefinition


class JobChanges(TypedDict, total=False):
    """What ``update`` by HTTP changes of a job: the same words, and None takes what stands there away."""

    handler: str | None
    http: HttpDefinition | None
    callback_url: str | None
    grpc: GrpcDefinition | None
    shell: ShellDefinition | None
    kafka: KafkaDefinition | None
    dag: DagDefinition | None
    cron: str | None
    zone: str | None
    seconds: bool | None
    gap: Literal["auto", "shift", "skip"] | None
    fold: Literal["auto", "first", "both"] | None
    every: str | None
    start_at: str | None
    delay: str | None
    at: str | None
    dates: list[str] | None
    on: TriggersDefinition | None
    active_from: str | None
    active_until: str | None
    jitter: JitterDefinition | str | None
    misfire: Literal["latest", "skip", "all"] | None
    catch_up: CatchUpDefinition | None
    pause_after_failures: int | None
    max_runs: int | None
    overlap: (
        Literal["allow", "skip", "buffer_one", "buffer_all", "cancel_other", "terminate_other", "sequential"] | None
    )
    max_concurrent: int | None
    concurrency_key: str | None
    max_concurrent_per_key: int | None
    max_held: int | None
    expect_within: str | None
    calendars: list[str] | None
    on_calendar: Literal["skip", "next_allowed"] | None
    tier: Literal["high", "medium", "low"] | None
    priority: str | None
    pool: str | None
    payload: Any
    payload_base64: str | None
    at_most_once: bool | None
    retry: RetryDefinition | Literal[False] | None
    timeouts: TimeoutsDefinition | None
