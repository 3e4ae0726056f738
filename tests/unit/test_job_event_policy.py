"""Failure policies on the way through job events: what a client says is what the intake reads, in Avro as in JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.intake_world import PING
from tests.unit.test_policy_document import policies
from waterclock.intake.avro_form import from_record
from waterclock.intake.json_form import read_json_event
from waterclock.model.document import spec_from_document
from waterclock.model.errors import RequestError
from waterclock.model.failure_policy import DEFAULT, Backoff, FailurePolicy
from waterclock.model.ids import US_PER_S
from waterclock.model.job import Command, CommandKind, Every, JobSpec
from waterclock.model.job_event import JobEvent, event_of
from waterclock.wire.codec import decode_job_event, encode_job_event

EVENT = JobEvent(CommandKind.CREATE, name="ping", handler="demo.ping", every_us=5 * US_PER_S)


def _through_avro(policy: FailurePolicy, *, at_most_once: bool = False) -> FailurePolicy:
    spec = JobSpec("demo.ping", Every(5 * US_PER_S), policy=policy, at_most_once=at_most_once)
    event = event_of(Command(CommandKind.CREATE, "acme:ping", "c", "a", 0, spec=spec))
    return spec_from_document(from_record(decode_job_event(encode_job_event(event))).document).policy


@settings(deadline=None)
@given(policies())
def test_any_policy_survives_the_way_of_an_avro_event(policy: FailurePolicy) -> None:
    assert _through_avro(policy) == policy


@settings(deadline=None)
@given(policies(), st.sampled_from([1, 4]))
def test_what_is_called_at_most_once_keeps_its_time_outs_on_that_way(policy: FailurePolicy, attempts: int) -> None:
    limits = FailurePolicy(
        queue_timeout_us=policy.queue_timeout_us,
        attempt_timeout_us=policy.attempt_timeout_us,
        run_timeout_us=policy.run_timeout_us,
        max_attempts=attempts,
    )
    assert _through_avro(limits, at_most_once=True) == limits


def test_an_event_without_a_word_on_it_has_the_default_and_costs_nothing() -> None:
    assert _through_avro(DEFAULT) == DEFAULT
    assert (
        event_of(Command(CommandKind.CREATE, "acme:p", "c", "a", 0, spec=JobSpec("h", Every(US_PER_S)))).retry is None
    )


def test_a_record_with_defaults_alone_says_the_default_policy() -> None:
    event = decode_job_event(encode_job_event(EVENT._replace(retry={}, timeouts={})))
    assert spec_from_document(from_record(event).document).policy == DEFAULT


def test_a_json_event_says_it_in_the_documents_words() -> None:
    document = {**PING, "retry": {"backoff": "fixed", "delay": "30s"}, "timeouts": {"attempt": "2m"}}
    policy = spec_from_document(read_json_event(json.dumps(document).encode()).document).policy
    assert (policy.backoff, policy.delays_us) == (Backoff.FIXED, (30 * US_PER_S,))
    assert policy.attempt_timeout_us == 120 * US_PER_S


@pytest.mark.parametrize(
    ("parts", "pointer"),
    [
        ({"retry": {"max_attempts": 0}}, "/retry/max_attempts"),
        ({"retry": {"delay_s": -1}}, "/retry/delay_s"),
        ({"retry": {"backoff": "UNKNOWN"}}, "/retry/backoff"),
        ({"retry": {"backoff": "LIST"}}, "/retry/delays_s"),
        ({"retry": {"backoff": "FIXED", "delays_s": [1]}}, "/retry/delays_s"),
        ({"retry": {"max_delay_s": 10**9}}, "/retry/max_delay_s"),
        ({"retry": {"by_class": [{"error_class": "A", "max_attempts": 2}] * 2}}, "/retry/by_class"),
        ({"timeouts": {"attempt_s": 6 * 86_400}}, "/timeouts/attempt_s"),
        ({"timeouts": {"run_s": -5}}, "/timeouts/run_s"),
    ],
)
def test_what_an_avro_event_says_wrong_is_refused_at_its_field(parts: dict[str, Any], pointer: str) -> None:
    data = encode_job_event(EVENT._replace(**parts))
    with pytest.raises(RequestError) as refused:
        spec_from_document(from_record(decode_job_event(data)).document)
    found = refused.value.pointer
    assert from_record(EVENT).pointers.get(found, found) == pointer
