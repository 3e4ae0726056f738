"""A job event as its sender meant it, whatever its encoding: the value between reading the bytes and judging them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from waterclock.model.job import CommandKind


class Sent(NamedTuple):
    """Its form is known, its content is not checked yet.

    ``document`` is the job's part, in the words of a job document; ``payload`` the payload where it came as bytes of
    its own (Avro), None where it stands in the document, or where there is none. ``pointers`` says where the sender
    wrote what the document calls otherwise, so that a refusal points into the record, not into our reading of it.
    """

    kind: CommandKind
    name: str
    idempotency_key: str
    document: Mapping[str, object]
    expected_revision: int = 0
    note: str = ""
    payload: bytes | None = None
    pointers: Mapping[str, str] = MappingProxyType({})
