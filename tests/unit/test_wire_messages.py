"""Headers tell the story of a run to people, and templates write what the plain functions write."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waterclock.log.port import Outgoing
from waterclock.model.events import (
    Answered,
    Control,
    ControlKind,
    DeadLetter,
    Ended,
    EventKind,
    Heartbeat,
    Lease,
    LeaseKind,
    Origin,
    Pending,
    Reject,
    Revised,
    RunEvent,
    Skipped,
    SourceRecord,
    Started,
    WorkRecord,
)
from waterclock.model.ids import make_job_id, make_run_id
from waterclock.model.job import Command, CommandKind, Tier
from waterclock.model.job_state import JobState
from waterclock.model.role_state import ShardState
from waterclock.model.run_log import LogLine, LogStream, RunLog
from waterclock.wire import codec, headers, messages
from waterclock.wire.names import Names
from waterclock.wire.template import PendingTemplate, WorkTemplate

NAMES = Names()
JOB = "acme:nightly-invoice"
NINE = 1_795_251_600_000_000  # 2026-11-21T09:00:00Z
RUN = make_run_id(JOB, NINE)
PENDING = Pending(7, NINE, NINE, Tier.HIGH, Origin.SCHEDULE, handler="invoice", zone="Europe/Berlin", tzdata="2026f")
WORK = WorkRecord(RUN, NINE, NINE, 1, JOB, 7, Tier.HIGH, "default", "invoice", b"{}")
SOURCE = SourceRecord("waterclock.runs.high", 2, 41, b"key", b"value", (("a", b"b"),))

EVENTS = [
    RunEvent(EventKind.PENDING, JOB, RUN, NINE, detail=PENDING),
    RunEvent(EventKind.STARTED, JOB, RUN, NINE + 250_000, 1, "worker-1", 77, detail=Started("t", 2, 41)),
    RunEvent(EventKind.ATTEMPT_FAILED, JOB, RUN, NINE, 1, "worker-1", 77, 4711, detail=Ended(NINE)),
    RunEvent(EventKind.RUN_FAILED, JOB, RUN, NINE, 1, "worker-1", 77, 4711, "exhausted"),
    RunEvent(EventKind.SKIPPED, JOB, RUN, NINE, detail=Skipped(7, NINE, NINE, 1, Tier.HIGH, NINE)),
    RunEvent(EventKind.REVISED, JOB, "", NINE, detail=Revised(7, NINE, NINE, "create")),
    RunEvent(EventKind.ANSWERED, JOB, "", NINE, detail=Answered("c-1", 41, "applied", 7)),
]
MESSAGES = [
    *(messages.event_message(NAMES, event) for event in EVENTS),
    messages.work_message(NAMES, WORK),
    messages.run_log_message(
        NAMES, RunLog(RUN, 1, JOB, 4711, "worker-1", (LogLine(1, NINE, LogStream.STDOUT, "hello"),))
    ),
    messages.command_message(NAMES, Command(CommandKind.PAUSE, JOB, "c-1", "ada", NINE)),
    messages.lease_message(NAMES, Lease(LeaseKind.HELLO, "worker-1", NINE)),
    messages.heartbeat_message(NAMES, Heartbeat("worker-1", 77, NINE, "waterclock.worker.worker-1", 0, 0, 8)),
    messages.control_message(NAMES, Control(ControlKind.CANCEL_REQUESTED, JOB, RUN, NINE)),
    messages.reject_message(NAMES, Reject("dispatcher", "no run_event", "", "", NINE, SOURCE)),
    messages.dead_letter_message(
        NAMES, DeadLetter(RUN, JOB, "exhausted", "ValueError", "no", "f00", 3, NINE, NINE, NINE, SOURCE)
    ),
]


def kcat(message: Outgoing) -> str:
    """What ``kcat -f '%k | %h'`` prints."""
    return f"{message.key.decode()} | " + ",".join(f"{name}={value.decode()}" for name, value in message.headers)


def header(message: Outgoing, name: str) -> str:
    found = [value.decode() for each, value in message.headers if each == name]
    assert len(found) == 1, f"{name} in {kcat(message)}"
    return found[0]


def test_kcat_tells_the_story_of_a_run() -> None:
    story = [kcat(messages.event_message(NAMES, event)) for event in EVENTS[:4]]
    assert [line.partition(",")[0] for line in story] == [
        "acme:nightly-invoice | ce_type=io.waterclock.run.pending",
        "acme:nightly-invoice | ce_type=io.waterclock.run.started",
        "acme:nightly-invoice | ce_type=io.waterclock.run.attempt-failed",
        "acme:nightly-invoice | ce_type=io.waterclock.run.failed",
    ]
    assert story[1] == (
        "acme:nightly-invoice | ce_type=io.waterclock.run.started,ce_subject=acme:nightly-invoice@20261121T090000Z,"
        "waterclock-attempt=1,ce_time=2026-11-21T09:00:00.250000Z,"
        "ce_id=acme:nightly-invoice@20261121T090000Z/1/started,ce_source=/waterclock/workers/worker-1,"
        "waterclock-tenant=acme,ce_specversion=1.0,content-type=application/avro"
    )


@pytest.mark.parametrize("message", MESSAGES)
def test_every_message_is_a_cloud_event_in_binary_mode(message: Outgoing) -> None:
    names = [name for name, _ in message.headers]
    assert len(names) == len(set(names))
    assert header(message, "ce_specversion") == "1.0"
    assert header(message, "content-type") == "application/avro"
    assert header(message, "ce_type").startswith("io.waterclock.")
    assert header(message, "ce_source").startswith("/waterclock/")
    assert header(message, "ce_id")
    datetime.fromisoformat(header(message, "ce_time"))
    assert all(re.fullmatch(r"ce_[a-z0-9]+|[a-z-]+", name) for name in names)


def test_the_words_of_events_are_kept() -> None:
    """They are in event ids, by which consumers drop repeats: on-disk format."""
    assert headers.WORDS == {
        EventKind.UNKNOWN: "unknown",
        EventKind.PENDING: "pending",
        EventKind.HELD: "held",
        EventKind.SKIPPED: "skipped",
        EventKind.STARTED: "started",
        EventKind.ATTEMPT_SUCCEEDED: "succeeded",
        EventKind.ATTEMPT_FAILED: "attempt-failed",
        EventKind.ATTEMPT_TIMED_OUT: "attempt-timed-out",
        EventKind.ATTEMPT_CANCELLED: "attempt-cancelled",
        EventKind.ATTEMPT_LOST: "attempt-lost",
        EventKind.RETRYING: "retrying",
        EventKind.RUN_FAILED: "failed",
        EventKind.RUN_EXPIRED: "expired",
        EventKind.CANCEL_REQUESTED: "cancel-requested",
        EventKind.DAG_SUCCEEDED: "dag-succeeded",
        EventKind.DAG_FAILED: "dag-failed",
        EventKind.NODE_SKIPPED: "node-skipped",
        EventKind.REVISED: "revised",
        EventKind.ANSWERED: "answered",
        EventKind.DAG_PAUSED: "dag-paused",
        EventKind.DAG_RESUMED: "dag-resumed",
        EventKind.BACKFILL: "backfill",
    }


def test_event_ids_name_run_attempt_and_fact() -> None:
    assert [messages.id_of_event(event).removeprefix(JOB) for event in EVENTS] == [
        "@20261121T090000Z/0/pending",
        "@20261121T090000Z/1/started",
        "@20261121T090000Z/1/attempt-failed",
        "@20261121T090000Z/1/failed",
        "@20261121T090000Z/0/skipped",
        "/7/revised",
        "/41/answered",
    ]


def test_the_short_way_of_a_workers_events_puts_the_same_headers_together() -> None:
    of_worker = [event for event in EVENTS if event.kind in messages._OF_ATTEMPTS]
    assert len(of_worker) > 1
    for event in (*of_worker, *(event._replace(attempt=7, worker="é", token=0) for event in of_worker)):
        for prefix in ("waterclock", "other"):
            assert messages._attempt_headers(prefix, event) == messages._event_headers(prefix, event)


def test_an_outcome_carries_the_fence_and_a_started_cannot() -> None:
    started, failed = (messages.event_message(NAMES, event) for event in EVENTS[1:3])
    assert header(failed, "waterclock-fence") == "4711"
    assert "waterclock-fence" not in kcat(started)


def test_work_carries_the_idempotency_key() -> None:
    message = messages.work_message(NAMES, WORK)
    assert header(message, "idempotency-key") == RUN
    assert (message.topic, message.key) == ("waterclock.runs.high", JOB.encode())


def test_work_of_a_pool_goes_to_the_pools_topic() -> None:
    assert messages.work_message(NAMES, WORK._replace(pool="gpu")).topic == "waterclock.runs.high.gpu"


def test_headers_stay_under_one_kibibyte_for_the_longest_names() -> None:
    job = make_job_id("t" * 63, "n" * 128)
    run = make_run_id(job, NINE + 1, series=2**53)
    event = EVENTS[2]._replace(job_id=job, run_id=run, worker="w" * 63, token=2**53)
    for message in (
        messages.event_message(NAMES, event),
        messages.work_message(NAMES, WORK._replace(job_id=job, run_id=run)),
    ):
        assert sum(len(name) + len(value) for name, value in message.headers) < 1024


@given(st.integers(-62_000_000_000_000_000, 253_000_000_000_000_000))
def test_ce_time_is_the_instant(at: int) -> None:
    said = datetime.fromisoformat(headers.time(at)[1].decode())
    assert said == datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=at)


# Rejects and dead letters -------------------------------------------------------------------------------------------


def test_a_reject_says_what_and_where_and_holds_the_bytes() -> None:
    message = messages.reject_message(NAMES, Reject("dispatcher", "bad\nline " + "é" * 300, "/p", "h", NINE, SOURCE))
    assert message.key == b"key"
    assert header(message, "waterclock-origin") == "waterclock.runs.high/2/41"
    assert header(message, "waterclock-error").startswith("bad line é")
    assert len(header(message, "waterclock-error").encode()) <= headers.TEXT_MAX
    assert codec.decode_reject(message.value or b"").source == SOURCE


@pytest.mark.parametrize("key", [None, b""])
def test_a_reject_of_a_record_without_a_key_still_has_one(key: bytes | None) -> None:
    reject = Reject("dispatcher", "r", "", "", NINE, SOURCE._replace(key=key))
    assert messages.reject_message(NAMES, reject).key == b"waterclock.runs.high/2/41"


def test_a_reject_too_long_to_be_carried_is_cut_and_says_so() -> None:
    whole = SOURCE._replace(value=b"v" * 1_000_000, headers=(("h", b"x" * 100_000),), key=b"k" * 100_000)
    message = messages.reject_message(NAMES, Reject("dispatcher", "r", "", "", NINE, whole))
    assert header(message, "waterclock-cut") == "1000000"
    assert len(message.key) + len(message.value or b"") < 1_000_000
    kept = codec.decode_reject(message.value or b"").source
    assert kept.value
    assert whole.value
    assert whole.value.startswith(kept.value)


def test_a_reject_is_written_even_where_the_key_alone_is_longer_than_what_is_carried() -> None:
    whole = SOURCE._replace(value=b"v" * 1_200_000, key=b"k" * 1_000_000)
    message = messages.reject_message(NAMES, Reject("intake", "r", "", "", NINE, whole))
    kept = codec.decode_reject(message.value or b"").source
    assert kept.key
    assert kept.value
    assert whole.key
    assert whole.key.startswith(kept.key)
    assert header(message, "waterclock-cut") == "1200000"


def test_a_record_as_long_as_it_may_be_is_carried_whole() -> None:
    whole = SOURCE._replace(value=b"v" * 262_144)
    message = messages.reject_message(NAMES, Reject("dispatcher", "r", "", "", NINE, whole))
    assert "waterclock-cut" not in kcat(message)
    assert codec.decode_reject(message.value or b"").source == whole


def test_a_dead_letter_keeps_the_work_and_tells_why() -> None:
    message = MESSAGES[-1]
    assert (message.topic, message.key) == ("waterclock.dlq", JOB.encode())
    assert header(message, "waterclock-error") == "exhausted: ValueError: no"
    assert header(message, "waterclock-origin") == "waterclock.runs.high/2/41"
    letter = codec.decode_dead_letter(message.value or b"")
    assert header(message, "waterclock-cause") == f"ValueError/{letter.fingerprint}"
    assert header(message, "waterclock-last-failure") >= header(message, "waterclock-first-failure")
    assert codec.decode_dead_letter(message.value or b"").work == SOURCE


# State ----------------------------------------------------------------------------------------------------------------


def test_state_goes_to_the_partition_it_is_about() -> None:
    shard = messages.shard_state_message(NAMES, "dispatcher", 3, ShardState("c", 1, 2, NINE))
    job = messages.job_state_message(NAMES, "dispatcher", 3, JobState(JOB, NINE))
    gone = messages.state_tombstone(NAMES, "dispatcher", 3, JOB)
    assert {each.topic for each in (shard, job, gone)} == {"waterclock.state.dispatcher"}
    assert {each.partition for each in (shard, job, gone)} == {3}
    assert (shard.key, job.key, gone.key, gone.value) == (b"cursor", JOB.encode(), JOB.encode(), None)


# Templates ------------------------------------------------------------------------------------------------------------

names_of_things = st.text(alphabet="abcxyz0189._-é", min_size=1, max_size=90)
instants = st.integers(0, 4_000_000_000_000_000)


@given(
    job_id=names_of_things.map(lambda name: f"acme:{name}"),
    revision=st.integers(0, 2**53),
    tier=st.sampled_from(Tier),
    pool=st.sampled_from(["default", "gpu"]),
    handler=names_of_things,
    payload=st.binary(max_size=300),
    executor=st.sampled_from(["", '{"shell":{"argv":["a"]}}']),
    at_most_once=st.booleans(),
    runs=st.lists(st.tuples(names_of_things, instants, instants, st.integers(1, 400)), max_size=4),
)
def test_a_work_template_writes_what_work_message_writes(
    job_id: str,
    revision: int,
    tier: Tier,
    pool: str,
    handler: str,
    payload: bytes,
    executor: str,
    at_most_once: bool,
    runs: list[tuple[str, int, int, int]],
) -> None:
    template = WorkTemplate(
        NAMES,
        job_id=job_id,
        revision=revision,
        tier=tier,
        pool=pool,
        handler=handler,
        payload=payload,
        executor=executor,
        at_most_once=at_most_once,
    )
    for run_id, fire_at, due_at, attempt in runs:
        constants = (job_id, revision, tier, pool, handler, payload, executor, at_most_once)
        work = WorkRecord(run_id, fire_at, due_at, attempt, *constants)
        assert template.work(run_id, fire_at, due_at, attempt) == messages.work_message(NAMES, work)


@given(
    pattern=st.builds(
        Pending,
        st.integers(0, 2**53),
        instants,
        st.none() | instants,
        st.sampled_from(Tier),
        st.sampled_from(Origin),
        pool=names_of_things,
        handler=names_of_things,
        zone=names_of_things,
        tzdata=names_of_things,
    ),
    runs=st.lists(st.tuples(names_of_things, instants, instants, st.none() | instants, names_of_things), max_size=4),
)
def test_a_pending_template_writes_what_event_message_writes(
    pattern: Pending, runs: list[tuple[str, int, int, int | None, str]]
) -> None:
    template = PendingTemplate(NAMES, JOB, pattern)
    for run_id, at, fire_at, due_at, entry in runs:
        detail = pattern._replace(fire_at=fire_at, due_at=due_at, entry=entry)
        event = RunEvent(EventKind.PENDING, JOB, run_id, at, detail=detail)
        assert template.pending(run_id, at, fire_at, due_at, entry) == messages.event_message(NAMES, event)
