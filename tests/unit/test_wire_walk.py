"""A stranger's Avro bytes are walked through before anything is made of them, and no schema of ours amplifies."""

from __future__ import annotations

import io
import tracemalloc
from contextlib import suppress
from typing import Any

import pytest
from fastavro import schemaless_writer
from hypothesis import given
from hypothesis import strategies as st

from waterclock.model.errors import UndecodableRecord
from waterclock.model.job import JOB_VERBS, CommandKind
from waterclock.model.job_event import JobEvent
from waterclock.wire import codec, schemata
from waterclock.wire.binary import put_long, put_text
from waterclock.wire.framing import BODY_AT, RECORD_MAX
from waterclock.wire.records import JOB_EVENT
from waterclock.wire.schema_rules import complaints
from waterclock.wire.walk import ITEMS_MAX

PAIR = {"name": "x-team", "value": "billing"}

_texts = st.text(max_size=8)
_longs = st.integers(-(2**63), 2**63 - 1)
_pairs = st.lists(st.fixed_dictionaries({"name": _texts, "value": _texts}), max_size=3)
_http = st.fixed_dictionaries(
    {
        "url": _texts,
        "method": _texts,
        "headers": _pairs,
        "timeout_s": st.integers(-(2**31), 2**31 - 1),
        "secret": _texts,
    }
)
_shell = st.fixed_dictionaries({"argv": st.lists(_texts, max_size=3), "timeout_s": st.integers(0, 9)})
_events = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(JOB_VERBS),
        "name": _texts,
        "cron": st.none() | _texts,
        "every_us": st.none() | _longs,
        "start_at": st.none() | _longs,
        "seconds": st.booleans(),
        "tier": st.sampled_from(["UNKNOWN", "HIGH", "MEDIUM", "LOW"]),
        "payload": st.none() | st.binary(max_size=20),
        "expected_revision": _longs,
        "http": st.none() | _http,
        "shell": st.none() | _shell,
        "dag": _texts,
    }
).map(lambda parts: JobEvent(**parts))


def _bytes(event: JobEvent, release: int | None = None) -> bytes:
    schema = schemata.current("job_event")
    if release is not None:
        schema = schemata.prepare("job_event", schemata.released()[release]["job_event"])
    out = io.BytesIO(schema.frame)
    out.seek(0, io.SEEK_END)
    schemaless_writer(out, schema.parsed, JOB_EVENT.to_record(event))
    return out.getvalue()


@given(_events)
def test_what_avro_writes_is_walked_to_its_end_and_read(event: JobEvent) -> None:
    assert codec.decode_job_event(_bytes(event)) == event


@given(_events, st.binary(min_size=1, max_size=4))
def test_bytes_left_over_are_refused(event: JobEvent, more: bytes) -> None:
    with pytest.raises(UndecodableRecord):
        codec.decode_job_event(_bytes(event) + more)


@given(_events, st.data())
def test_every_shorter_record_is_refused(event: JobEvent, data: st.DataObject) -> None:
    whole = _bytes(event)
    with pytest.raises(UndecodableRecord):
        codec.decode_job_event(whole[: data.draw(st.integers(0, len(whole) - 1))])


@given(_events, st.data())
def test_no_bytes_do_worse_than_be_refused(event: JobEvent, data: st.DataObject) -> None:
    spoilt = bytearray(_bytes(event))
    for _ in range(data.draw(st.integers(1, 5))):
        spoilt[data.draw(st.integers(0, len(spoilt) - 1))] = data.draw(st.integers(0, 255))
    with suppress(UndecodableRecord):
        codec.decode_job_event(bytes(spoilt))


def _with_argv(argv: bytes) -> bytes:
    """An event whose last parts are hand-written: shell with this argv."""
    event = JobEvent(CommandKind.CREATE, name="x")._replace(shell={"argv": ["PLACE"], "timeout_s": 7})  # noqa: S604 - a field
    plain = put_long(1) + put_text("PLACE") + put_long(0)
    assert _bytes(event).count(plain) == 1
    return _bytes(event).replace(plain, argv)


