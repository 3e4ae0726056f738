"""The records of one run, byte by byte and header by header as the roles write them, made ahead of time.

The raw loops send and answer with these: what they reach is what the log allows, with no logic beside it.
"""

from __future__ import annotations

import random
from functools import partial
from typing import NamedTuple, TypeAlias

from confluent_kafka import KafkaException

from tests.acceptance import dumps
from tests.acceptance.real_stack import wait_for
from waterclock.log.kafka_properties import Properties
from waterclock.log.kafka_topics import ensure_topics
from waterclock.log.port import Outgoing, TopicSpec
from waterclock.model.events import Ended, EventKind, Origin, Pending, RunEvent, Started, WorkRecord
from waterclock.model.ids import format_instant
from waterclock.model.job import Tier
from waterclock.wire.messages import event_message, work_message
from waterclock.wire.names import Names, topic_specs

_NAMES = Names("waterclock")
_REVISION = (1 << 48) + 4_711
_ZONE, _TZDATA = "UTC", "2026a"
EVENTS, WORK, OFFSETS = "raw.run-events", "raw.runs", "raw.commands"
CURSOR = "1|1795000000000000|1|bench:job-4711|"
"""What rides in the dispatcher's offset metadata."""

Raw: TypeAlias = tuple[str, bytes, bytes, list[tuple[str, bytes]]]
"""(topic, value, key, headers), as the client takes them."""


class OfRun(NamedTuple):
    """What is written about one run: by the dispatcher the first two, by the worker the others."""

    pending: Raw
    work: Raw
    started: Raw
    succeeded: Raw


def of_run(job_id: str, fire_at: int) -> OfRun:
    """All four of one run."""
    run_id = f"{job_id}@{format_instant(fire_at)}"
    tier, handler = Tier.MEDIUM, "bench.noop"
    pending = Pending(_REVISION, fire_at, fire_at, tier, Origin.SCHEDULE, "", "default", handler, _ZONE, _TZDATA)
    work = WorkRecord(run_id, fire_at, fire_at, 1, job_id, _REVISION, tier, "default", handler, b"")
    by_worker = ("worker-1", 12, 1 << 48)
    started = Started(_NAMES.runs(tier), 1, 123_456)
    return OfRun(
        _raw(EVENTS, event_message(_NAMES, RunEvent(EventKind.PENDING, job_id, run_id, fire_at, detail=pending))),
        _raw(WORK, work_message(_NAMES, work)),
        _raw(
            EVENTS,
            event_message(
                _NAMES, RunEvent(EventKind.STARTED, job_id, run_id, fire_at, 1, *by_worker[:2], detail=started)
            ),
        ),
        _raw(
            EVENTS,
            event_message(
                _NAMES,
                RunEvent(EventKind.ATTEMPT_SUCCEEDED, job_id, run_id, fire_at, 1, *by_worker, detail=Ended(fire_at)),
            ),
        ),
    )


def of_many(count: int, fire_at: int) -> list[OfRun]:
    """Of so many runs of as many jobs, in the order in which chance has them."""
    numbers = list(range(count))
    random.Random(4_711).shuffle(numbers)
    return [of_run(f"bench:job-{number}", fire_at) for number in numbers]


def _raw(topic: str, message: Outgoing) -> Raw:
    return topic, message.value or b"", message.key, list(message.headers)


def make_topics(bootstrap: str, partitions: int) -> None:
    """The raw loops' own topics, until they answer: a new partition has no leader at first."""
    ensure_topics(bootstrap, topics(partitions))
    for topic in (EVENTS, WORK, OFFSETS):
        wait_for(partial(_answers, bootstrap, topic), f"{topic} answers", 20.0)


def _answers(bootstrap: str, topic: str) -> bool:
    try:
        return bool(dumps.high_watermarks(bootstrap, topic))
    except KafkaException:
        return False


def topics(partitions: int) -> list[TopicSpec]:
    """As those that they stand for."""
    configs = {spec.name: spec.config for spec in topic_specs(_NAMES, partitions)}
    twins = {EVENTS: _NAMES.run_events, WORK: _NAMES.runs(Tier.MEDIUM), OFFSETS: _NAMES.commands}
    append_time = {EVENTS: {"message.timestamp.type": "LogAppendTime"}}
    return [TopicSpec(raw, partitions, configs[twin] | append_time.get(raw, {})) for raw, twin in twins.items()]


def properties(bootstrap: str, client_id: str) -> Properties:
    """The clients are configured as the roles' are."""
    return Properties(
        bootstrap, client_id=client_id, transaction_timeout_s=10.0, session_timeout_s=10.0, extra={}, patient=False
    )
