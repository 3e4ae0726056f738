"""From a record's bytes to what was sent: which of the four framings it is, and the one decoder of each.

| first bytes | framing |
|---|---|
| ``C3 01``, 8 bytes of fingerprint | Avro single object: no registry |
| ``00``, 4 bytes of id | Confluent; the registry says which of our released schemas that is |
| ``01``, 16 bytes of GUID | Confluent with the GUID; the same |
| ``{`` | JSON |

A header ``__value_schema_id`` holds the Confluent prefix in place of the value. What must hold: nothing is decoded
with a schema that we did not release, whatever a registry says, and nothing over the cap is decoded at all. How it
fails: UndecodableRecord or RequestError for the record; BackendDown while the registry is needed and does not answer.
"""

from __future__ import annotations

from typing import NoReturn, Protocol

from waterclock.log.port import UNREADABLE, Headers
from waterclock.model.errors import UndecodableRecord
from waterclock.wire.codec import decode_job_event
from waterclock.wire.framing import MAGIC, RECORD_MAX
from waterclock.wire.schemata import Schema

from .avro_form import from_record
from .json_form import read_json_event
from .sent import Sent

SCHEMA_ID_HEADER = "__value_schema_id"

_ID_BYTES = {0: 5, 1: 17}
"""Length of a Confluent prefix, by its first byte."""

_GIVEN_ID_BYTES_MAX = 17
_JSON_TYPES = ("", "application/json", "text/json", "application/octet-stream")
_BLANKS = b" \t\r\n"


class Writers(Protocol):
    """Tells the schema that a Confluent prefix stands for."""

    def written_with(self, prefix: bytes) -> Schema:
        """One of our released schemas. Raises UndecodableRecord for any other, BackendDown."""
        ...


def read_event(value: bytes | None, headers: Headers, writers: Writers) -> Sent:
    """What was sent. Raises UndecodableRecord, RequestError, BackendDown."""
    if not value:
        _refuse("the record has no value", "Send an Avro record or a JSON document; a tombstone deletes no job")
    if len(value) > RECORD_MAX:
        _refuse(
            f"the record has {len(value)} bytes, over the cap of {RECORD_MAX}",
            "Keep large data elsewhere and put a reference to it into the payload",
        )
    if headers == UNREADABLE:
        _refuse("the name of one of its headers is not UTF-8", "Name headers in UTF-8, best in ASCII")
    prefix = header(headers, SCHEMA_ID_HEADER)
    if prefix:
        return _by_registry(prefix, value, writers)
    if value[:2] == MAGIC:
        return from_record(decode_job_event(value))
    if value[0] in _ID_BYTES:
        length = _ID_BYTES[value[0]]
        return _by_registry(value[:length], value[length:], writers)
    if value.lstrip(_BLANKS)[:1] != b"{":
        _refuse(
            f"this is neither Avro nor JSON: it begins with {value[:4].hex()}",
            "Send an Avro single object (C3 01 and the schema's fingerprint) or a JSON object",
        )
    _check_content_type(headers)
    return read_json_event(value)


def header(headers: Headers, name: str) -> bytes:
    """The first header of that name, in any case; b"" where there is none."""
    return next((value or b"" for known, value in headers if known.lower() == name), b"")


def _by_registry(prefix: bytes, body: bytes, writers: Writers) -> Sent:
    if len(prefix) > _GIVEN_ID_BYTES_MAX or len(prefix) != _ID_BYTES.get(prefix[0], 0):
        _refuse(f"{prefix[:20].hex()} is no schema id", "Confluent framing is 00 and 4 bytes, or 01 and 16 bytes")
    return from_record(decode_job_event(writers.written_with(prefix).frame + body))


def _check_content_type(headers: Headers) -> None:
    given = header(headers, "content-type").decode(errors="replace").partition(";")[0].strip().lower()
    if given not in _JSON_TYPES:
        _refuse(
            f"the value is JSON, but its content-type is {given[:60]!r}",
            "Set the header content-type to application/json; envelopes such as cloudevents+json are not read",
        )


def _refuse(message: str, hint: str) -> NoReturn:
    raise UndecodableRecord(message, hint=hint)
