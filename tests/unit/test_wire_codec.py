"""Every value survives its bytes, the fast paths write what fastavro writes, and hostile bytes do no harm."""

from __future__ import annotations

import io
import time
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from fastavro import schemaless_writer
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.earlier_release import written_without
from waterclock.model.backfill import Backfilled, BackfillStatus
from waterclock.model.concurrency import FREE, Concurrency, Overlap
from waterclock.model.dag import DagSpec, MapOver, Node, TriggerRule
from waterclock.model.dag_events import DagStart, NodeEnd, NodeSkipped
from waterclock.model.dag_state import KeptDagRun, KeptNode
from waterclock.model.errors import RequestError, UndecodableRecord
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
    Retrying,
    Revised,
    RunEvent,
    Skipped,
    SourceRecord,
    Started,
    WorkRecord,
)
from waterclock.model.executor import GrpcCall, HttpCall, KafkaRecord, ShellCommand
from waterclock.model.failure_policy import DEFAULT, Backoff, ClassRule, FailurePolicy
from waterclock.model.flow_state import JobFlow, RunFlow
from waterclock.model.gathering import Arrival, Gathering
from waterclock.model.job import Command, CommandKind, Cron, Dates, Delay, Every, Fold, Gap, JobSpec, Once, Tier
from waterclock.model.job_state import Edge, JobState
from waterclock.model.role_state import KeyState, OpenRunState, RecordedRunState, ShardState
from waterclock.model.run_log import LogLine, LogStream, RunLog
from waterclock.model.timing import PLAIN, CalendarUse, CatchUpOrder, Misfire, OnCalendar, Timing
from waterclock.model.triggers import Ended as EndedAs
from waterclock.model.triggers import JobTriggers, RunEnds, Triggers
from waterclock.wire import codec, records, schemata
from waterclock.wire.framing import CARRIER_MAX, RECORD_MAX

texts = st.text(max_size=40) | st.text(alphabet="é漢𝄞", min_size=60, max_size=80)
longs = st.integers(-(2**63), 2**63 - 1)
late_edges = st.lists(st.builds(Edge, longs, longs), max_size=3).map(tuple)
ints = st.integers(-(2**31), 2**31 - 1)
blobs = st.binary(max_size=200)
tiers = st.sampled_from(Tier)
pairs = st.tuples(longs, longs)

