"""What strangers send: told by its first bytes, refused with a pointer into what they wrote."""

from __future__ import annotations

import gc
import json
import time
from collections import Counter
from typing import Any

import pytest

from tests.unit.intake_world import JSON_TYPE, NAMES, PING, IntakeWorld
from waterclock.log.port import UNREADABLE, Headers, Record
from waterclock.model.events import Reject
from waterclock.model.job import CommandKind
from waterclock.model.job_event import JobEvent
from waterclock.wire.codec import decode_reject, encode_job_event
from waterclock.wire.framing import RECORD_MAX
from waterclock.wire.schemata import current

AVRO = JobEvent(CommandKind.CREATE, name="ping", handler="demo.ping", every_us=5_000_000)


def _judged(value: bytes | None, headers: Headers = (), *, timestamp_us: int = 0) -> Reject | None:
    """The reject of one record, None where it became a command."""
    world = IntakeWorld()
    record = Record(NAMES.job_events, 1, 7, timestamp_us, b"k", value, headers)
    message = world.judge().judge(record, Counter())
    return decode_reject(message.value or b"") if message.topic == NAMES.rejects else None


def _refused(value: bytes | None, headers: Headers = ()) -> Reject:
    reject = _judged(value, headers)
    assert reject is not None, "it became a command"
    assert reject.hint
    assert reject.source.value == value
    return reject


@pytest.mark.parametrize(
    ("document", "pointer"),
    [
        ([], ""),
        ({}, ""),
        ({**PING, "kind": "EXPLODE"}, "/kind"),
        ({**PING, "kind": 7}, "/kind"),
        ({**PING, "name": "Ping"}, "/name"),
        ({**PING, "name": 7}, "/name"),
        ({**PING, "job": "other"}, "/job"),
        ({"job": "Bad", "handler": "h", "every": "5s"}, "/job"),
        ({**PING, "crom": "x"}, "/crom"),
        ({**PING, "cron": "* * * * *"}, "/every"),
        ({"name": "a", "handler": "h"}, ""),
        ({"name": "a", "handler": "h", "cron": "0 0 30 2 *"}, "/cron"),
        ({"name": "a", "handler": "h", "cron": "*/1," * 1_250}, "/cron"),
        ({"name": "a", "handler": "h", "cron": "9" * 5_001 + " * * * *"}, "/cron"),
        ({"name": "a", "handler": "h", "cron": "0 9 * * *", "zone": "Mars/Olympus"}, "/zone"),
        ({"name": "a", "handler": "h", "cron": "0 9 * * *", "zone": "../../etc/passwd"}, "/zone"),
        ({"name": "a", "handler": "h", "at": "2030-01-01T00:00:00"}, "/at"),
        ({"name": "a", "handler": "h", "at": 1_900_000_000}, "/at"),
        ({"name": "a", "handler": "h", "every": "0s"}, "/every"),
        ({"name": "a", "handler": "h", "every": "9999999999d"}, "/every"),
        ({"name": "a", "handler": "h h", "every": "5s"}, "/handler"),
        ({"name": "a", "every": "5s"}, "/handler"),
        ({"name": "a", "handler": "h", "http": {"url": "https://a.b"}, "every": "5s"}, "/http"),
        ({"name": "a", "http": {"url": "file:///etc/passwd"}, "every": "5s"}, "/http/url"),
        ({**PING, "tier": "urgent"}, "/tier"),
        ({**PING, "pool": "none-such"}, "/pool"),
        ({**PING, "payload": "x" * 70_000}, "/payload"),
        ({**PING, "payload_base64": "?"}, "/payload_base64"),
        ({**PING, "expected_revision": -1}, "/expected_revision"),
        ({**PING, "expected_revision": True}, "/expected_revision"),
        ({**PING, "idempotency_key": "x" * 201}, "/idempotency_key"),
        ({**PING, "idempotency_key": "a\u0000b"}, "/idempotency_key"),
        ({**PING, "note": "x" * 1_001}, "/note"),
        ({"kind": "PAUSE", "name": "ping", "cron": "* * * * *"}, "/cron"),
        ({"kind": "PAUSE", "name": "ping", "payload": 1}, "/payload"),
        ({"kind": "TRIGGER", "name": "ping", "tier": "high"}, "/tier"),
        ({"kind": "TRIGGER", "name": "ping", "payload_base64": "?"}, "/payload_base64"),
    ],
)
def test_a_json_fault_is_told_where_it_was_written(document: Any, pointer: str) -> None:
    reject = _refused(json.dumps(document).encode(), JSON_TYPE)
    assert reject.pointer == pointer, reject.reason