@pytest.mark.parametrize(
    "argv",
    [
        put_long(2) + put_text("a") + put_text("b") + put_long(0),
        put_long(1) + put_text("a") + put_long(1) + put_text("b") + put_long(0),
        put_long(-2) + put_long(4) + put_text("a") + put_text("b") + put_long(0),
    ],
    ids=["one block", "two blocks", "a block with its size"],
)
def test_every_form_that_avro_allows_an_array_is_read(argv: bytes) -> None:
    event = codec.decode_job_event(_with_argv(argv))
    assert event.shell is not None
    assert event.shell["argv"] == ["a", "b"]


@pytest.mark.parametrize(
    "argv",
    [
        put_long(ITEMS_MAX + 1) + put_text("") * (ITEMS_MAX + 1) + put_long(0),
        put_long(2**62) + put_long(0),
        put_long(-(2**62)) + put_long(0) + put_long(0),
        put_long(-2) + put_long(3) + put_text("a") + put_text("b") + put_long(0),
        put_long(-1) + put_long(-(2**40)) + put_text("a") + put_long(0),
        put_long(1) + put_long(2**40),
        put_long(1) + put_long(-1) + put_long(0),
        put_long(1) + b"\xff" * 11,
    ],
    ids=["too many", "2^62", "-2^62", "wrong size", "negative size", "long text", "negative length", "long varint"],
)
def test_an_array_that_lies_is_refused_at_once(argv: bytes) -> None:
    data = _with_argv(argv)
    tracemalloc.start()
    try:
        with pytest.raises(UndecodableRecord):
            codec.decode_job_event(data)
        assert tracemalloc.get_traced_memory()[1] < 1024 * 1024
    finally:
        tracemalloc.stop()


def test_all_arrays_of_a_record_share_one_allowance() -> None:
    half = [PAIR] * (ITEMS_MAX // 2 + 1)
    event = JobEvent(
        CommandKind.CREATE, name="x", http={"url": "", "headers": half}, kafka={"topic": "", "headers": half}
    )
    with pytest.raises(UndecodableRecord, match="array items"):
        codec.decode_job_event(_bytes(event))


def test_an_enum_below_its_first_symbol_is_refused() -> None:
    data = bytearray(_bytes(JobEvent(CommandKind.CREATE)))
    data[BODY_AT] = 1
    with pytest.raises(UndecodableRecord, match="symbol -1"):
        codec.decode_job_event(bytes(data))


def test_a_record_of_the_first_release_is_read_with_todays_defaults() -> None:
    event = JobEvent(CommandKind.CREATE, name="x", handler="h", every_us=5_000_000)
    assert codec.decode_job_event(_bytes(event, release=1)) == event


def test_no_schema_that_was_ever_released_lets_few_bytes_ask_for_much() -> None:
    """No zero-byte array items, no recursion, no decimals: so untrusted bytes need no process of their own."""
    every = [*(schemata.published(kind) for kind in schemata.KINDS)]
    every += [document for release in schemata.released().values() for document in release.values()]
    found: dict[str, Any] = {document["name"]: complaints(document) for document in every}
    assert {name: said for name, said in found.items() if said} == {}


def test_the_largest_record_costs_no_more_memory_than_a_few_times_its_size() -> None:
    pairs = [{"name": "n" * 60, "value": "v" * 60}] * (ITEMS_MAX - 1)
    event = JobEvent(CommandKind.CREATE, kafka={"topic": "", "headers": pairs}, payload=bytes(RECORD_MAX - 200_000))
    data = _bytes(event)
    assert 200_000 < len(data) <= RECORD_MAX
    tracemalloc.start()
    try:
        codec.decode_job_event(data)
        assert tracemalloc.get_traced_memory()[1] < 4 * 1024 * 1024
    finally:
        tracemalloc.stop()
