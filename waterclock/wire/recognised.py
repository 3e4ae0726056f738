"""Whether an Avro schema from somewhere else is one that we released: told by its fingerprint, and by nothing else.

A schema registry hands out whatever anybody registered. What must hold: its text is never decoded with; it only names
one of our own, which is. How it fails: UndecodableRecord, whatever the text.
"""

from __future__ import annotations

import json
from typing import Any

from waterclock.model.errors import UndecodableRecord

from .schemata import Schema, prepare, written_with

SCHEMA_MAX = 256 * 1024
"""Characters of a schema that is looked at."""


def recognised(text: str) -> Schema:
    """The released schema that ``text`` is a spelling of. Docs, defaults and logical types are not compared."""
    if len(text) > SCHEMA_MAX:
        raise UndecodableRecord(f"a schema of {len(text)} characters is none of ours")
    try:
        mark = prepare("", _without_extras(json.loads(text))).fingerprint
    except Exception as error:  # the parser raises whatever a stranger's schema provokes
        raise UndecodableRecord(f"it is no Avro schema that we can read: {type(error).__name__}") from error
    return written_with(mark)


_KEPT = ("type", "name", "namespace", "fields", "symbols", "items", "values", "size", "default", "logicalType")


def _without_extras(node: Any) -> Any:
    """Generators leave marks of their own (``avro.java.string``), which the canonical form does not know."""
    if isinstance(node, list):
        return [_without_extras(part) for part in node]
    if not isinstance(node, dict):
        return node
    kept = {key: _without_extras(part) if key != "default" else part for key, part in node.items() if key in _KEPT}
    return kept["type"] if kept.keys() == {"type"} else kept
