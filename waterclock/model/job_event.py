"""A job event as the record says it: what other services send. Nothing of it is checked; the intake's door does that.

The fields are those of ``schemas/avro/job_event.avsc``, in its order and with its defaults: by name, and on the wire.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import orjson

from .concurrency import Concurrency
from .document import dag_document, spec_to_document
from .executor import executor_to_stored
from .failure_policy import Backoff, FailurePolicy
from .ids import US_PER_S, Instant
from .job import Command, CommandKind, Cron, Dates, Delay, Every, JobSpec, Once, Schedule
from .policy_document import says_retry
from .timing import PLAIN, Timing
from .triggers_document import triggers_to_document

Part: TypeAlias = Mapping[str, Any]
"""A nested record, by field name."""


class JobEvent(NamedTuple):
    """One event. ``tier``, ``gap`` and ``fold`` are symbols of the schema, such as ``HIGH``; instants are UTC."""

    kind: CommandKind
    name: str = ""
    idempotency_key: str = ""
    cron: str | None = None
    zone: str = "UTC"
    seconds: bool = False
    gap: str = "AUTO"
    fold: str = "AUTO"
    every_us: int | None = None
    start_at: Instant | None = None
    once_at: Instant | None = None
    tier: str = "MEDIUM"
    pool: str = "default"
    handler: str = ""
    payload: bytes | None = None
    expected_revision: int = 0
    note: str = ""
    http: Part | None = None
    grpc: Part | None = None
    shell: Part | None = None
    kafka: Part | None = None
    at_most_once: bool = False
    retry: Part | None = None
    timeouts: Part | None = None
    dates: Sequence[Instant] | None = None
    active_from_at: Instant | None = None
    active_until_at: Instant | None = None
    misfire: str = "LATEST"
    catch_up: Part | None = None
    jitter: Part | None = None
    overlap: str = "ALLOW"
    max_concurrent: int = 0
    concurrency_key: str = ""
    max_concurrent_per_key: int = 0
    max_held: int = 0
    expect_within_s: int = 0
    pause_after_failures: int = 0
    max_runs: int = 0
    dag: str = ""
    on: str = ""
    delay_us: int | None = None


def event_of(command: Command) -> JobEvent:
    """The event that asks for what ``command`` orders: for clients that write to job-events. It holds no tenant."""
    event = JobEvent(
        kind=command.kind,
        name=command.job_id.partition(":")[2],
        idempotency_key=command.idempotency_key,
        payload=command.payload,
        expected_revision=command.expected_revision,
        note=command.note,
    )
    return event if command.spec is None else event._replace(**_spec_parts(command.spec))


def document_of(command: Command) -> dict[str, Any]:
    """The same as a JSON event, which has a word for all that a job can say."""
    said = {
        "kind": command.kind.value,
        "name": command.job_id.partition(":")[2],
        "idempotency_key": command.idempotency_key,
        "expected_revision": command.expected_revision,
        "note": command.note,
    }
    return said if command.spec is None else said | spec_to_document(command.spec)


def _spec_parts(spec: JobSpec) -> dict[str, Any]:
    parts = {
        "handler": spec.handler,
        "tier": spec.tier.name,
        "pool": spec.pool,
        "payload": spec.payload or None,
        "at_most_once": spec.at_most_once,
        **_schedule_parts(spec.schedule),
    }
    parts |= _policy_parts(spec.policy) | _timing_parts(spec.timing) | _concurrency_parts(spec.concurrency)
    if spec.dag is not None:
        parts["dag"] = orjson.dumps(dag_document(spec.dag)).decode()
    if spec.on is not None:
        parts["on"] = orjson.dumps(triggers_to_document(spec.on)["on"]).decode()
    if spec.executor is not None:
        ((word, stored),) = executor_to_stored(spec.executor).items()
        parts[word] = _record(stored)
    return parts


def _schedule_parts(schedule: Schedule) -> dict[str, Any]:
    match schedule:
        case Cron():
            rules = {"gap": schedule.gap.name, "fold": schedule.fold.name}
            return {"cron": schedule.text, "zone": schedule.zone, "seconds": schedule.seconds, **rules}
        case Every():
            return {"every_us": schedule.every_us, "start_at": schedule.start_at}
        case Once():
            return {"once_at": schedule.at}
        case Dates():
            return {"dates": list(schedule.times) or None}
        case Delay():
            return {"delay_us": schedule.delay_us}


def _policy_parts(policy: FailurePolicy) -> dict[str, Part]:
    """``retry`` and ``timeouts``, each where it says something else than the default: beside ``at_most_once`` a
    ``retry`` is refused.
    """
    limits = {
        "queue_s": policy.queue_timeout_us,
        "attempt_s": policy.attempt_timeout_us,
        "run_s": policy.run_timeout_us,
    }
    parts: dict[str, Part] = {"retry": _retry_part(policy)} if says_retry(policy) else {}
    if any(limits.values()):
        parts["timeouts"] = {name: us // US_PER_S for name, us in limits.items()}
    return parts


def _timing_parts(timing: Timing) -> dict[str, Any]:
    """Each part where it says something else than the default, and then in full."""
    parts: dict[str, Any] = {
        "active_from_at": timing.from_at or None,
        "active_until_at": timing.until_at or None,
        "misfire": timing.misfire.name,
        "pause_after_failures": timing.pause_after_failures,
        "max_runs": timing.max_runs,
    }
    if timing.expect_within_us:
        parts["expect_within_s"] = timing.expect_within_us // US_PER_S
    if timing.jitter_us:
        parts["jitter"] = {"window_s": timing.jitter_us // US_PER_S, "per_fire": timing.jitter_per_fire}
    catch_up = (timing.catch_up_max, timing.catch_up_window_us, timing.catch_up_order)
    if catch_up != (PLAIN.catch_up_max, PLAIN.catch_up_window_us, PLAIN.catch_up_order):
        window_s = timing.catch_up_window_us // US_PER_S
        parts["catch_up"] = {"max": timing.catch_up_max, "window_s": window_s, "order": timing.catch_up_order.name}
    return parts


def _concurrency_parts(concurrency: Concurrency) -> dict[str, Any]:
    return {
        "overlap": concurrency.overlap.name,
        "max_concurrent": concurrency.max_concurrent,
        "concurrency_key": concurrency.key,
        "max_concurrent_per_key": concurrency.max_per_key,
        "max_held": concurrency.max_held,
    }


def _retry_part(policy: FailurePolicy) -> Part:
    """In full, in whole seconds, as documents have them."""
    is_list = policy.backoff is Backoff.LIST
    return {
        "max_attempts": policy.max_attempts,
        "backoff": policy.backoff.name,
        "delay_s": 0 if is_list else policy.delays_us[0] // US_PER_S,
        "delays_s": _seconds(policy.delays_us) if is_list else [],
        "max_delay_s": policy.max_delay_us // US_PER_S,
        "jitter": policy.jitter,
        "never": list(policy.never),
        "by_class": [
            {"error_class": each.error_class, "max_attempts": each.max_attempts, "delays_s": _seconds(each.delays_us)}
            for each in policy.by_class
        ],
    }


def _seconds(times_us: Iterable[int]) -> list[int]:
    return [us // US_PER_S for us in times_us]


def _record(stored: Part) -> Part:
    """An executor's stored form as the nested record: pairs become records, whole seconds, defaults left to Avro."""
    record = dict(stored)
    for key in ("headers", "metadata"):
        if key in record:
            record[key] = [{"name": name, "value": value} for name, value in record[key]]
    if "timeout_s" in record:
        record["timeout_s"] = int(record["timeout_s"])
    if "argv" in record:
        record["argv"] = list(record["argv"])
    return record
