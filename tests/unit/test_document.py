"""The JSON form of a job: what is written comes back, what is wrong is refused where it is wrong."""

from __future__ import annotations

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from waterclock.model.cron import compile_cron
from waterclock.model.document import PAYLOAD_MAX, spec_from_document, spec_to_document
from waterclock.model.errors import RequestError
from waterclock.model.ids import US_PER_S
from waterclock.model.job import Cron, Every, Fold, Gap, JobSpec, Once, Tier
from waterclock.model.stored_spec import spec_from_json, spec_to_json

NINE = 1_795_251_600 * US_PER_S  # 2026-11-21T09:00:00Z


def test_a_full_document_is_read_key_by_key() -> None:
    spec = spec_from_document(
        {
            "handler": "demo.ping", "cron": "0 0 9 * * 1-5", "zone": "Europe/Berlin", "seconds": True, "gap": "skip",
            "fold": "both", "tier": "high", "pool": "gpu", "payload": {"to": "Köln", "n": [1, 2.5, None]},
        }
    )  # fmt: skip
    assert spec == JobSpec(
        handler="demo.ping",
        schedule=Cron("0 0 9 * * 1-5", "Europe/Berlin", seconds=True, gap=Gap.SKIP, fold=Fold.BOTH),
        tier=Tier.HIGH,
        pool="gpu",
        payload='{"to":"Köln","n":[1,2.5,null]}'.encode(),
    )


@pytest.mark.parametrize(
    ("document", "schedule"),
    [
        ({"cron": "@daily"}, Cron("@daily")),
        ({"every": "5s"}, Every(5 * US_PER_S)),
        ({"every": "10m"}, Every(600 * US_PER_S)),
        ({"every": "2h", "start_at": "2026-11-21T09:00:00Z"}, Every(7_200 * US_PER_S, NINE)),
        ({"every": "1d", "start_at": "2026-11-21t10:00:00.25+01:00"}, Every(86_400 * US_PER_S, NINE + 250_000)),
        ({"at": "2026-11-21T09:00:00.000001Z"}, Once(NINE + 1)),
        ({"at": "2026-11-21 04:30:00-04:30"}, Once(NINE)),
    ],
)
def test_the_rest_has_defaults(document: dict[str, object], schedule: Cron | Every | Once) -> None:
    assert spec_from_document({"handler": "h", **document}) == JobSpec("h", schedule)


@pytest.mark.parametrize(
    ("document", "pointer", "words"),
    [
        ([], "", "object"),
        ("0 9 * * *", "", "object"),
        ({}, "", "one of cron, every, delay, at and dates"),
        ({"handler": "h"}, "", "one of cron, every, delay, at and dates"),
        ({"every": "5s"}, "/handler", "registered handler"),
        ({"handler": "", "every": "5s"}, "/handler", "registered handler"),
        ({"handler": "a b", "every": "5s"}, "/handler", "registered handler"),
        ({"handler": "h" * 129, "every": "5s"}, "/handler", "registered handler"),
        ({"handler": 5, "every": "5s"}, "/handler", "registered handler"),
        ({"handler": "h", "every": "5s", "cron": "@daily"}, "/every", "exactly one"),
        ({"handler": "h", "every": "5s", "zone": "UTC"}, "/zone", "goes with"),
        ({"handler": "h", "cron": "@daily", "start_at": "2026-11-21T09:00:00Z"}, "/start_at", "goes with"),
        ({"handler": "h", "every": "5s", "hander": "x"}, "/hander", "Did you mean handler?"),
        ({"handler": "h", "every": "5s", "a/b~c": 1}, "/a~1b~0c", "not known"),
        ({"handler": "h", "every": "500ms"}, "/every", "5s"),
        ({"handler": "h", "every": "0s"}, "/every", "5s"),
        ({"handler": "h", "every": "-5s"}, "/every", "5s"),
        ({"handler": "h", "every": "5s\n"}, "/every", "5s"),
        ({"handler": "h", "every": 5}, "/every", "5s"),
        ({"handler": "h", "every": "99999d"}, "/every", "3650d"),
        ({"handler": "h", "at": "2026-11-21T09:00:00"}, "/at", "no offset"),
        ({"handler": "h", "at": "2026-11-21"}, "/at", "RFC 3339"),
        ({"handler": "h", "at": "2026-02-30T00:00:00Z"}, "/at", "does not exist"),
        ({"handler": "h", "at": "2016-12-31T23:59:60Z"}, "/at", "does not exist"),
        ({"handler": "h", "at": "0001-01-01T00:00:00+14:00"}, "/at", "does not exist"),
        ({"handler": "h", "at": "1969-12-31T23:59:59Z"}, "/at", "out of range"),
        ({"handler": "h", "at": 1795251600}, "/at", "RFC 3339"),
        ({"handler": "h", "cron": 5}, "/cron", "text"),
        ({"handler": "h", "cron": "0 9 * *"}, "/cron", "4 fields"),
        ({"handler": "h", "cron": "H 9 * * *"}, "/cron", "job's id"),
        ({"handler": "h", "cron": "@daily", "zone": "Europe/Berln"}, "/zone", "Europe/Berlin"),
        ({"handler": "h", "cron": "@daily", "zone": None}, "/zone", "IANA"),
        ({"handler": "h", "cron": "@daily", "seconds": 1}, "/seconds", "true"),
        ({"handler": "h", "cron": "@daily", "gap": "move"}, "/gap", "auto, shift, skip"),
        ({"handler": "h", "cron": "@daily", "fold": 1}, "/fold", "auto, first, both"),
        ({"handler": "h", "every": "5s", "tier": "HIGH"}, "/tier", "high, medium, low"),
        ({"handler": "h", "every": "5s", "pool": "Big Pool"}, "/pool", "a-z"),
        ({"handler": "h", "every": "5s", "payload": "x" * PAYLOAD_MAX}, "/payload", "65536"),
        ({"handler": "h", "every": "5s", "payload": {1: 2}}, "/payload", "not JSON"),
        ({"handler": "h", "every": "5s", "payload": 2**65}, "/payload", "not JSON"),
        ({"handler": "h", "every": "5s", "payload_base64": "?"}, "/payload_base64", "base64"),
        ({"handler": "h", "every": "5s", "payload": 1, "payload_base64": ""}, "/payload_base64", "one payload"),
    ],
)
def test_a_fault_is_refused_where_it_is_with_a_hint(document: object, pointer: str, words: str) -> None:
    with pytest.raises(RequestError) as refused:
        spec_from_document(document)
    assert refused.value.pointer == pointer
    assert refused.value.hint
    assert words in str(refused.value)


