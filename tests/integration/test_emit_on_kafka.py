"""Emitted records on a real broker: seen once with their success, and one bad one takes nobody else down.

What the fakes cannot show: how librdkafka tells of a record that the broker refuses in the middle of a transaction, of
a topic that was deleted since it was asked about, and of a caller's own transaction.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from waterclock.workers.executors.emitting import Outlet
from waterclock.workers.executors.python import PythonExecutors
from waterclock.workers.executors.topic_book import TopicBook
from waterclock.workers.loop import Worker

from tests.conftest import Running
from waterclock.app import App, Context
from waterclock.clients.client import Client
from waterclock.clock import SystemClock
from waterclock.log.kafka import KafkaLog
from waterclock.log.kafka_topics import ensure_topics
from waterclock.log.port import Isolation, Record, TopicPartition, TopicSpec
from waterclock.log.reading import read_range
from waterclock.model.errors import BackendDown
from waterclock.model.events import Ended, EventKind, Origin, Pending, RunEvent, WorkRecord
from waterclock.model.ids import make_run_id
from waterclock.model.job import Tier
from waterclock.wire.codec import decode_event, decode_job_event
from waterclock.wire.messages import event_message, work_message
from waterclock.wire.names import Names, topic_specs

pytestmark = pytest.mark.servers


class Emitting:
    """A worker on the real broker, and the dispatcher's side of the story."""

    def __init__(self, address: str, prefix: str, closing: ExitStack) -> None:
        self.names, self.clock = Names(prefix), SystemClock()
        self.mail, self.narrow, self.doomed = (f"{prefix}x-{word}" for word in ("mail", "narrow", "doomed"))
        self.admin = AdminClient({"bootstrap.servers": address})
        own = [TopicSpec(self.mail, 2, {}), TopicSpec(self.doomed, 1, {})]
        own.append(TopicSpec(self.narrow, 1, {"max.message.bytes": "2000"}))
        ensure_topics(address, [*topic_specs(self.names, 1), *own])
        self.log = KafkaLog(address, client_id="outside")
        closing.callback(self.log.close)
        book = TopicBook(lambda: KafkaLog(address, client_id="book"), self.clock)
        closing.callback(book.close)
        self._executors = PythonExecutors(self._app().handlers, self.clock, outlet=Outlet(prefix, book.exists))
        self.worker = self._built(address)
        closing.callback(self.worker.close)
        self._fire_count = 0

    def _built(self, address: str) -> Worker:
        """Topics that were just made have no leader for a moment: a role waits for that too."""
        until_s = time.monotonic() + 20
        log = KafkaLog(address, client_id="worker")
        while True:
            try:
                return Worker(self.clock, log, self.names, self._executors, worker="w-1", process="p")
            except BackendDown:
                assert time.monotonic() < until_s
                time.sleep(0.1)

    def _app(self) -> App:
        app = App()
        self.emitted_to_doomed = 0

        @app.handler("mail")
        async def mail(ctx: Context) -> None:
            ctx.emit(self.mail, ctx.job_id, {"of": ctx.run_id})
            ctx.emit(self.mail, ctx.job_id, "second")

        @app.handler("fails")
        def fails(ctx: Context) -> None:
            ctx.emit(self.mail, ctx.job_id, "never to be seen")
            raise ValueError("after it had emitted")

        @app.handler("narrow")
        def narrow(ctx: Context) -> None:
            ctx.emit(self.narrow, "k", random.Random(5).randbytes(10_000))  # that does not compress

        @app.handler("doomed")
        def doomed(ctx: Context) -> None:
            ctx.emit(self.doomed, "k", "x")
            self.emitted_to_doomed += 1
            # The topic goes between the check and the round.
            for future in self.admin.delete_topics([self.doomed]).values():
                future.result(15)

        @app.handler("nowhere")
        async def nowhere(ctx: Context) -> None:
            ctx.emit("no-such-topic-anywhere", "k", "x")

        return app

    def fire(self, *handlers: str) -> list[str]:
        appender = self.log.appender()
        run_ids = []
        for handler in handlers:
            self._fire_count += 1
            fire_at = self.clock.now()
            job_id = f"default:{handler}-{self._fire_count}"
            run_id = make_run_id(job_id, fire_at)
            pending = Pending(1, fire_at, fire_at, Tier.HIGH, Origin.SCHEDULE)
            event = RunEvent(EventKind.PENDING, job_id, run_id, fire_at, detail=pending)
            appender.append(event_message(self.names, event))
            work = WorkRecord(run_id, fire_at, fire_at, 1, job_id, 1, Tier.HIGH, "default", handler, b"")
            appender.append(work_message(self.names, work))
            run_ids.append(run_id)
        appender.flush(10)
        appender.close()
        return run_ids

    def dump(self, topic: str, partitions: int = 1) -> list[Record]:
        found: list[Record] = []
        for number in range(partitions):
            place = TopicPartition(topic, number)
            end = self.log.high_watermark(place)
            found += read_range(
                self.log, Isolation.COMMITTED, place, self.log.low_watermark(place), end, headers=True, idle_polls=20
            )
        return found

    def outcomes(self) -> dict[str, RunEvent]:
        events = [decode_event(record.value or b"") for record in self.dump(self.names.run_events)]
        return {event.run_id: event for event in events if event.kind.value.startswith("ATTEMPT_")}

    def until(self, condition: Callable[[], bool], within_s: float = 60.0) -> None:
        until_s = time.monotonic() + within_s
        look_at_s = 0.0
        while True:
            self.worker.step()
            if time.monotonic() < look_at_s:
                continue
            if condition():
                return
            look_at_s = time.monotonic() + 0.2
            assert time.monotonic() < until_s, "it did not come to pass in time"

    def effects(self) -> list[str]:
        return sorted(dict(record.headers)["ce_id"].decode() for record in self.dump(self.mail, 2))


