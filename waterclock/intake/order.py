"""From what was sent to the command that it asks for: the door of job-events, the same checks as every other door's.

Pure but for the question whether a pool has topics. What must hold: the command follows from the record, its
coordinates and the settings alone, so that a record which is read twice makes the same command twice, and the shard
owner sees the repeat. How it fails: RequestError with a pointer into the record.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple, NoReturn

from waterclock.model.document import PAYLOAD_MAX, payload_from_document, spec_from_document
from waterclock.model.errors import RequestError
from waterclock.model.ids import Instant, generated_name, make_job_id
from waterclock.model.job import Command, CommandKind, JobSpec
from waterclock.model.order_words import checked_key, checked_note
from waterclock.model.schedule import AT_MAX
from waterclock.wire.pools import Pools

from .sent import Sent

API_ID_PREFIX = "api-"
"""Begins the command ids of the HTTP API: by them it knows the answers to its own callers."""

_BRINGS_SPEC = frozenset({CommandKind.CREATE, CommandKind.UPDATE})
_PAYLOAD_KEYS = ("payload", "payload_base64")


class Envelope(NamedTuple):
    """What is known of the record beside its value. ``sent_at`` is its record time, whatever that may be.

    ``event_id`` is its ``ce_id`` and ``key`` its ``idempotency-key``, "" where there is no such header.
    """

    tenant: str
    coordinates: str
    sent_at: Instant
    event_id: str = ""
    key: str = ""


def command_of(sent: Sent, envelope: Envelope, pools: Pools | None) -> Command:
    """The command for the shard owner. Without ``pools`` no pool is looked for. Raises RequestError, BackendDown."""
    try:
        return _command(sent, envelope, pools)
    except RequestError as error:
        error.pointer = sent.pointers.get(error.pointer, error.pointer)
        raise


def _command(sent: Sent, envelope: Envelope, pools: Pools | None) -> Command:
    key = _checked_key(sent.idempotency_key, envelope)
    if envelope.event_id.startswith(API_ID_PREFIX):
        _refuse(
            "", f"the header ce_id begins with {API_ID_PREFIX!r}, as the ids of the HTTP API do", "Choose another id"
        )
    command_id = envelope.event_id or envelope.coordinates
    job_id = make_job_id(envelope.tenant, _name(sent, envelope.tenant, key or command_id))
    spec = _spec(sent, job_id, pools) if sent.kind in _BRINGS_SPEC else None
    return Command(
        kind=sent.kind,
        job_id=job_id,
        command_id=command_id,
        actor=envelope.coordinates.partition("/")[0],
        at=envelope.sent_at if 0 <= envelope.sent_at < AT_MAX else 0,
        expected_revision=sent.expected_revision,
        spec=spec,
        payload=None if spec is not None else _replaced_payload(sent),
        note=checked_note(sent.note),
        idempotency_key=key,
    )


def _name(sent: Sent, tenant: str, intention: str) -> str:
    """The job's name: given, or made of what names this intention, so that a repeat makes one job."""
    if sent.name:
        return sent.name
    if sent.kind is not CommandKind.CREATE:
        _refuse("/name", f"{sent.kind.value} needs the name of a job", "Only CREATE may leave it out")
    return generated_name(tenant, intention)


def _spec(sent: Sent, job_id: str, pools: Pools | None) -> JobSpec:
    spec = spec_from_document(sent.document, job_id=job_id)
    if sent.payload is not None:
        spec = replace(spec, payload=_fitting(sent.payload))
    if pools is not None:
        pools.check(spec.tier, spec.pool)
    return spec


def _replaced_payload(sent: Sent) -> bytes | None:
    """The payload of a TRIGGER; the verbs that bring no job may bring nothing of one."""
    is_trigger = sent.kind is CommandKind.TRIGGER
    strange = _first(key for key in sent.document if not is_trigger or key not in _PAYLOAD_KEYS)
    if strange:
        _refuse(f"/{strange[:80]}", f"{strange[:80]!r} goes with CREATE and UPDATE alone", "Leave it out")
    if sent.payload is not None:
        if not is_trigger:
            _refuse("/payload", f"{sent.kind.value} brings no payload", "Leave it out")
        return _fitting(sent.payload)
    return payload_from_document(sent.document) if sent.document else None


def _fitting(payload: bytes) -> bytes:
    if len(payload) > PAYLOAD_MAX:
        hint = f"At most {PAYLOAD_MAX}: pass a reference instead"
        _refuse("/payload", f"The payload has {len(payload)} bytes", hint)
    return payload


def _checked_key(own: str, envelope: Envelope) -> str:
    """The idempotency key: the record's own, or its header's. Two that differ name two intentions."""
    if own and envelope.key and own != envelope.key:
        _refuse("/idempotency_key", "It differs from the header idempotency-key", "Give it once")
    return checked_key(own or envelope.key)


def _first(words: Iterable[str]) -> str:
    return next(iter(words), "")


def _refuse(pointer: str, message: str, hint: str) -> NoReturn:
    raise RequestError(message, pointer=pointer, hint=hint)
