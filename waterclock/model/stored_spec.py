"""The stored form of a job: what is kept of it in tables and envelopes.

For ourselves: short, fast, and trusted, because only a spec that was checked is stored. What must hold: it is read back
as it was, payload bytes included. It is on-disk format (``jobs.spec``, ``due.env``): keys may be added, none may change
its meaning. How it fails: a form of a later release raises one of ``NOT_UNDERSTOOD``.
"""

from __future__ import annotations

import binascii
from collections.abc import Mapping
from typing import Any

import orjson

from .concurrency import concurrency_from_json, concurrency_to_json
from .dag import dag_from_stored, dag_to_stored
from .executor import executor_from_stored, executor_to_stored
from .failure_policy import policy_from_json, policy_to_json
from .job import Cron, Dates, Delay, Every, Fold, Gap, JobSpec, Once, Schedule, Tier
from .timing import timing_from_json, timing_to_json
from .triggers import triggers_from_json, triggers_to_json

NOT_UNDERSTOOD = (ValueError, KeyError, TypeError)
"""What the decoding of a stored form raises that holds what this release does not know."""


def spec_to_json(spec: JobSpec) -> bytes:
    """The stored form: compact JSON, the payload as base64. Exact inverse: :func:`spec_from_json`."""
    stored: dict[str, object] = {"handler": spec.handler, "tier": int(spec.tier), "pool": spec.pool}
    stored |= _schedule_to_stored(spec.schedule)
    if spec.payload:
        stored["payload"] = binascii.b2a_base64(spec.payload, newline=False).decode()
    if spec.executor is not None:
        stored["executor"] = executor_to_stored(spec.executor)
    if spec.at_most_once:
        stored["at_most_once"] = True
    if policy := policy_to_json(spec.policy):
        stored["policy"] = policy
    if timing := timing_to_json(spec.timing):
        stored["timing"] = timing
    if concurrency := concurrency_to_json(spec.concurrency):
        stored["concurrency"] = concurrency
    if spec.dag is not None:
        stored["dag"] = dag_to_stored(spec.dag)
    if on := triggers_to_json(spec.on):
        stored["on"] = on
    return orjson.dumps(stored)


def spec_from_json(stored: bytes | str) -> JobSpec:
    """The spec of a stored form. Trusted input: nothing is checked."""
    parts = orjson.loads(stored)
    payload = parts.get("payload")
    body = binascii.a2b_base64(payload) if payload else b""
    executor = executor_from_stored(parts["executor"]) if "executor" in parts else None
    once = parts.get("at_most_once", False)
    rules = policy_from_json(parts.get("policy", "")), timing_from_json(parts.get("timing", ""))
    beside = concurrency_from_json(parts.get("concurrency", ""))
    dag = dag_from_stored(parts["dag"]) if "dag" in parts else None
    rest: tuple[Any, ...] = (beside, dag, triggers_from_json(parts.get("on", "")))
    return JobSpec(
        parts["handler"],
        _schedule_from_stored(parts),
        Tier(parts["tier"]),
        parts["pool"],
        body,
        executor,
        once,
        *rules,
        *rest,
    )


def _schedule_to_stored(schedule: Schedule) -> dict[str, object]:
    match schedule:
        case Cron():
            return {"cron": (schedule.text, schedule.zone, schedule.seconds, schedule.gap, schedule.fold)}
        case Every():
            return {"every": (schedule.every_us, schedule.start_at)}
        case Once():
            return {"at": schedule.at}
        case Delay():
            return {"delay": schedule.delay_us}
        case Dates():
            return {"dates": schedule.times}


def _schedule_from_stored(parts: Mapping[str, Any]) -> Schedule:
    if (cron := parts.get("cron")) is not None:
        text, zone, seconds, gap, fold = cron
        return Cron(text, zone, seconds, Gap(gap), Fold(fold))
    if (every := parts.get("every")) is not None:
        return Every(every[0], every[1])
    if (dates := parts.get("dates")) is not None:
        return Dates(tuple(dates))
    if (delay := parts.get("delay")) is not None:
        return Delay(delay)
    return Once(parts["at"])