details = st.one_of(
    st.none(),
    st.builds(
        Pending,
        longs,
        longs,
        st.none() | longs,
        tiers,
        st.sampled_from(Origin),
        texts,
        texts,
        texts,
        texts,
        texts,
        texts,
        longs,
        longs,
        longs,
        st.booleans(),
        st.none() | st.builds(DagStart, st.none() | blobs, st.lists(texts, max_size=3).map(tuple)),
        longs,
        texts,
        ints,
    ),
    st.builds(Skipped, longs, longs, longs, longs, tiers, longs, texts, texts, longs),
    st.builds(NodeSkipped, st.sampled_from(NodeEnd), st.none() | blobs),
    st.builds(Started, texts, ints, longs),
    st.builds(Ended, longs, texts, texts, texts, st.none() | blobs, ints, longs),
    st.builds(Revised, longs, longs, longs, texts, st.lists(pairs, max_size=5).map(tuple)),
    st.builds(Answered, texts, longs, texts, longs, texts, texts, texts, texts, texts, texts, texts, texts),
    st.builds(Retrying, longs, longs),
    st.builds(
        Backfilled, longs, longs, st.sampled_from(BackfillStatus), *[longs] * 4, tiers, *[longs] * 11, *[texts] * 3
    ),
)
events = st.builds(
    RunEvent, st.sampled_from(EventKind), texts, texts, longs, ints, texts, longs, longs, texts, detail=details
)
works = st.builds(
    WorkRecord,
    texts,
    longs,
    longs,
    ints,
    texts,
    longs,
    tiers,
    texts,
    texts,
    blobs,
    texts,
    st.booleans(),
    texts,
    longs,
    texts,
    ints,
    longs,
    texts,
    texts,
)
crons = st.builds(Cron, texts, texts, st.booleans(), st.sampled_from(Gap), st.sampled_from(Fold))
schedules = crons | st.builds(Every, longs, st.none() | longs) | st.builds(Once, longs)
schedules |= st.builds(Delay, longs)
schedules |= st.builds(Dates, st.lists(longs, min_size=1, max_size=4).map(tuple))
uses = st.lists(st.builds(CalendarUse, texts, longs, texts), max_size=2).map(tuple)
timings = st.just(PLAIN) | st.builds(
    Timing,
    longs,
    longs,
    st.sampled_from(Misfire),
    ints,
    longs,
    st.sampled_from(CatchUpOrder),
    longs,
    st.booleans(),
    longs,
    uses,
    st.sampled_from(OnCalendar),
    st.booleans(),
    longs,
)
text_pairs = st.lists(st.tuples(texts, texts), max_size=3).map(tuple)
timeouts = st.integers(1, 600).map(float)
executors = st.one_of(
    st.builds(HttpCall, texts, texts, text_pairs, timeouts, texts),
    st.builds(GrpcCall, texts, texts, text_pairs, timeouts, st.booleans()),
    st.builds(ShellCommand, st.lists(texts, max_size=3).map(tuple), timeouts),
    st.builds(KafkaRecord, texts, texts, text_pairs),
)
waits = st.integers(0, 10**13)
policies = st.just(DEFAULT) | st.builds(
    FailurePolicy,
    st.integers(1, 100),
    st.sampled_from(Backoff),
    st.lists(waits, min_size=1, max_size=3).map(tuple),
    waits,
    st.booleans(),
    st.lists(texts, max_size=2).map(tuple),
    st.lists(st.builds(ClassRule, texts, st.integers(0, 9), st.just(()) | st.just((5,))), max_size=2).map(tuple),
    waits,
    waits,
    waits,
)
besides = st.just(FREE) | st.builds(Concurrency, st.sampled_from(Overlap), ints, texts, ints, ints)
maps = st.builds(MapOver, texts, st.integers(0, 9), texts, st.integers(1, 9), st.integers(0, 9))
name_lists = st.lists(texts, max_size=3).map(tuple)
nodes = st.builds(
    Node,
    texts,
    texts,
    st.none() | executors,
    name_lists,
    st.sampled_from(TriggerRule),
    st.none() | tiers,
    texts,
    st.none() | blobs,
    st.none() | policies,
    st.booleans(),
    name_lists,
    st.none() | maps,
    st.booleans(),
)
dags = st.builds(DagSpec, st.lists(nodes, max_size=3).map(tuple), st.integers(0, 9), st.integers(0, 9))
conditions = st.builds(RunEnds, texts, st.sampled_from(EndedAs))
lengths = st.integers(0, 2**63 - 1)
starts = st.builds(
    Triggers,
    st.lists(conditions, min_size=1, max_size=3).map(tuple),
    within_us=lengths,
    wants_all=st.booleans(),
)
arrivals = st.builds(Arrival, texts, ints, longs, longs, st.lists(ints, max_size=3).map(tuple))
rules = (policies, timings, besides, st.none() | dags, st.none() | starts)
specs = st.builds(JobSpec, texts, schedules, tiers, texts, blobs, st.none() | executors, st.booleans(), *rules)
commands = st.builds(
    Command,
    st.sampled_from(CommandKind),
    texts,
    texts,
    texts,
    longs,
    longs,
    spec=st.none() | specs,
    payload=st.none() | blobs,
    note=texts,
    idempotency_key=texts,
    answer=st.booleans(),
    run_id=texts,
    due_at=longs,
    work=st.none() | blobs,
    resume_at=longs,
    to_revision=longs,
    calendars=uses,
    from_at=longs,
    to_at=longs,
    concurrency=ints,
    tier=st.none() | tiers,
    backfill_id=texts,
    triggered_by=texts,
    hops=ints,
    ended=texts,
    ended_at=longs,
    request_hash=blobs,
)
sources = st.builds(
    SourceRecord,
    texts,
    ints,
    longs,
    st.none() | blobs,
    st.none() | blobs,
    st.lists(st.tuples(texts, blobs), max_size=3).map(tuple),
)
log_lines = st.builds(LogLine, ints, longs, st.sampled_from(LogStream), texts)
values: dict[str, tuple[st.SearchStrategy[Any], Callable[[Any], bytes], Callable[[bytes], Any]]] = {
    "run_event": (events, codec.encode_event, codec.decode_event),
    "work_record": (works, codec.encode_work, codec.decode_work),
    "command": (commands, codec.encode_command, codec.decode_command),
    "lease": (
        st.builds(Lease, st.sampled_from(LeaseKind), texts, longs, texts),
        codec.encode_lease,
        codec.decode_lease,
    ),
    "heartbeat": (
        st.builds(Heartbeat, texts, longs, longs, texts, ints, longs, ints, texts, texts, lease_ttl_us=longs),
        codec.encode_heartbeat,
        codec.decode_heartbeat,
    ),
    "control": (
        st.builds(Control, st.sampled_from(ControlKind), texts, texts, longs, st.booleans()),
        codec.encode_control,
        codec.decode_control,
    ),
    "dead_letter": (
        st.builds(DeadLetter, texts, texts, texts, texts, texts, texts, ints, longs, longs, longs, st.none() | sources),
        codec.encode_dead_letter,
        codec.decode_dead_letter,
    ),
    "reject": (
        st.builds(Reject, texts, texts, texts, texts, longs, sources),
        codec.encode_reject,
        codec.decode_reject,
    ),
    "shard_state": (
        st.builds(ShardState, texts, longs, longs, longs),
        codec.encode_shard_state,
        codec.decode_shard_state,
    ),
    "job_state": (
        st.builds(JobState, texts, longs, st.booleans(), longs, longs, longs, late_edges),
        codec.encode_job_state,
        codec.decode_job_state,
    ),
    "gathering": (
        st.builds(Gathering, texts, longs, longs, longs, st.lists(arrivals, max_size=3).map(tuple)),
        codec.encode_gathering,
        codec.decode_gathering,
    ),
    "job_triggers": (
        st.builds(JobTriggers, texts, longs, longs, starts),
        codec.encode_job_triggers,
        codec.decode_job_triggers,
    ),
    "key_state": (
        st.builds(KeyState, texts, texts, blobs, texts, longs, longs, texts, longs, blobs),
        codec.encode_key_state,
        codec.decode_key_state,
    ),
    "open_run": (
        st.builds(
            OpenRunState,
            texts,
            longs,
            texts,
            st.none() | st.builds(Started, texts, ints, longs),
            texts,
            texts,
            longs,
            longs,
            longs,
            ints,
            longs,
            longs,
            longs,
            longs,
            ints,
            longs,
            longs,
        ),
        codec.encode_open_run,
        codec.decode_open_run,
    ),
    "recorded_run": (
        st.builds(
            RecordedRunState,
            texts,
            longs,
            texts,
            longs,
            st.none() | blobs,
            st.none() | blobs,
            longs,
            longs,
            longs,
            longs,
            ints,
            st.booleans(),
            texts,
        ),
        codec.encode_recorded_run,
        codec.decode_recorded_run,
    ),
    "dag_run": (
        st.builds(
            KeptDagRun,
            texts,
            longs,
            texts,
            longs,
            longs,
            longs,
            longs,
            st.none() | blobs,
            st.lists(texts, max_size=3).map(tuple),
            texts,
        ),
        codec.encode_dag_run,
        codec.decode_dag_run,
    ),
    "dag_node": (
        st.builds(KeptNode, texts, longs, texts, longs, ints, st.none() | blobs),
        codec.encode_dag_node,
        codec.decode_dag_node,
    ),
    "flow_job": (
        st.builds(
            JobFlow,
            *(texts, texts, longs, ints, longs, ints, texts, texts, ints, longs, longs, st.booleans()),
            *(longs, longs, longs, longs, texts),
        ),
        codec.encode_flow_job,
        codec.decode_flow_job,
    ),
    "flow_run": (
        st.builds(
            RunFlow,
            texts,
            texts,
            longs,
            longs,
            st.sampled_from(list(Tier)),
            st.sampled_from(list(Origin)),
            texts,
            st.none() | blobs,
            st.none() | blobs,
            texts,
            texts,
            longs,
            st.booleans(),
            st.lists(st.tuples(texts, texts), max_size=3).map(tuple),
            st.lists(texts, max_size=3).map(tuple),
            longs,
            texts,
            ints,
        ),
        codec.encode_flow_run,
        codec.decode_flow_run,
    ),
    "run_log": (
        st.builds(RunLog, texts, ints, texts, longs, texts, st.lists(log_lines, max_size=3).map(tuple)),
        codec.encode_run_log,
        codec.decode_run_log,
    ),
}
every_kind = pytest.mark.parametrize("kind", sorted(values))


