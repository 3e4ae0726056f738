"""Overlap and limits in a job document: what is taken, what is refused and how, and that nothing is lost on the way."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waterclock.intake.avro_form import from_record
from waterclock.model.concurrency import (
    FREE,
    HELD_MAX,
    Concurrency,
    Overlap,
    concurrency_from_json,
    concurrency_to_json,
)
from waterclock.model.concurrency_document import concurrency_from_document, concurrency_to_document
from waterclock.model.document import spec_from_document, spec_to_document
from waterclock.model.errors import RequestError
from waterclock.model.job import Command, CommandKind
from waterclock.model.job_event import event_of
from waterclock.model.stored_spec import spec_from_json, spec_to_json
from waterclock.model.timing import PLAIN, CatchUpOrder
from waterclock.wire.codec import decode_command, decode_job_event, encode_command, encode_job_event

JOB = {"handler": "demo.noop", "every": "1m"}


@st.composite
def concurrencies(draw: st.DrawFn) -> Concurrency:
    overlap = draw(st.sampled_from(list(Overlap)))
    most = 1 if overlap is Overlap.SEQUENTIAL else 1_000
    key = draw(st.sampled_from(["", "/a", "/a/0/b~1c"]))
    max_concurrent = draw(st.integers(0, most))
    holds = overlap is Overlap.BUFFER_ALL or (overlap is Overlap.ALLOW and (key or max_concurrent))
    return Concurrency(
        overlap,
        max_concurrent,
        key,
        draw(st.integers(0, most)) if key else 0,
        draw(st.integers(0, HELD_MAX)) if holds else 0,
    )


@given(concurrencies())
def test_what_a_document_says_survives_every_form(concurrency: Concurrency) -> None:
    assert concurrency_from_document(concurrency_to_document(concurrency), PLAIN) == concurrency
    assert concurrency_from_json(concurrency_to_json(concurrency)) == concurrency
    spec = replace(spec_from_document(JOB), concurrency=concurrency)
    assert spec_from_document(spec_to_document(spec)) == spec
    assert spec_from_json(spec_to_json(spec)) == spec
    command = Command(CommandKind.CREATE, "t:job", "c1", "me", 0, spec=spec)
    assert decode_command(encode_command(command)) == command
    event = decode_job_event(encode_job_event(event_of(command)))
    assert spec_from_document(dict(from_record(event).document)) == spec


@pytest.mark.parametrize(
    ("document", "pointer"),
    [
        ({"overlap": "never"}, "/overlap"),
        ({"overlap": 3}, "/overlap"),
        ({"max_concurrent": 0}, "/max_concurrent"),
        ({"max_concurrent": 1_001}, "/max_concurrent"),
        ({"max_concurrent": True}, "/max_concurrent"),
        ({"max_concurrent": "2"}, "/max_concurrent"),
        ({"concurrency_key": "customer"}, "/concurrency_key"),
        ({"concurrency_key": ""}, "/concurrency_key"),
        ({"concurrency_key": "/a~2"}, "/concurrency_key"),
        ({"concurrency_key": "/" + "a" * 200}, "/concurrency_key"),
        ({"max_concurrent_per_key": 2}, "/max_concurrent_per_key"),
        ({"max_held": 5}, "/max_held"),
        ({"overlap": "skip", "max_held": 5}, "/max_held"),
        ({"overlap": "buffer_all", "max_held": 1_001}, "/max_held"),
        ({"overlap": "sequential", "max_concurrent": 2}, "/max_concurrent"),
        ({"overlap": "sequential", "concurrency_key": "/a", "max_concurrent_per_key": 2}, "/max_concurrent_per_key"),
        ({"overlap": "sequential", "max_held": 5}, "/max_held"),
        ({"overlap": "sequential", "catch_up": {"order": "newest"}}, "/catch_up/order"),
        ({"max_concurent": 5}, "/max_concurent"),
    ],
)
def test_what_cannot_be_kept_is_refused_with_its_place_and_a_hint(document: dict[str, object], pointer: str) -> None:
    with pytest.raises(RequestError) as refused:
        spec_from_document(JOB | document)
    assert refused.value.pointer == pointer
    assert refused.value.hint


def test_a_job_that_says_nothing_is_free_and_stores_nothing() -> None:
    assert spec_from_document(JOB).concurrency == FREE
    assert b"concurrency" not in spec_to_json(spec_from_document(JOB))
    assert FREE.is_free
    assert not Concurrency(Overlap.SKIP).is_free


def test_a_policy_alone_means_one_run_and_with_a_key_one_for_each() -> None:
    assert (Concurrency(Overlap.SKIP).job_limit, Concurrency(Overlap.SKIP).key_limit) == (1, 0)
    keyed = Concurrency(Overlap.SKIP, key="/a")
    assert (keyed.job_limit, keyed.key_limit) == (0, 1)
    assert Concurrency(max_concurrent=4).job_limit == 4


@pytest.mark.parametrize(
    ("payload", "group"),
    [
        (b'{"a":{"b":[1,{"c":"x"}]}}', '/a/b/1/c="x"'),
        (b'{"a":{"b":[1]}}', "/a/b/1/c=null"),
        (b"", "/a/b/1/c=null"),
        (b"\xff", "/a/b/1/c=null"),
        (b'{"a":{"b":[0,{"c":{"z":1,"y":2}}]}}', '/a/b/1/c={"y":2,"z":1}'),
    ],
)
def test_a_group_is_pointer_and_value_and_what_has_no_value_is_one_group(payload: bytes, group: str) -> None:
    assert Concurrency(key="/a/b/1/c").group(payload) == group


def test_long_values_go_by_their_hash_and_large_payloads_too() -> None:
    group = Concurrency(key="/a").group(b'{"a":"%s"}' % (b"x" * 60_000))
    assert group.startswith("/a=#")
    assert len(group) == 36


def test_words_of_a_later_release_are_dropped() -> None:
    assert concurrency_from_json('{"overlap":"teleport","later":1,"max_concurrent":3}') == Concurrency(max_concurrent=3)


def test_a_newest_first_catch_up_goes_with_any_other_policy() -> None:
    spec = spec_from_document(JOB | {"overlap": "buffer_all", "catch_up": {"order": "newest"}})
    assert spec.timing.catch_up_order is CatchUpOrder.NEWEST