@pytest.fixture(scope="module")
def emitting(kafka_server: Running, fresh_prefix: str) -> Iterator[Emitting]:
    with ExitStack() as closing:
        yield Emitting(kafka_server.address, fresh_prefix, closing)


def test_records_are_seen_once_with_their_success(emitting: Emitting) -> None:
    run_ids = emitting.fire("mail", "mail", "fails", "nowhere")
    emitting.until(lambda: set(run_ids) <= emitting.outcomes().keys())
    outcomes = emitting.outcomes()
    assert [outcomes[run_id].kind for run_id in run_ids] == [
        EventKind.ATTEMPT_SUCCEEDED,
        EventKind.ATTEMPT_SUCCEEDED,
        EventKind.ATTEMPT_FAILED,
        EventKind.ATTEMPT_FAILED,
    ]
    assert emitting.effects() == sorted(f"{run_id}/out/{n}" for run_id in run_ids[:2] for n in (0, 1))
    missing = outcomes[run_ids[3]].detail
    assert isinstance(missing, Ended)
    assert (missing.error_class, "no-such-topic-anywhere" in missing.error_message) == ("EmitRefused", True)


def test_a_record_that_the_broker_refuses_fails_its_run_alone(emitting: Emitting) -> None:
    """Given a topic that takes 2,000 bytes, when a run emits 10,000 to it beside others, then they all succeed."""
    before = len(emitting.effects())
    bad, *good = emitting.fire("narrow", "mail", "mail", "mail")
    emitting.until(lambda: {bad, *good} <= emitting.outcomes().keys())
    outcomes = emitting.outcomes()
    assert [outcomes[run_id].kind for run_id in good] == [EventKind.ATTEMPT_SUCCEEDED] * 3
    assert outcomes[bad].kind is EventKind.ATTEMPT_FAILED
    refused = outcomes[bad].detail
    assert isinstance(refused, Ended)
    assert refused.error_class == "EmitRefused"
    assert len(emitting.effects()) == before + 6
    assert emitting.dump(emitting.narrow) == []


def test_a_topic_that_was_deleted_meanwhile_fails_its_run_alone(emitting: Emitting) -> None:
    doomed, *good = emitting.fire("doomed", "mail", "mail")
    emitting.until(lambda: {doomed, *good} <= emitting.outcomes().keys(), within_s=90)
    outcomes = emitting.outcomes()
    assert [outcomes[run_id].kind for run_id in good] == [EventKind.ATTEMPT_SUCCEEDED] * 2
    gone = outcomes[doomed].detail
    assert outcomes[doomed].kind is EventKind.ATTEMPT_FAILED
    assert isinstance(gone, Ended)
    assert emitting.emitted_to_doomed == 1
    assert emitting.doomed in gone.error_message
    # And the worker goes on as if nothing had been.
    (after,) = emitting.fire("mail")
    emitting.until(lambda: after in emitting.outcomes())
    assert emitting.outcomes()[after].kind is EventKind.ATTEMPT_SUCCEEDED


def test_a_job_event_lives_and_dies_with_the_callers_transaction(
    emitting: Emitting, kafka_server: Running, fresh_prefix: str
) -> None:
    producer = Producer(
        {"bootstrap.servers": kafka_server.address, "transactional.id": f"{fresh_prefix}-shop", "linger.ms": 0}
    )
    producer.init_transactions(30)
    with Client.kafka(kafka_server.address, prefix=fresh_prefix) as client:
        for name, is_committed in (("aborted", False), ("committed", True)):
            producer.begin_transaction()
            producer.produce(emitting.mail, value=name.encode(), key=b"order")
            client.in_transaction(producer).create(name, handler="mail", every="1h")
            if is_committed:
                producer.commit_transaction(30)
            else:
                producer.flush(10)
                producer.abort_transaction(30)
        receipt = client.create("plain", handler="mail", every="1h")
    records = emitting.dump(emitting.names.job_events)
    assert sorted(decode_job_event(record.value or b"").name for record in records) == ["committed", "plain"]
    assert receipt.offset in [record.offset for record in records]
    orders = [record.value for record in emitting.dump(emitting.mail, 2) if record.key == b"order"]
    assert orders == [b"committed"]


def test_a_batch_is_acknowledged_as_a_whole(emitting: Emitting, kafka_server: Running, fresh_prefix: str) -> None:
    with Client.kafka(kafka_server.address, prefix=fresh_prefix) as client, client.batch() as batch:
        for number in range(2_500):
            batch.create(f"many-{number}", handler="mail", every="1h")
    assert len(batch.receipts) == 2_500
    assert all(receipt.offset >= 0 for receipt in batch.receipts)
    named = {decode_job_event(record.value or b"").name for record in emitting.dump(emitting.names.job_events)}
    assert {f"many-{number}" for number in range(2_500)} <= named


def test_a_broker_that_is_not_there_is_said_to_be_down(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("waterclock.clients.kafka._FLUSH_S", 0.5)
    with Client.kafka("127.0.0.1:1") as client, pytest.raises(BackendDown):
        client.pause("j")