def _by_fastavro(kind: str, record: Any) -> bytes:
    schema = schemata.current(kind)
    out = io.BytesIO(schema.frame)
    out.seek(0, io.SEEK_END)
    schemaless_writer(out, schema.parsed, record)
    return out.getvalue()


@every_kind
@given(data=st.data())
def test_a_value_survives_its_bytes(kind: str, data: st.DataObject) -> None:
    strategy, encode, decode = values[kind]
    value = data.draw(strategy)
    encoded = encode(value)
    assert decode(encoded) == value
    assert codec.decode_any(encoded) == value


def test_every_kind_that_we_write_is_tested() -> None:
    assert values.keys() == set(schemata.KINDS) - {"job_event"}


@given(events)
def test_a_run_event_has_the_bytes_that_fastavro_writes(event: RunEvent) -> None:
    assert codec.encode_event(event) == _by_fastavro("run_event", records.EVENT.to_record(event))


@given(works)
def test_a_work_record_has_the_bytes_that_fastavro_writes(work: WorkRecord) -> None:
    assert codec.encode_work(work) == _by_fastavro("work_record", records.WORK.to_record(work))


def test_runs_of_one_application_share_the_texts_that_are_the_same() -> None:
    """A hundred thousand of them are in flight at once."""
    work = WorkRecord("t:a@1", 1, 1, 1, "t:a", 1, Tier.HIGH, "default", "send-mail", b"{}")
    one, other = (codec.decode_work(codec.encode_work(work._replace(run_id=run_id))) for run_id in ("t:a@1", "t:b@1"))
    assert one.handler is other.handler
    assert one.pool is other.pool
    assert one.payload is other.payload


