"""Records as an earlier release wrote them: by a schema that lacks a field."""

from __future__ import annotations

import io

import pytest
from fastavro import schemaless_writer

from waterclock.wire import schemata


def written_without(field: str, kind: str, record: object, monkeypatch: pytest.MonkeyPatch) -> bytes:
    """The record by a schema of its kind without this field, known by its fingerprint from here on."""
    document = schemata.published(kind)
    document["fields"] = [each for each in document["fields"] if each["name"] != field]
    earlier = schemata.prepare(kind, document)
    known = schemata._by_fingerprint() | {earlier.fingerprint: earlier}
    monkeypatch.setattr(schemata, "_by_fingerprint", lambda: known)
    out = io.BytesIO()
    schemaless_writer(out, earlier.parsed, record)
    return earlier.frame + out.getvalue()
