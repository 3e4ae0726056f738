"""The published schemas keep their form, and no release misreads another."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Callable
from importlib.resources import files
from typing import Any

import pytest

from waterclock.model.events import ControlKind, EventKind, LeaseKind, Origin
from waterclock.model.job import CommandKind, Fold, Gap, Tier
from waterclock.model.run_log import LogStream
from waterclock.wire import schemata
from waterclock.wire.schema_rules import breaches, complaints, named_types


@pytest.mark.parametrize("kind", schemata.KINDS)
def test_a_published_schema_keeps_the_form(kind: str) -> None:
    assert complaints(schemata.published(kind)) == []


def test_every_schema_file_is_a_record_kind() -> None:
    names = {
        f.name.removesuffix(".avsc") for f in files("waterclock.schemas.avro").iterdir() if f.name.endswith(".avsc")
    }
    assert names == set(schemata.KINDS)


def test_the_fingerprint_is_in_wire_order() -> None:
    assert schemata.fingerprint(schemata.to_parsing_canonical_form("null"), "CRC-64-AVRO") == "8a8f25cce724dd63"
    assert schemata.current("lease").frame == b"\xc3\x01" + schemata.current("lease").fingerprint


def test_no_two_kinds_share_a_fingerprint() -> None:
    assert len({schemata.current(kind).fingerprint for kind in schemata.KINDS}) == len(schemata.KINDS)


@pytest.mark.parametrize(
    ("kind", "enum", "words"),
    [
        ("run_event", "EventKind", [kind.value for kind in EventKind]),
        ("run_event", "Origin", [origin.value for origin in Origin]),
        ("run_event", "Tier", ["UNKNOWN", *(tier.name for tier in Tier)]),
        ("work_record", "Tier", ["UNKNOWN", *(tier.name for tier in Tier)]),
        ("command", "CommandKind", [kind.value for kind in CommandKind]),
        ("command", "GapPolicy", ["UNKNOWN", *(gap.name for gap in Gap)]),
        ("command", "FoldPolicy", ["UNKNOWN", *(fold.name for fold in Fold)]),
        ("lease", "LeaseKind", [kind.value for kind in LeaseKind]),
        ("control", "ControlKind", [kind.value for kind in ControlKind]),
        ("run_log", "LogStream", [stream.value for stream in LogStream]),
    ],
)
def test_the_symbols_are_those_of_the_model_in_its_order(kind: str, enum: str, words: list[str]) -> None:
    assert named_types(schemata.published(kind))[enum]["symbols"] == words


# What every release must be to every other -----------------------------------------------------------------------


def test_the_first_release_is_kept() -> None:
    came_later = {
        "dag_node",
        "dag_run",
        "flow_job",
        "flow_run",
        "gathering",
        "job_triggers",
        "key_state",
        "open_run",
        "recorded_run",
        "run_log",
    }
    assert set(schemata.released()[1]) == set(schemata.KINDS) - came_later


@pytest.mark.parametrize("kind", schemata.KINDS)
def test_this_release_and_every_earlier_one_read_each_other(kind: str) -> None:
    for number, documents in schemata.released().items():
        if kind in documents:
            assert breaches(documents[kind], schemata.published(kind)) == [], f"against release {number}"


def test_no_released_kind_disappears() -> None:
    for documents in schemata.released().values():
        assert documents.keys() <= set(schemata.KINDS)


def test_released_migrations_never_change() -> None:
    home = files("waterclock.schemas")
    lines = home.joinpath("released", "cassandra.sha256").read_text().splitlines()
    kept = [tuple(line.split()) for line in lines]
    now = sorted(
        (f.name, hashlib.sha256(f.read_bytes()).hexdigest())
        for f in home.joinpath("cassandra").iterdir()
        if f.name.endswith(".cql")
    )
    assert kept
    assert [(sha, name) for name, sha in now[: len(kept)]] == kept, "a released .cql file is frozen: add a new one"


# The rules themselves catch what they are there for -----------------------------------------------------------------


def _field(document: Any, name: str) -> Any:
    return next(field for field in document["fields"] if field["name"] == name)


def _planted(kind: str, plant: Callable[[Any], object]) -> tuple[Any, Any]:
    old = schemata.published(kind)
    new = copy.deepcopy(old)
    plant(new)
    assert json.dumps(old) != json.dumps(new), "nothing was planted"
    return old, new


_NEW = {"name": "colour", "type": "string", "doc": "A colour."}


@pytest.mark.parametrize(
    ("plant", "word"),
    [
        (lambda s: s["fields"].append(_NEW), "added without a default"),
        (lambda s: s["fields"].remove(_field(s, "worker")), "had no default"),
        (lambda s: _field(s, "worker").update(name="machine"), "added without a default"),
        (lambda s: _field(s, "attempt").update(type="long"), "type has changed"),
        (lambda s: _field(s, "at").update(type="long"), "type has changed"),
        (lambda s: _field(s, "at")["type"].update(logicalType="timestamp-millis"), "type has changed"),
        (lambda s: _field(s, "kind")["type"]["symbols"].insert(1, "EARLY"), "at the end"),
        (lambda s: _field(s, "kind")["type"]["symbols"].pop(), "at the end"),
        (lambda s: _field(s, "kind")["type"].update(default="PENDING"), "default symbol"),
        (lambda s: _field(s, "worker").update(default="nobody"), "default has changed"),
        (lambda s: _field(s, "ended")["type"].append("string"), "type has changed"),
        (lambda s: _field(_field(s, "started")["type"][1], "offset").update(type="int"), "type has changed"),
        (lambda s: _field(_field(s, "started")["type"][1], "offset").update(name="place"), "added without"),
    ],
)
def test_a_change_that_would_be_misread_is_refused(plant: Callable[[Any], object], word: str) -> None:
    old, new = _planted("run_event", plant)
    assert any(word in breach for breach in breaches(old, new))


@pytest.mark.parametrize(
    "plant",
    [
        lambda s: s["fields"].append(_NEW | {"default": ""}),
        lambda s: _field(s, "kind")["type"]["symbols"].append("LATER"),
        lambda s: _field(s, "worker").update(doc="Said better."),
        lambda s: s["fields"].remove(_field(s, "revised")),
    ],
)
def test_a_change_that_everybody_can_read_is_allowed(plant: Callable[[Any], object]) -> None:
    old, new = _planted("run_event", plant)
    assert breaches(old, new) == []


@pytest.mark.parametrize(
    ("plant", "word"),
    [
        (lambda s: s.update(namespace="com.example"), "namespace"),
        (lambda s: s.pop("doc"), "no doc"),
        (lambda s: _field(s, "worker").pop("doc"), "no doc"),
        (lambda s: _field(s, "kind")["type"]["symbols"].append("SILENT"), "SILENT"),
        (lambda s: _field(s, "kind")["type"].pop("default"), "UNKNOWN first"),
        (lambda s: _field(s, "kind")["type"]["symbols"].remove("UNKNOWN"), "UNKNOWN first"),
        (lambda s: _field(s, "ended").pop("default"), "default is null"),
        (lambda s: _field(s, "ended")["type"].append("string"), "a union is"),
        (lambda s: _field(s, "ended")["type"].reverse(), "a union is"),
        (lambda s: _field(s, "worker").update(type={"type": "array", "items": "null"}), "no bytes"),
        (
            lambda s: _field(s, "worker").update(
                type={"type": "array", "items": {"type": "record", "name": "Empty", "doc": "Nothing.", "fields": []}}
            ),
            "no bytes",
        ),
        (lambda s: _field(s, "worker").update(type=["null", "RunEvent"], default=None), "recursion"),
        (lambda s: _field(s, "worker").update(type={"type": "bytes", "logicalType": "decimal"}), "no type that we use"),
        (
            lambda s: _field(s, "worker").update(type={"type": "fixed", "name": "None", "size": 0}),
            "no type that we use",
        ),
        (lambda s: _field(s, "worker").update(type="double"), "no type that we use"),
        (lambda s: _field(s, "at").update(type="long"), "timestamp-micros named at"),
        (lambda s: _field(s, "at").update(name="moment"), "timestamp-micros named at"),
    ],
)
def test_a_schema_out_of_form_is_refused(plant: Callable[[Any], object], word: str) -> None:
    _, new = _planted("run_event", plant)
    assert any(word in complaint for complaint in complaints(new))
