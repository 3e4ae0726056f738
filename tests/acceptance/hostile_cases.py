"""Records that no sender should send: the corpus of ``hostile-input``. Bytes are made by hand, or by fastavro.

Each case names what the refusal must point at ("" = the whole record). Those that are JSON go to the API, too.
"""

from __future__ import annotations

import gzip
import io
import json
from typing import Any, NamedTuple

import fastavro

from tests.oracle.records import KNOWN
from waterclock.model.job import CommandKind
from waterclock.model.job_event import JobEvent

Headers = tuple[tuple[str, bytes | None], ...]

JSON_TYPE: Headers = (("content-type", b"application/json"),)
_MARKS = {name: mark for mark, (name, _) in KNOWN.items()}
_KIB = 1024


class Case(NamedTuple):
    """One record. ``pointer``: where the refusal must point."""

    name: str
    value: bytes | None
    pointer: str = ""
    headers: Headers = ()
    key: bytes | None = b"sender"

    @property
    def is_json(self) -> bool:
        """Whether an HTTP client could send it as a body."""
        return self.headers == JSON_TYPE and self.value is not None


def corpus() -> list[Case]:
    """All of them, in a fixed order."""
    return [*_framings(), *_cut(), *_avro_bombs(), *_avro_values(), *_json_text(), *_json_values(), *_envelopes()]


def _avro(**parts: Any) -> bytes:
    event = JobEvent(CommandKind.CREATE, name="hostile", handler="demo.ping", every_us=3_600_000_000)
    record = event._replace(**parts)._asdict()
    out = io.BytesIO(_frame("job_event"))
    out.seek(0, io.SEEK_END)
    fastavro.schemaless_writer(out, KNOWN[_MARKS["job_event"]][1], record)
    return out.getvalue()


def _frame(kind: str) -> bytes:
    return b"\xc3\x01" + _MARKS[kind]


def _long(number: int) -> bytes:
    """Avro's zigzag varint."""
    zigzag, out = (number << 1) ^ (number >> 63), bytearray()
    while zigzag > 127:
        out.append(zigzag & 127 | 128)
        zigzag >>= 7
    return bytes([*out, zigzag])


def _foreign(schema: Any, body: bytes) -> bytes:
    """A single object of a schema that we never released, with its right fingerprint."""
    canonical = fastavro.schema.to_parsing_canonical_form(schema)
    return b"\xc3\x01" + bytes.fromhex(fastavro.schema.fingerprint(canonical, "CRC-64-AVRO")) + body


def _framings() -> list[Case]:
    good = _avro()
    return [
        Case("unknown fingerprint", b"\xc3\x01" + b"\x07" * 8 + good[10:]),
        Case("fingerprint of another kind", _frame("command") + good[10:]),
        Case("frame without a fingerprint", b"\xc3\x01"),
        Case("frame cut inside its fingerprint", good[:7]),
        Case("other magic", b"\xc3\x02" + good[2:]),
        Case("confluent id without a registry", b"\x00\x00\x00\x00\x2a" + good[10:]),
        Case("confluent frame cut short", b"\x00\x00"),
        Case("confluent guid without a registry", b"\x01" + bytes(16) + good[10:]),
        Case("plain Avro without a frame", good[10:]),
        Case("gzip", gzip.compress(good)),
        Case("xml", b"<?xml version='1.0'?><job/>"),
        Case("text", b"run my job please"),
        Case("no value", None),
        Case("empty value", b""),
    ]


