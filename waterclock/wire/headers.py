"""The text headers of what we write: CloudEvents 1.0 in Kafka's binary mode, and a few of our own.

Avro is for programs; these are for people: ``kcat -f '%k | %h\\n'`` tells the story of a run. UTF-8 text, under 1 KiB
in all, what a person wants first comes first. They repeat what the record says and decide nothing: no reader of ours
trusts a header, but for the two that say how long a record waits on a delay topic (``retry_router/hops.py``). Pairs
that come again are made once and kept.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TypeAlias

from waterclock.log.port import Headers
from waterclock.model.events import EventKind, SourceRecord
from waterclock.model.ids import US_PER_S, Instant, tenant_of_job

Pair: TypeAlias = tuple[str, bytes]

SPEC: Pair = ("ce_specversion", b"1.0")
AVRO: Pair = ("content-type", b"application/avro")
TAIL: Headers = (SPEC, AVRO)

TEXT_MAX = 200
"""Bytes of a header that quotes somebody's text."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

WORDS = {kind: kind.value.removeprefix("RUN_").lower().replace("_", "-") for kind in EventKind} | {
    EventKind.ATTEMPT_SUCCEEDED: "succeeded",  # it ends the run; the other outcomes of an attempt wait for a verdict
}
"""How an event is called in ``ce_type`` and at the end of its id: pending, started, attempt-failed, succeeded ..."""

EVENT_TYPE: dict[EventKind, Pair] = {
    kind: ("ce_type", f"io.waterclock.run.{word}".encode()) for kind, word in WORDS.items()
} | {
    EventKind.REVISED: ("ce_type", b"io.waterclock.job.revised"),
    EventKind.ANSWERED: ("ce_type", b"io.waterclock.job.answered"),
    EventKind.BACKFILL: ("ce_type", b"io.waterclock.job.backfill"),
}

_DISPATCHER = {
    EventKind.PENDING,
    EventKind.HELD,
    EventKind.SKIPPED,
    EventKind.CANCEL_REQUESTED,
    EventKind.DAG_PAUSED,
    EventKind.DAG_RESUMED,
    EventKind.REVISED,
    EventKind.ANSWERED,
    EventKind.BACKFILL,
}
_DAG_ENGINE = {EventKind.DAG_SUCCEEDED, EventKind.DAG_FAILED, EventKind.NODE_SKIPPED}
_ROUTER = {EventKind.ATTEMPT_LOST, EventKind.RETRYING, EventKind.RUN_FAILED, EventKind.RUN_EXPIRED}


@lru_cache(maxsize=4_096)
def source(prefix: str, role: str, instance: str = "") -> Pair:
    """Who says it: ``/waterclock/dispatcher``, ``/waterclock/workers/<worker>``. With ``ce_id`` it names one fact."""
    return "ce_source", (f"/{prefix}/{role}/{instance}" if instance else f"/{prefix}/{role}").encode()


def event_source(prefix: str, kind: EventKind, worker: str) -> Pair:
    """The source of an event, by the role that alone may say it (design §4)."""
    if kind in _DISPATCHER:
        return source(prefix, "dispatcher")
    if kind in _ROUTER:
        return source(prefix, "retry-router")
    if kind in _DAG_ENGINE:
        return source(prefix, "dag-engine")
    return source(prefix, "workers", worker)


@lru_cache(maxsize=16_384)
def tenant(job_id: str) -> Pair:
    """The tenant of a job."""
    return "waterclock-tenant", tenant_of_job(job_id).encode()


@lru_cache(maxsize=256)
def attempt(number: int) -> Pair:
    """Which attempt."""
    return "waterclock-attempt", str(number).encode()


@lru_cache(maxsize=8_192)
def time(at: Instant) -> Pair:
    """When, as RFC 3339 in UTC with microseconds where there are any."""
    second, fraction = divmod(at, US_PER_S)
    return "ce_time", f"{_second_text(second)}.{fraction:06d}Z".encode() if fraction else _second_text(
        second
    ).encode() + b"Z"


def origin(record: SourceRecord) -> Pair:
    """Where a record came from: ``<topic>/<partition>/<offset>``."""
    return "waterclock-origin", f"{record.topic}/{record.partition}/{record.offset}".encode()


def cause(error_class: str, fingerprint: str) -> Pair:
    """What dead letters are grouped by: ``<error class>/<fingerprint>``, bounded."""
    return "waterclock-cause", f"{_line(error_class)}/{fingerprint}".encode()


def error(text: str) -> Pair:
    """What went wrong, on one line and bounded."""
    return "waterclock-error", _line(text).encode()


def _line(text: str) -> str:
    return " ".join(text.split()).encode()[:TEXT_MAX].decode(errors="ignore")


@lru_cache(maxsize=4_096)
def _second_text(second: int) -> str:
    return (_EPOCH + timedelta(seconds=second)).isoformat().removesuffix("+00:00")