def test_payloads_that_differ_are_told_apart_however_many_there_are() -> None:
    work = WorkRecord("t:a@1", 1, 1, 1, "t:a", 1, Tier.HIGH, "default", "send-mail", b"")
    many = [work._replace(payload=b"%d" % number, tier=Tier(number % 3)) for number in range(2_500)]
    assert [codec.decode_work(codec.encode_work(each)) for each in [*many, *reversed(many)]] == [*many, *reversed(many)]


@given(event=events, work=works)
def test_the_slow_and_sure_decoder_agrees_with_the_fast_one(event: RunEvent, work: WorkRecord) -> None:
    assert codec._event.decode(codec.encode_event(event)) == event
    assert codec._work.decode(codec.encode_work(work)) == work


# Bytes that are no records of ours ----------------------------------------------------------------------------------

_EVENT = RunEvent(
    EventKind.PENDING,
    "acme:nightly",
    "acme:nightly@20261121T090000Z",
    1_795_000_000_000_000,
    detail=Pending(7, 1_795_000_000_000_000, 1_795_000_000_000_000, Tier.HIGH, Origin.SCHEDULE),
)
_WORK = WorkRecord("acme:nightly@20261121T090000Z", 1, 1, 1, "acme:nightly", 7, Tier.LOW, "default", "h", b"{}")
_COMMAND = Command(
    CommandKind.CREATE, "acme:nightly", "c-1", "ada", 1, spec=JobSpec("h", Cron("0 9 * * *", seconds=True))
)
_BACKFILLED = Backfilled(1, 2, BackfillStatus.CANCELLED, *[1] * 4, Tier.LOW, *[1] * 11, "ann", "", "because")
_SAMPLES: list[tuple[bytes, Callable[[bytes], Any]]] = [
    (codec.encode_event(_EVENT), codec.decode_event),
    (codec.encode_work(_WORK), codec.decode_work),
    (codec.encode_command(_COMMAND), codec.decode_command),
    (codec.encode_lease(Lease(LeaseKind.HELLO, "w", 1)), codec.decode_lease),
    (codec.encode_event(_EVENT._replace(kind=EventKind.BACKFILL, detail=_BACKFILLED)), codec.decode_event),
]
every_sample = pytest.mark.parametrize(("encoded", "decode"), _SAMPLES)