@pytest.mark.parametrize(
    ("parts", "pointer"),
    [
        ({"kind": CommandKind.UNKNOWN}, "/kind"),
        ({"name": "Ping"}, "/name"),
        ({"every_us": 1}, "/every_us"),
        ({"every_us": 0}, "/every_us"),
        ({"every_us": -5_000_000}, "/every_us"),
        ({"every_us": 2**62 // 1_000_000 * 1_000_000}, "/every_us"),
        ({"start_at": 2**63 - 1}, "/start_at"),
        ({"every_us": None, "once_at": -(2**63)}, "/once_at"),
        ({"every_us": None, "once_at": 2**62}, "/once_at"),
        ({"every_us": None}, ""),
        ({"cron": "* * * * *"}, "/every_us"),
        ({"tier": "UNKNOWN"}, "/tier"),
        ({"every_us": None, "cron": "* * * * *", "gap": "UNKNOWN"}, "/gap"),
        ({"handler": ""}, "/handler"),
        ({"payload": bytes(70_000)}, "/payload"),
        ({"expected_revision": -9}, "/expected_revision"),
        ({"handler": "", "http": {"url": "https://a.b", "timeout_s": -1}}, "/http/timeout_s"),
        (
            {"handler": "", "http": {"url": "https://a.b", "headers": [{"name": "x-a", "value": "1"}] * 2}},
            "/http/headers",
        ),
        ({"handler": "", "shell": {"argv": []}}, "/shell/argv"),
        ({"pool": "No Pool"}, "/pool"),
    ],
)
def test_an_avro_fault_names_the_field_of_the_record(parts: dict[str, Any], pointer: str) -> None:
    reject = _refused(encode_job_event(AVRO._replace(**parts)))
    assert reject.pointer == pointer, reject.reason


@pytest.mark.parametrize(
    ("value", "word"),
    [
        (None, "no value"),
        (b"", "no value"),
        (b"hello", "neither Avro nor JSON"),
        (b"\x1f\x8b\x08", "neither Avro nor JSON"),
        (b"\xc3\x01", "no Avro single object"),
        (b"\xc3\x01" + b"\x00" * 8 + b"x", "no released schema"),
        (b"\x00\x00\x00\x00\x07abc", "no registry is set"),
        (b"\x00\x00", "no schema id"),
        (b"\x01" + bytes(16) + b"abc", "no registry is set"),
        (b"{" + b" " * RECORD_MAX, "over the cap"),
        (encode_job_event(AVRO)[:-1], "no job_event"),
        (encode_job_event(AVRO) + b"\x00", "left over"),
        (current("command").frame + b"\x00", "kind command"),
        (b'{"name":"a"', "not JSON"),
        (b"\xef\xbb\xbf{}", "neither Avro nor JSON"),
    ],
)
def test_bytes_that_are_no_event_are_refused_by_name(value: bytes | None, word: str) -> None:
    assert word in _refused(value).reason


@pytest.mark.parametrize(
    ("headers", "word"),
    [
        (UNREADABLE, "not UTF-8"),
        ((("content-type", b"application/avro"),), "content-type"),
        ((("content-type", b"application/cloudevents+json"),), "content-type"),
        ((("content-type", b"\xff" * 10_000),), "content-type"),
        ((("ce_id", b"x" * 201),), "ce_id"),
        ((("ce_id", b"api-0123-7"),), "ce_id"),
        ((("ce_id", b"\xff\xfe"),), "ce_id"),
        ((("ce_id", b"a\nb"),), "ce_id"),
        ((("idempotency-key", b"\x00"),), "idempotency-key"),
        ((("__value_schema_id", b"\x00\x00\x00\x00\x01"),), "no registry is set"),
        ((("__value_schema_id", b"\x07" * 1_000),), "no schema id"),
    ],
)
def test_headers_that_cannot_be_are_refused(headers: Headers, word: str) -> None:
    assert word in _refused(json.dumps(PING).encode(), headers).reason


def test_two_keys_for_one_intention_are_refused() -> None:
    reject = _refused(json.dumps({**PING, "idempotency_key": "a"}).encode(), (("idempotency-key", b"b"),))
    assert reject.pointer == "/idempotency_key"


@pytest.mark.parametrize(
    "headers",
    [
        (),
        JSON_TYPE,
        (("Content-Type", b"application/json; charset=utf-8"),),
        (("x-anything", b"\x00\xff"), ("x-anything", b"")),
    ],
)
def test_json_needs_no_header_at_all(headers: Headers) -> None:
    assert _judged(b"\n " + json.dumps(PING).encode() + b"\n", headers) is None


@pytest.mark.parametrize("timestamp_us", [-1_000, 0, 2**62])
def test_a_record_time_that_cannot_be_stops_nobody(timestamp_us: int) -> None:
    assert _judged(json.dumps(PING).encode(), timestamp_us=timestamp_us) is None


def test_a_reject_quotes_strangers_in_bounds() -> None:
    long = "\u202e" + "x" * 5_000
    reject = _refused(json.dumps({**PING, long: 1}).encode())
    assert len(reject.reason) <= 500
    assert len(reject.pointer) <= 500
    assert "schema check" in reject.hint


_BOMBS = {
    "deep lists": b'{"payload":' + b"[" * 100_000,
    "deep objects": b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
    "escaped quotes": b'{"' + b'\\"' * 130_000,
    "many keys": b"{" + b",".join(b'"k%d":0' % number for number in range(20_000)) + b"}",
    "long number": b'{"expected_revision":' + b"9" * 250_000 + b"}",
    "long cron": json.dumps({"name": "a", "handler": "h", "cron": "mon," * 60_000}).encode(),
    "long zone": json.dumps({"name": "a", "handler": "h", "cron": "* * * * *", "zone": "E" * 250_000}).encode(),
    "long handler": json.dumps({**PING, "handler": "a" * 250_000}).encode(),
    "long name": json.dumps({**PING, "name": "a" * 250_000}).encode(),
    "long url": json.dumps({"name": "a", "every": "5s", "callback_url": "http://" + "a." * 120_000}).encode(),
    "many headers": json.dumps(
        {"name": "a", "every": "5s", "http": {"url": "http://a", "headers": {f"h{n}": "" for n in range(20_000)}}}
    ).encode(),
    "long argument": json.dumps({"name": "a", "every": "5s", "shell": {"argv": ["x" * 250_000]}}).encode(),
    "avro strings": encode_job_event(AVRO._replace(note="x" * 250_000)),
    "avro arrays": encode_job_event(AVRO._replace(handler="", shell={"argv": [""] * 250_000})),  # noqa: S604 - a field
}


@pytest.mark.parametrize("bomb", _BOMBS)
def test_no_record_within_the_cap_takes_long(bomb: str) -> None:
    gc.freeze()  # as a role does: otherwise the collector walks all that the test session holds
    try:
        began_s = time.process_time()
        _refused(_BOMBS[bomb])
        assert time.process_time() - began_s < 0.25
    finally:
        gc.unfreeze()
