"""The released Avro schemas, as the codec uses them.

Published files carry logical types; in this process they are stripped, so that instants are plain longs (three times
faster, and the fingerprint does not see them). Nothing is ever decoded with a schema from anywhere else: an unknown
fingerprint is refused by name, never looked up.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any, NamedTuple

from fastavro import parse_schema
from fastavro.schema import fingerprint, to_parsing_canonical_form

from waterclock.model.errors import UndecodableRecord

from .framing import MAGIC

KINDS = (
    "command",
    "control",
    "dag_node",
    "dag_run",
    "dead_letter",
    "flow_job",
    "flow_run",
    "gathering",
    "heartbeat",
    "job_event",
    "job_state",
    "job_triggers",
    "key_state",
    "lease",
    "open_run",
    "recorded_run",
    "reject",
    "run_event",
    "run_log",
    "shard_state",
    "work_record",
)
"""The record kinds: each the name of a file ``schemas/avro/<kind>.avsc``."""

_HOME = "waterclock.schemas"


class Schema(NamedTuple):
    """One schema of one release, ready for fastavro. ``frame`` is what every record written with it begins with."""

    kind: str
    parsed: Any
    fingerprint: bytes

    @property
    def frame(self) -> bytes:
        return MAGIC + self.fingerprint


def published(kind: str) -> dict[str, Any]:
    """The schema of ``kind`` as others see it: with docs and logical types."""
    return _document(files(_HOME).joinpath("avro", f"{kind}.avsc"))


def published_text(kind: str) -> bytes:
    """The same as it is written: the bytes of the file."""
    return files(_HOME).joinpath("avro", f"{kind}.avsc").read_bytes()


@cache  # bounded by the number of record kinds
def current(kind: str) -> Schema:
    """The schema that this release writes ``kind`` with."""
    return prepare(kind, published(kind))


def prepare(kind: str, document: dict[str, Any]) -> Schema:
    """A published schema made ready: logical types stripped, parsed, fingerprinted."""
    plain = _stripped(document)
    canonical = to_parsing_canonical_form(plain)
    # fastavro's hex text is in wire order already ("null" gives 8a8f25cce724dd63): it must not be reversed.
    return Schema(kind, parse_schema(plain), bytes.fromhex(fingerprint(canonical, "CRC-64-AVRO")))


def written_with(mark: bytes) -> Schema:
    """The schema, of this release or an earlier one, that has this fingerprint. Raises UndecodableRecord."""
    schema = _by_fingerprint().get(mark)
    if schema is None:
        raise UndecodableRecord(
            f"no released schema has the fingerprint {mark.hex()}",
            hint="Was it written by a newer release? Upgrade the readers first",
        )
    return schema


def released() -> dict[int, dict[str, dict[str, Any]]]:
    """Every release's published schemas, by release number and kind."""
    home = files(_HOME).joinpath("released")
    releases = [folder for folder in home.iterdir() if folder.is_dir() and folder.name.isdecimal()]
    return {int(folder.name): _documents(folder) for folder in releases}


@cache
def _by_fingerprint() -> dict[bytes, Schema]:
    earlier = [prepare(kind, document) for release in released().values() for kind, document in release.items()]
    return {schema.fingerprint: schema for schema in (*earlier, *map(current, KINDS))}


def _documents(folder: Traversable) -> dict[str, dict[str, Any]]:
    return {f.name.removesuffix(".avsc"): _document(f) for f in folder.iterdir() if f.name.endswith(".avsc")}


def _document(file: Traversable) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(file.read_bytes())
    return document


def _stripped(node: Any) -> Any:
    if isinstance(node, list):
        return [_stripped(item) for item in node]
    if not isinstance(node, dict):
        return node
    if "logicalType" in node:
        return node["type"]
    return {name: _stripped(value) for name, value in node.items()}
