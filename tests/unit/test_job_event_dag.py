"""Dags on the way through job events and commands, and what of a Dag is told to the log."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.random_dags import random_dag
from waterclock.intake.avro_form import from_record
from waterclock.model.dag import DagSpec, Node
from waterclock.model.dag_events import NodeEnd, NodeSkipped
from waterclock.model.dag_steps import DagEnd, Release, Skip, SkipReason
from waterclock.model.dag_work import (
    DagRun,
    end_event,
    end_of,
    pending_event,
    skipped_event,
    split_node_run_id,
    topics_of,
    work_record,
)
from waterclock.model.document import spec_from_document
from waterclock.model.errors import RequestError
from waterclock.model.events import EventKind, Origin, Pending, RunStatus
from waterclock.model.executor import HttpCall
from waterclock.model.failure_policy import FailurePolicy, policy_from_json
from waterclock.model.ids import US_PER_S
from waterclock.model.job import Command, CommandKind, Every, JobSpec, Tier
from waterclock.model.job_event import JobEvent, event_of
from waterclock.wire.codec import decode_command, decode_job_event, encode_command, encode_job_event

EVERY = Every(5 * US_PER_S)
NODES = (
    Node("load", "etl.load", tier=Tier.HIGH, pool="gpu", policy=FailurePolicy(max_attempts=2, queue_timeout_us=9)),
    Node("report", executor=HttpCall("https://a.example/x"), after=("load",), at_most_once=True),
)
SPEC = JobSpec("", EVERY, Tier.LOW, policy=FailurePolicy(max_attempts=7), dag=DagSpec(NODES))
RUN = DagRun("acme:nightly@20261121T090000Z", 42, SPEC, 1_795_251_600_000_000, 1234)


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 2**32))
def test_any_dag_survives_the_way_of_an_avro_event_and_of_a_command(seed: int) -> None:
    spec = JobSpec("", EVERY, dag=random_dag(Random(seed), 8))
    command = Command(CommandKind.CREATE, "acme:x", "c", "a", 0, spec=spec)
    assert decode_command(encode_command(command)) == command
    event = decode_job_event(encode_job_event(event_of(command)))
    assert spec_from_document(from_record(event).document).dag == spec.dag


@pytest.mark.parametrize(
    ("text", "pointer", "words"),
    [
        ("{", "/dag", "not JSON"),
        ("[" * 40 + "]" * 40, "/dag", "nested more than 32 levels"),
        ("[]", "/dag", "is not an object"),
        ('{"nodes": [{"name": "a", "handler": "h", "after": ["a"]}]}', "/dag/nodes/0/after", "a -> a"),
    ],
)
def test_a_dag_in_an_event_is_refused_at_its_place(text: str, pointer: str, words: str) -> None:
    event = JobEvent(CommandKind.CREATE, name="x", every_us=EVERY.every_us, dag=text)
    with pytest.raises(RequestError, match=words) as error:
        spec_from_document(from_record(event).document)
    assert error.value.pointer == pointer


def test_an_event_has_a_dag_or_a_handler() -> None:
    event = JobEvent(
        CommandKind.CREATE, handler="h", every_us=EVERY.every_us, dag='{"nodes": [{"name": "a", "handler": "h"}]}'
    )
    with pytest.raises(RequestError) as error:
        spec_from_document(from_record(event).document)
    assert error.value.pointer == "/handler"


def test_a_released_node_is_told_with_what_is_its_own_and_else_its_jobs() -> None:
    event = pending_event(RUN, NODES[0], Release("load", -1, b"x"), 77)
    assert (event.kind, event.job_id, event.run_id) == (
        EventKind.PENDING, "acme:nightly", "acme:nightly@20261121T090000Z/load",
    )  # fmt: skip
    assert isinstance(event.detail, Pending)
    assert (event.detail.tier, event.detail.pool, event.detail.origin) == (Tier.HIGH, "gpu", Origin.RELEASE)
    assert (event.detail.queue_timeout_us, event.detail.due_at, event.detail.dag) == (9, None, None)
    work = work_record(RUN, NODES[1], Release("report", -1, b"x"), 77)
    assert (work.tier, work.pool, work.handler, work.at_most_once) == (Tier.LOW, "default", "", True)
    assert policy_from_json(work.policy) == SPEC.policy
    assert work.executor == '{"http":{"url":"https://a.example/x"}}'
    assert (work.attempt, work.payload, work.dag_from, work.revision) == (1, b"x", 1234, 42)
    assert topics_of(SPEC) == ((Tier.HIGH, "gpu"), (Tier.LOW, "default"))


def test_an_item_has_a_run_of_its_own() -> None:
    work = work_record(RUN, NODES[0], Release("load", 3, b""), 77)
    assert split_node_run_id(work.run_id) == (RUN.run_id, "load.3")
    assert split_node_run_id(RUN.run_id) == (RUN.run_id, "")


def test_skips_and_ends_are_told_with_their_reason() -> None:
    skip = skipped_event(RUN.run_id, Skip("report", SkipReason.RULE, NodeEnd.SKIPPED), 77)
    assert (skip.kind, skip.reason, skip.detail) == (
        EventKind.NODE_SKIPPED, "trigger-rule", NodeSkipped(NodeEnd.SKIPPED),
    )  # fmt: skip
    failed = end_event(RUN.run_id, DagEnd(succeeded=False, failed=("a", "b")), 77)
    assert (failed.kind, failed.reason) == (EventKind.DAG_FAILED, "nodes-failed: a, b")
    assert end_event(RUN.run_id, DagEnd(succeeded=True), 77).kind is EventKind.DAG_SUCCEEDED
    ends = {status: end_of(status) for status in RunStatus}
    assert {status for status, end in ends.items() if end is NodeEnd.FAILED} == {RunStatus.FAILED, RunStatus.CANCELLED}
    assert ends[RunStatus.SKIPPED] is ends[RunStatus.RUNNING] is None
