"""Identities are on-disk format: what is written here may never change."""

from __future__ import annotations

import random

import confluent_kafka
import pytest
from hypothesis import given
from hypothesis import strategies as st

from waterclock.model import ids
from waterclock.model.errors import RequestError

NINE = 1_795_251_600 * ids.US_PER_S  # 2026-11-21T09:00:00Z


@pytest.mark.parametrize(("key", "signed", "slot"), [("21", -973_932_308, 236), ("foobar", -790_332_482, 190)])
def test_the_hash_and_the_slot_are_those_of_kafka(key: str, signed: int, slot: int) -> None:
    assert ids.murmur2(key.encode()) == signed & 0xFFFFFFFF
    assert ids.slot_of(key) == slot
    assert [ids.partition_of(key, partitions) for partitions in (1, 4, 32, 256)] == [0, slot % 4, slot % 32, slot]


@given(st.binary(max_size=200))
def test_our_murmur2_is_that_of_the_client_library(key: bytes) -> None:
    for partitions in (256, 2**31 - 1):
        assert (ids.murmur2(key) & 0x7FFFFFFF) % partitions == confluent_kafka.murmur2(key, partitions)


def test_a_job_lies_in_the_shard_of_its_partition() -> None:
    drawn = random.Random(7)
    for _ in range(200):
        job_id = ids.make_job_id("acme", f"job-{drawn.randrange(10**9)}")
        partition = ids.partition_of(job_id, 4)
        assert ids.slot_of(job_id) in ids.slots_of_partition(partition, 4)
    assert sorted(slot for p in range(4) for slot in ids.slots_of_partition(p, 4)) == list(range(256))


def test_a_job_id_is_tenant_and_name() -> None:
    assert ids.make_job_id("acme", "nightly-invoice") == "acme:nightly-invoice"
    assert ids.split_job_id("acme:nightly-invoice") == ("acme", "nightly-invoice")
    assert ids.slot_of("acme:nightly-invoice") == 254


@pytest.mark.parametrize(
    ("fire_at", "series", "node", "text"),
    [
        (NINE, 0, "", "acme:nightly@20261121T090000Z"),
        (NINE + 250_000, 0, "", "acme:nightly@20261121T090000.250000Z"),
        (NINE + 1, 0, "load", "acme:nightly@20261121T090000.000001Z/load"),
        (NINE, 7, "", "acme:nightly@20261121T090000Z~7"),
        (NINE, 281_474_976_710_661, "load.7", "acme:nightly@20261121T090000Z~281474976710661/load.7"),
    ],
)
def test_a_run_id_can_be_read_and_read_back(fire_at: int, series: int, node: str, text: str) -> None:
    parts = ids.RunId("acme:nightly", fire_at, series, node)
    assert str(parts) == text
    assert ids.parse_run_id(text) == parts
    assert ids.job_of_run(text) == "acme:nightly"


_names = st.from_regex(r"[a-z0-9][a-z0-9._-]{0,20}", fullmatch=True)


@given(_names, _names, st.integers(0, 4_000_000_000_000_000), st.integers(0, 2**62), st.one_of(st.just(""), _names))
def test_every_run_id_survives_the_round_trip(tenant: str, name: str, fire_at: int, series: int, node: str) -> None:
    parts = ids.RunId(ids.make_job_id(tenant, name), fire_at, series, node)
    assert ids.parse_run_id(str(parts)) == parts


@pytest.mark.parametrize(
    "text",
    [
        "",
        "acme:nightly",
        "nightly@20261121T090000Z",
        "acme:nightly@2026-11-21T09:00:00Z",
        "acme:nightly@20261121T090000",
        "acme:nightly@20261121T090000.25Z",
        "acme:nightly@20261321T090000Z",
        "acme:nightly@20261121T096000Z",
        "acme:nightly@20261121 090000Z",
        "acme:nightly@2026-11-21T0900Z",
        "acme:nightly@2026W476T090000Z",
        "acme:nightly@20261121T090000Z~0",
        "acme:nightly@20261121T090000Z~",
        "acme:nightly@20261121T090000Z~9223372036854775808",
        "acme:nightly@20261121T090000Z/",
        "acme:nightly@20261121T090000Z/Load",
        "acme:nightly@20261121T090000Z\n",
        "acme:nightly@20261121T090000Z/" + "n" * 64,
        "a" * 64 + ":nightly@20261121T090000Z",
    ],
)
def test_what_is_no_run_id_is_refused_with_a_hint(text: str) -> None:
    with pytest.raises(RequestError) as refused:
        ids.parse_run_id(text)
    assert refused.value.hint


def test_lengths_are_limited_where_the_format_says() -> None:
    assert ids.make_job_id("t" * 63, "n" * 128) == "t" * 63 + ":" + "n" * 128
    for tenant, name, pointer in [("t" * 64, "n", "/tenant"), ("t", "n" * 129, "/name"), ("", "n", "/tenant")]:
        with pytest.raises(RequestError) as refused:
            ids.make_job_id(tenant, name)
        assert refused.value.pointer == pointer


@pytest.mark.parametrize("name", ["", "Nightly", "-nightly", "a b", "a/b", "a@b", "a:b", "a~b", "nächtlich", "a\n"])
def test_a_name_holds_nothing_that_an_id_or_a_url_would_misread(name: str) -> None:
    with pytest.raises(RequestError):
        ids.make_job_id("acme", name)


def test_a_generated_name_is_kept_by_tenant_and_key() -> None:
    name = ids.generated_name("acme", "order-4711")
    assert name == "job-2ed687568de4751a0091"
    assert name != ids.generated_name("other", "order-4711")
    assert ids.make_job_id("acme", name)


def test_revisions_grow_with_the_generation_and_keep_the_offset() -> None:
    assert ids.ordinal(0, 5) == 5
    assert ids.ordinal(1, 0) > ids.ordinal(0, 2**48 - 1)
    assert ids.offset_of(ids.ordinal(3, 77)) == 77


def test_an_event_id_names_run_attempt_and_kind() -> None:
    assert ids.event_id("acme:nightly@20261121T090000Z/load", 2, "STARTED") == (
        "acme:nightly@20261121T090000Z/load/2/STARTED"
    )


def test_a_bucket_is_a_minute_of_the_epoch() -> None:
    assert ids.minute_of(NINE) * ids.US_PER_MINUTE == NINE
    assert ids.minute_of(NINE - 1) == ids.minute_of(NINE) - 1