@every_sample
def test_a_record_cut_anywhere_is_refused(encoded: bytes, decode: Callable[[bytes], Any]) -> None:
    for end in range(len(encoded)):
        with pytest.raises(UndecodableRecord):
            decode(encoded[:end])


@every_sample
@pytest.mark.parametrize("tail", [b"\0", b"\xff", b"\0" * 9])
def test_trailing_bytes_are_refused(encoded: bytes, decode: Callable[[bytes], Any], tail: bytes) -> None:
    with pytest.raises(UndecodableRecord):
        decode(encoded + tail)


@every_sample
@given(data=st.data())
def test_changed_bytes_never_do_worse_than_undecodable(
    encoded: bytes, decode: Callable[[bytes], Any], data: st.DataObject
) -> None:
    hostile = bytearray(encoded)
    for place in data.draw(st.lists(st.integers(10, len(encoded) - 1), min_size=1, max_size=6)):
        hostile[place] = data.draw(st.integers(0, 255))
    with suppress(UndecodableRecord):
        decode(bytes(hostile))


@every_sample
@given(body=st.binary(max_size=300))
def test_any_body_at_all_does_no_worse_than_undecodable(
    encoded: bytes, decode: Callable[[bytes], Any], body: bytes
) -> None:
    with suppress(UndecodableRecord):
        decode(encoded[:10] + body)


def _with_byte(encoded: bytes, place: int, byte: int) -> bytes:
    return encoded[:place] + bytes([byte]) + encoded[place + 1 :]


@pytest.mark.parametrize("byte", [1, 3, 2 * len(EventKind), 0x7E, 0x80, 0xFF])
def test_an_event_kind_out_of_range_is_refused(byte: int) -> None:
    with pytest.raises(UndecodableRecord):
        codec.decode_event(_with_byte(codec.encode_event(_EVENT), 10, byte))


@pytest.mark.parametrize("byte", [1, 3, 4, 0xFF])
def test_a_union_out_of_range_is_refused(byte: int) -> None:
    encoded = codec.encode_event(_EVENT._replace(detail=None))
    for place in range(len(encoded) - 6, len(encoded)):
        with pytest.raises(UndecodableRecord):
            codec.decode_event(_with_byte(encoded, place, byte))


def test_an_event_with_two_details_is_refused() -> None:
    record = records.EVENT.to_record(_EVENT)
    record["started"] = {"topic": "t", "partition": 0, "offset": 0}
    encoded = _by_fastavro("run_event", record)
    with pytest.raises(UndecodableRecord):
        codec.decode_event(encoded)
    with pytest.raises(UndecodableRecord):
        codec._event.decode(encoded)


@pytest.mark.parametrize("kind", [1, 3, 0x7E])
def test_a_lease_kind_that_fastavro_would_let_pass_is_refused(kind: int) -> None:
    with pytest.raises(UndecodableRecord):
        codec.decode_lease(_with_byte(codec.encode_lease(Lease(LeaseKind.HELLO, "w", 1)), 10, kind))


def test_a_boolean_of_seven_is_refused() -> None:
    encoded = codec.encode_command(_COMMAND)
    place = encoded.index(b"UTC") + 3
    assert encoded[place] == 1
    with pytest.raises(UndecodableRecord):
        codec.decode_command(_with_byte(encoded, place, 7))


def test_a_tier_of_a_later_release_is_refused() -> None:
    record = records.WORK.to_record(_WORK) | {"tier": "UNKNOWN"}
    with pytest.raises(UndecodableRecord):
        codec.decode_work(_by_fastavro("work_record", record))


def test_a_spec_without_a_schedule_is_refused() -> None:
    record = records.COMMAND.to_record(_COMMAND)
    record["spec"]["cron"] = None
    with pytest.raises(UndecodableRecord, match="exactly one"):
        codec.decode_command(_by_fastavro("command", record))


def test_an_endless_number_is_refused() -> None:
    head = codec.encode_work(_WORK)[:10]
    for body in (b"\xff" * 200_000, b"\x02a" + b"\x80" * 30 + b"\0" * 30, b"\x02a" + b"\xff" * 9 + b"\x7f" + b"\0" * 9):
        with pytest.raises(UndecodableRecord):
            codec.decode_work(head + body)


