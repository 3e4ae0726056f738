"""Avro single-object framing: ``C3 01``, the 8 bytes of the writer schema's fingerprint, the body.

Must hold: a record over the cap is refused before anything of it is decoded; a fingerprint that we did not release is
refused by name. Fails with UndecodableRecord, whose hint says what the bytes look like instead.
"""

from __future__ import annotations

from waterclock.model.errors import RequestError, UndecodableRecord

MAGIC = b"\xc3\x01"
BODY_AT = 10
"""Where the body begins."""

RECORD_MAX = 256 * 1024
"""Bytes of a framed record of our own, at most."""

CARRIER_MAX = 768 * 1024
"""The same for records that carry another record whole (rejects, dead letters)."""


def fingerprint_of(data: bytes, limit: int = CARRIER_MAX) -> bytes:
    """The fingerprint in a frame; raises UndecodableRecord for bytes over ``limit`` and for any other framing."""
    if len(data) > limit:
        raise UndecodableRecord(f"a record of {len(data)} bytes is over the cap of {limit}")
    if data[:2] != MAGIC or len(data) < BODY_AT:
        raise UndecodableRecord(
            f"no Avro single object: it begins with {data[:4].hex() or 'nothing'}", hint=_hint(data)
        )
    return data[2:BODY_AT]


def checked(data: bytes, limit: int = RECORD_MAX) -> bytes:
    """``data`` itself; raises RequestError where it is over ``limit``, so that nobody writes what nobody may read."""
    if len(data) > limit:
        raise RequestError(
            f"a record of {len(data)} bytes is over the cap of {limit}",
            hint="Keep large data elsewhere and put a reference to it into the payload",
        )
    return data


def _hint(data: bytes) -> str:
    if data[:1] == b"\x00":
        return "This looks like Confluent framing; write Avro single objects (C3 01 and the schema's fingerprint)"
    if data[:1] == b"{":
        return "This looks like JSON, which is taken on job-events only"
    return "Write Avro single objects (C3 01 and the schema's fingerprint)"
