"""The verbs of a client that writes job events: each becomes one record for ``job-events``.

Why job-events and not ``commands``: it is the topic that strangers may write to, with any partitioner; the intake
checks each record again and re-keys it. What must hold: what the intake would refuse for its content is refused here,
before it is sent (RequestError with pointer and hint); every record has an id of its own (``ce_id``), so that a record
that arrives twice is obeyed once. How it fails: a refusal that only the shard owner can know (no such job, another
revision) is not told to the sender: it is a record on ``rejects``, and an ANSWERED on ``run-events``.
"""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from typing import Any, NamedTuple, Unpack

import orjson

from waterclock.clock import SystemClock
from waterclock.log.port import Outgoing
from waterclock.model.document import PAYLOAD_MAX, spec_from_document
from waterclock.model.errors import RequestError
from waterclock.model.ids import generated_name, make_job_id
from waterclock.model.job import Command, CommandKind, JobSpec
from waterclock.model.job_event import document_of, event_of
from waterclock.model.order_words import checked_key, checked_note, checked_revision
from waterclock.model.plain_json import NotJson, to_json
from waterclock.wire import headers
from waterclock.wire.codec import encode_job_event

from .definition import JobDefinition

_JSON: headers.Pair = ("content-type", b"application/json")


class Receipt(NamedTuple):
    """A job event that was sent. ``partition`` and ``offset`` are -1 while only a later commit will tell them.

    It is in the log, and not yet obeyed: ``command_id`` is what the ANSWERED on ``run-events`` will name.
    """

    job_id: str
    command_id: str
    topic: str
    partition: int = -1
    offset: int = -1


class JobEvents(ABC):
    """Makes the records; how they are sent is the heir's. ``tenant`` is the one that ``topic`` is bound to."""

    def __init__(self, topic: str, tenant: str) -> None:
        self._topic = topic
        self._tenant = tenant

    def create(
        self, name: str = "", *, idempotency_key: str = "", note: str = "", **job: Unpack[JobDefinition]
    ) -> Receipt:
        """Define a job, or say again what it is. Without a name it gets one made from ``idempotency_key``."""
        command_id = _new_id()
        job_id = make_job_id(self._tenant, name or generated_name(self._tenant, idempotency_key or command_id))
        spec = spec_from_document(job, job_id=job_id)
        return self._order(CommandKind.CREATE, job_id, command_id, spec, None, 0, idempotency_key, note)

    def update(
        self,
        name: str,
        *,
        expected_revision: int = 0,
        idempotency_key: str = "",
        note: str = "",
        **job: Unpack[JobDefinition],
    ) -> Receipt:
        """Give an existing job another definition, in full. ``expected_revision`` 0: whatever stands."""
        job_id = make_job_id(self._tenant, name)
        spec = spec_from_document(job, job_id=job_id)
        return self._order(CommandKind.UPDATE, job_id, "", spec, None, expected_revision, idempotency_key, note)

    def pause(self, name: str, *, expected_revision: int = 0, idempotency_key: str = "", note: str = "") -> Receipt:
        """Stop the job from firing; its fires count as paused until it is resumed."""
        return self._plain(CommandKind.PAUSE, name, expected_revision, idempotency_key, note)

    def resume(self, name: str, *, expected_revision: int = 0, idempotency_key: str = "", note: str = "") -> Receipt:
        """Let a paused job fire again."""
        return self._plain(CommandKind.RESUME, name, expected_revision, idempotency_key, note)

    def delete(self, name: str, *, expected_revision: int = 0, idempotency_key: str = "", note: str = "") -> Receipt:
        """End the job. Its history stays."""
        return self._plain(CommandKind.DELETE, name, expected_revision, idempotency_key, note)

    def trigger(self, name: str, *, payload: Any = None, idempotency_key: str = "", note: str = "") -> Receipt:
        """One run now. ``payload`` (bytes, or any JSON value) stands in for the job's own, this once."""
        body = _payload(payload)
        return self._order(
            CommandKind.TRIGGER, make_job_id(self._tenant, name), "", None, body, 0, idempotency_key, note
        )

    @abstractmethod
    def _send(self, message: Outgoing, receipt: Receipt) -> Receipt: ...

    def _plain(self, kind: CommandKind, name: str, expected_revision: int, key: str, note: str) -> Receipt:
        return self._order(kind, make_job_id(self._tenant, name), "", None, None, expected_revision, key, note)

    def _order(
        self,
        kind: CommandKind,
        job_id: str,
        command_id: str,
        spec: JobSpec | None,
        payload: bytes | None,
        expected_revision: int,
        idempotency_key: str,
        note: str,
    ) -> Receipt:
        command = Command(
            kind=kind,
            job_id=job_id,
            command_id=command_id or _new_id(),
            actor="",
            at=SystemClock().now(),
            expected_revision=checked_revision(expected_revision),
            spec=spec,
            payload=payload,
            note=checked_note(note),
            idempotency_key=checked_key(idempotency_key),
        )
        return self._send(_message(self._topic, command), Receipt(job_id, command.command_id, self._topic))


def _message(topic: str, command: Command) -> Outgoing:
    """Keyed by the job, so that a client's changes of one job keep their order.

    As JSON where the Avro record has no field for what the job says: it would be gone without a word.
    """
    is_avro = command.spec is None or not command.spec.timing.balanced
    story = (
        ("ce_type", f"io.waterclock.job.{command.kind.value.lower()}".encode()),
        ("ce_subject", command.job_id.encode()),
        headers.time(command.at),
        ("ce_id", command.command_id.encode()),
        ("ce_source", b"/waterclock/client/python"),
        headers.SPEC,
        headers.AVRO if is_avro else _JSON,
    )
    value = encode_job_event(event_of(command)) if is_avro else orjson.dumps(document_of(command))
    return Outgoing(topic, command.job_id.encode(), value, story)


def _new_id() -> str:
    return uuid.uuid4().hex


def _payload(value: Any) -> bytes | None:
    if value is None or isinstance(value, bytes):
        raw = value
    else:
        try:
            raw = to_json(value)
        except NotJson as error:
            raise RequestError(
                f"The payload is not JSON: {str(error)[:120]}", pointer="/payload", hint="Give bytes, or a JSON value"
            ) from None
    if raw is not None and len(raw) > PAYLOAD_MAX:
        raise RequestError(
            f"The payload has {len(raw)} bytes",
            pointer="/payload",
            hint=f"At most {PAYLOAD_MAX}: pass a reference instead",
        )
    return raw