def _cut() -> list[Case]:
    good = _avro(payload=b"x" * 100)
    return [
        Case("frame alone", good[:10]),
        Case("cut after one byte", good[:11]),
        Case("cut in the middle", good[: len(good) // 2]),
        Case("cut before its last byte", good[:-1]),
        Case("one byte too many", good + b"\x00"),
        Case("100 kB too many", good + bytes(100_000)),
        Case("two records in one", good + good),
        Case("over the cap by one byte", _padded(256 * _KIB + 1), headers=JSON_TYPE),
        Case("500 kB of Avro", _avro(payload=bytes(500_000))),
        Case("900 kB, more than a reject carries", _padded(900_000), headers=JSON_TYPE),
    ]


def _padded(size: int) -> bytes:
    document = b'{"name":"hostile","handler":"demo.ping","every":"1h"}'
    return document + b" " * (size - len(document))


def _avro_bombs() -> list[Case]:
    nothing = {"type": "array", "items": "null"}
    tree = {"type": "record", "name": "T", "fields": [{"name": "next", "type": ["null", "T"]}]}
    decimal = {"type": "bytes", "logicalType": "decimal", "precision": 1_000_000}
    start = _frame("job_event") + _long(1) + _long(7) + b"hostile" + _long(0)
    zone = _long(0) + _long(3) + b"UTC"
    argv = _avro(handler="", shell={"argv": ["PLACE"]})  # noqa: S604 - a field
    item = _long(1) + _long(5) + b"PLACE" + _long(0)
    pairs = [{"name": "", "value": ""}] * 120_000
    return [
        Case("array of null, 10^8", _foreign(nothing, _long(10**8) + _long(0))),
        Case("array of null, 2^62", _foreign(nothing, _long(2**62) + _long(0))),
        Case("recursion, 50,000 deep", _foreign(tree, _long(1) * 50_000 + _long(0))),
        Case("decimal of 100 kB", _foreign(decimal, _long(100_000) + b"\x7f" * 100_000)),
        Case("120,000 empty headers", _avro(handler="", http={"url": "https://a.example", "headers": pairs})),
        Case("250,000 empty arguments", _avro(handler="", shell={"argv": [""] * 250_000})),  # noqa: S604 - a field
        Case("array of 2^62", argv.replace(item, _long(2**62) + _long(0))),
        Case("array of -2^62", argv.replace(item, _long(-(2**62)) + _long(1) + _long(0))),
        Case("array block of another size", argv.replace(item, _long(-1) + _long(99) + _long(5) + b"PLACE" + _long(0))),
        Case("negative union index", start + _long(-1) + zone),
        Case("union index 9", start + _long(9) + zone),
        Case("negative enum index", _frame("job_event") + _long(-1) + start[11:] + zone),
        Case("enum index 99", _frame("job_event") + _long(99) + start[11:] + zone),
        Case("boolean 7", start + zone + b"\x07"),
        Case("varint of 100,000 bytes", start + b"\xff" * 100_000 + b"\x01"),
        Case("negative length", start + _long(1) + _long(-5)),
        Case("length of 2^40", start + _long(1) + _long(2**40)),
        Case("name that is not UTF-8", _frame("job_event") + _long(1) + _long(2) + b"\xff\xfe" + start[20:]),
    ]


def _avro_values() -> list[Case]:
    twice = [{"name": "x-team", "value": "a"}] * 2
    return [
        Case("kind of a later release", _avro(kind=CommandKind.UNKNOWN), "/kind"),
        Case("instant 2^62", _avro(every_us=None, once_at=2**62), "/once_at"),
        Case("instant -2^63", _avro(every_us=None, once_at=-(2**63)), "/once_at"),
        Case("interval of 1 us", _avro(every_us=1), "/every_us"),
        Case("interval of 2^62 us", _avro(every_us=2**62 // 10**6 * 10**6), "/every_us"),
        Case("two schedules", _avro(cron="* * * * *"), "/every_us"),
        Case("never-firing cron in Avro", _avro(every_us=None, cron="0 0 30 2 *"), "/cron"),
        Case("a header twice", _avro(handler="", http={"url": "https://a.example", "headers": twice}), "/http/headers"),
        Case("time-out below 0", _avro(handler="", http={"url": "https://a.b", "timeout_s": -1}), "/http/timeout_s"),
        Case("70 kB of payload", _avro(payload=bytes(70_000)), "/payload"),
    ]


def _json_text() -> list[Case]:
    texts = {
        "cut JSON": b'{"name":"hostile","every":"1h"',
        "two documents": b'{"name":"hostile"} {"name":"other"}',
        "100,000 lists deep": b'{"payload":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        "40,000 objects deep": b'{"a":' * 40_000 + b"1" + b"}" * 40_000,
        "33 levels deep": b'{"payload":' + b"[" * 32 + b"]" * 32 + b"}",
        "a key twice": b'{"name":"hostile","name":"other","every":"1h","handler":"demo.ping"}',
        "the last of 20,000 keys twice": b"{" + b",".join(b'"k%d":0' % n for n in range(20_000)) + b',"k19999":0}',
        "NaN": b'{"payload":NaN}',
        "half a surrogate pair": b'{"name":"\\ud800"}',
        "integer of 5,000 digits": b'{"payload":' + b"9" * 5_000 + b"}",
        "130,000 escaped quotes": b'{"' + b'\\"' * 130_000,
        "20,000 keys": b"{" + b",".join(b'"k%d":0' % number for number in range(20_000)) + b"}",
        "not UTF-8": b'{"name":"\xff"}',
    }
    cases = [Case(name, text, headers=JSON_TYPE) for name, text in texts.items()]
    by_key = [case._replace(pointer="/k0") if case.name == "20,000 keys" else case for case in cases]
    return [*by_key, Case("a byte order mark", b"\xef\xbb\xbf{}"), Case("UTF-16", '{"name":"a"}'.encode("utf-16"))]


def _json_values() -> list[Case]:
    job = {"name": "hostile", "handler": "demo.ping", "every": "1h"}
    cron = {"name": "hostile", "handler": "demo.ping"}
    once = {"name": "hostile", "handler": "demo.ping"}
    wrong: dict[str, tuple[Any, str]] = {
        "number for a name": ({**job, "name": 7}, "/name"),
        "name in capitals": ({**job, "name": "Hostile"}, "/name"),
        "name of 100 kB": ({**job, "name": "a" * 100_000}, "/name"),
        "list for a handler": ({**job, "handler": ["a"]}, "/handler"),
        "text for a flag": ({**cron, "cron": "0 9 * * *", "seconds": "yes"}, "/seconds"),
        "unknown key": ({**job, "crom": "* * * * *"}, "/crom"),
        "naive time": ({**once, "at": "2030-01-01T00:00:00"}, "/at"),
        "number for a time": ({**once, "at": 1_900_000_000}, "/at"),
        "30 February": ({**once, "at": "2030-02-30T00:00:00Z"}, "/at"),
        "never-firing cron": ({**cron, "cron": "0 0 31 6 *"}, "/cron"),
        "never-firing cron with L": ({**cron, "cron": "0 0 31 2,4,6 *"}, "/cron"),
        "cron of 5,000 digits": ({**cron, "cron": "9" * 5_000 + " * * * *"}, "/cron"),
        "cron of 240 kB": ({**cron, "cron": "mon," * 60_000}, "/cron"),
        "unknown zone": ({**cron, "cron": "0 9 * * *", "zone": "Mars/Olympus_Mons"}, "/zone"),
        "zone that is a path": ({**cron, "cron": "0 9 * * *", "zone": "../../../etc/passwd"}, "/zone"),
        "zone that is a folder": ({**cron, "cron": "0 9 * * *", "zone": "Europe"}, "/zone"),
        "interval of a million years": ({**job, "every": "365000000d"}, "/every"),
        "unknown tier": ({**job, "tier": "urgent"}, "/tier"),
        "unknown pool": ({**job, "pool": "none-such"}, "/pool"),
        "70 kB of text": ({**job, "payload": "x" * 70_000}, "/payload"),
        "file URL": ({"name": "hostile", "every": "1h", "http": {"url": "file:///etc/passwd"}}, "/http/url"),
        "18,000 headers": (
            {
                "name": "hostile",
                "every": "1h",
                "http": {"url": "http://a", "headers": {f"h{n}": "" for n in range(18_000)}},
            },
            "/http/headers",
        ),
    }
    return [
        Case(name, json.dumps(document).encode(), pointer, JSON_TYPE) for name, (document, pointer) in wrong.items()
    ]


def _envelopes() -> list[Case]:
    good = b'{"name":"hostile","handler":"demo.ping","every":"1h"}'
    return [
        Case("a list", b"[1,2]", headers=JSON_TYPE),
        Case("JSON called Avro", good, headers=(("content-type", b"application/avro"),)),
        Case("ce_id of bytes", good, headers=(("ce_id", b"\xff\x00"),)),
        Case("ce_id of 10 kB", good, headers=(("ce_id", b"x" * 10_000),)),
        Case("two idempotency keys", good[:-1] + b',"idempotency_key":"a"}', "/idempotency_key",
             (("idempotency-key", b"b"),)),
        Case("schema id in a header", good, headers=(("__value_schema_id", b"\x00\x00\x00\x00\x07"),)),
        Case("key of 400 kB", b"{", key=b"k" * 400_000),
        Case("no key", b"{", key=None),
        Case("60 kB of headers", b"{", headers=tuple((f"h{n}", b"x" * 500) for n in range(120))),
        Case("a header without a value", b"{", headers=(("x-nothing", None),)),
    ]  # fmt: skip