@pytest.mark.parametrize("decode", [codec.decode_event, codec.decode_work, codec.decode_command, codec.decode_any])
@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "begins with nothing"),
        (b"\x00\x00\x00\x00\x07abc", "Confluent"),
        (b'{"kind": "PENDING"}', "JSON"),
        (b"\xc3\x01\x01\x02\x03\x04\x05\x06\x07\x08rest", "0102030405060708"),
        (b"\xc3\x01\x01\x02", "no Avro single object"),
    ],
)
def test_foreign_framing_is_refused_and_named(decode: Callable[[bytes], Any], data: bytes, words: str) -> None:
    with pytest.raises(UndecodableRecord, match=words):
        decode(data)


def test_a_record_of_another_kind_is_refused() -> None:
    with pytest.raises(UndecodableRecord, match="lease where work_record belongs"):
        codec.decode_work(codec.encode_lease(Lease(LeaseKind.HELLO, "w", 1)))


def test_a_kind_without_a_reader_is_refused() -> None:
    with pytest.raises(UndecodableRecord, match="job_event"):
        codec.decode_any(schemata.current("job_event").frame + b"\0")


@pytest.mark.parametrize(("encoded", "decode"), _SAMPLES)
def test_a_record_over_the_cap_is_refused_before_it_is_decoded(encoded: bytes, decode: Callable[[bytes], Any]) -> None:
    with pytest.raises(UndecodableRecord, match="over the cap"):
        decode(encoded[:10] + b"\0" * RECORD_MAX)


def test_nobody_writes_what_nobody_may_read() -> None:
    with pytest.raises(RequestError, match="over the cap"):
        codec.encode_work(_WORK._replace(payload=b"x" * RECORD_MAX))
    largest = _WORK._replace(payload=b"x" * (RECORD_MAX - len(codec.encode_work(_WORK)) - 10))
    assert codec.decode_work(codec.encode_work(largest)) == largest
    with pytest.raises(RequestError, match="over the cap"):
        codec.encode_reject(Reject("r", "", "", "", 1, SourceRecord("t", 0, 0, None, b"x" * CARRIER_MAX)))


def test_no_bytes_make_a_decoder_ask_for_much_memory_or_time() -> None:
    """The worst that a record can hold: as many of the smallest items as fit under the cap."""
    gaps = RunEvent(EventKind.REVISED, "", "", 0, detail=Revised(0, 0, 0, "", ((0, 0),) * 131_000))
    header = SourceRecord("", 0, 0, None, None, (("", b""),) * 390_000)
    worst = [
        (codec.encode_event(gaps), RECORD_MAX),
        (codec.encode_reject(Reject("", "", "", "", 0, header)), CARRIER_MAX),
    ]
    for encoded, cap in worst:
        assert len(encoded) > 0.98 * cap
        tracemalloc.start()
        began = time.process_time()
        codec.decode_any(encoded)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 256 * cap + 2**20  # about 256 bytes for each byte: 64 MiB for a record of 256 KiB
        assert time.process_time() - began < 10


def test_a_count_that_the_bytes_do_not_hold_is_refused_at_once() -> None:
    encoded = codec.encode_event(RunEvent(EventKind.REVISED, "", "", 0, detail=Revised(0, 0, 0, "")))
    for count in (b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01", b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"):
        with pytest.raises(UndecodableRecord):
            codec.decode_event(encoded[:-2] + count)


# Records of other releases -------------------------------------------------------------------------------------------


def test_a_record_of_an_earlier_release_is_read_with_what_it_lacks_filled_in(monkeypatch: pytest.MonkeyPatch) -> None:
    value = written_without("revised", "run_event", records.EVENT.to_record(_EVENT), monkeypatch)
    assert codec.decode_event(value) == _EVENT
    with pytest.raises(UndecodableRecord):
        codec.decode_event(value + b"\0")


@pytest.mark.parametrize("kind", schemata.KINDS)
def test_every_released_schema_is_known_by_its_fingerprint(kind: str) -> None:
    for documents in schemata.released().values():
        prepared = schemata.prepare(kind, documents.get(kind) or schemata.published(kind))
        assert schemata.written_with(prepared.fingerprint).kind == kind