def test_h_is_replaced_where_the_job_is_known_so_that_nobody_later_needs_its_id() -> None:
    spec = spec_from_document({"handler": "h", "cron": "H * * * *"}, job_id="acme:nightly")
    assert spec.schedule == Cron("51 * * * *")
    assert compile_cron(Cron("51 * * * *")).wild


_instants = st.integers(0, 7_258_118_400 * US_PER_S - 1)
_schedules = st.one_of(
    st.builds(
        Cron,
        st.sampled_from(["@daily", "*/5 9-17 * * mon-fri", "0 0 L * *"]),
        st.sampled_from(["UTC", "Asia/Kolkata"]),
        gap=st.sampled_from(Gap),
        fold=st.sampled_from(Fold),
    ),
    st.builds(
        Every, st.integers(1, 3_650 * 86_400).map(lambda s: s * US_PER_S), start_at=st.one_of(st.none(), _instants)
    ),
    st.builds(Once, _instants),
)
_payloads = st.one_of(
    st.binary(max_size=60),
    st.sampled_from([b"null", b" null", b"1e2", b'{"a":1}', b'{"a":1,"a":2}', b"NaN", b"9" * 30, b"-0.0"]),
)
_specs = st.builds(
    JobSpec, st.sampled_from(["h", "demo.ping"]), _schedules, st.sampled_from(Tier), st.just("default"), _payloads
)


@given(_specs)
def test_what_job_show_prints_makes_the_same_job(spec: JobSpec) -> None:
    through_json = orjson.loads(orjson.dumps(spec_to_document(spec)))
    assert spec_from_document(through_json) == spec


@given(_specs)
def test_the_stored_form_keeps_every_byte(spec: JobSpec) -> None:
    stored = spec_to_json(spec)
    assert spec_from_json(stored) == spec_from_json(stored.decode()) == spec
    assert type(spec_from_json(stored).tier) is Tier


def test_the_stored_form_is_what_it_was() -> None:
    spec = JobSpec("demo.ping", Cron("0 9 * * *", "Europe/Berlin"), Tier.HIGH, payload=b"\x00\xff")
    stored = b'{"handler":"demo.ping","tier":0,"pool":"default","cron":["0 9 * * *","Europe/Berlin",false,"auto","auto"],"payload":"AP8="}'  # noqa: E501  # on-disk format in one piece
    assert spec_to_json(spec) == stored
    assert spec_from_json(b'{"handler":"h","tier":2,"pool":"p","every":[5000000,null],"later":1}') == JobSpec(
        "h", Every(5_000_000), Tier.LOW, "p"
    )
    assert spec_to_json(JobSpec("h", Once(5))) == b'{"handler":"h","tier":1,"pool":"default","at":5}'
