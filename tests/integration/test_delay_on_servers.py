"""A fixed delay on real servers: its chain over a pause and restarts of the dispatcher, by the stamps of a broker.

What the fakes cannot show: that ends are read while a real transaction's markers are still on their way, and that the
chain is found again in a real state topic.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
from waterclock.dispatcher.loop import Dispatcher

from tests.conftest import Running
from tests.integration.test_lost_on_kafka import built
from tests.oracle import delays
from tests.oracle.books import balance
from waterclock.clock import SystemClock
from waterclock.log.kafka import KafkaLog
from waterclock.log.kafka_topics import ensure_topics
from waterclock.log.port import Isolation, Record, TopicPartition
from waterclock.log.reading import read_range
from waterclock.model.events import Ended, EventKind, RunEvent, Started
from waterclock.model.ids import US_PER_S, Instant, ordinal, parse_run_id
from waterclock.model.job import Command, CommandKind, Delay, JobSpec
from waterclock.store.cassandra import CassandraStore
from waterclock.store.migrate import migrate
from waterclock.wire.codec import decode_event
from waterclock.wire.messages import command_message, event_message
from waterclock.wire.names import Names, topic_specs

pytestmark = pytest.mark.servers

JOB = "default:after"
DELAY_US = 2 * US_PER_S
LONG_US = 8 * US_PER_S
"""Long enough for a restart and a pause while it runs, also on a slow machine."""

CLOCK = SystemClock()


class Scene:
    """A dispatcher that is stepped by hand, and the worker of its runs, played by hand."""

    def __init__(self, address: str, prefix: str, store: CassandraStore) -> None:
        self.names = Names(prefix)
        self._address, self._store = address, store
        ensure_topics(address, topic_specs(self.names, 1))
        self.log = KafkaLog(address, client_id="outside")
        self._sent = 0
        self.began_at = CLOCK.now()
        self.start()

    def start(self) -> None:
        def make() -> Dispatcher:
            self._own_log = KafkaLog(self._address, client_id="dispatcher", patient=True)
            return Dispatcher(CLOCK, self._own_log, self._store, self.names, instance="d1")

        made = built(make)
        assert isinstance(made, Dispatcher)
        self.dispatcher = made
        self.until(lambda: self.dispatcher.ready, 60)

    def stop(self) -> None:
        self.dispatcher.close()
        self._own_log.close()

    def close(self) -> None:
        self.stop()
        self.log.close()

    def until(self, condition: Callable[[], bool], within_s: float = 30) -> None:
        began_s = time.monotonic()
        while not condition():
            self.dispatcher.step()
            assert time.monotonic() < began_s + within_s, "it did not come to pass in time"

    def idle(self, seconds: float) -> None:
        until_s = time.monotonic() + seconds
        self.until(lambda: time.monotonic() > until_s)

    def order(self, kind: CommandKind, spec: JobSpec | None = None) -> None:
        self._sent += 1
        command = Command(kind, JOB, f"c{self._sent}", "test", CLOCK.now(), spec=spec)
        self._append(command_message(self.names, command))
        revised = self._sent
        self.until(lambda: sum(event.kind is EventKind.REVISED for event in self.events()) >= revised)

    def end(self, run_id: str, ahead_us: int = 0) -> None:
        """The run is claimed and succeeds, by a worker whose clock may be ahead."""
        started = RunEvent(EventKind.STARTED, JOB, run_id, CLOCK.now(), 1, "w", 1, detail=Started("x", 0, 0))
        token = ordinal(1, self._append(event_message(self.names, started)))
        at = CLOCK.now() + ahead_us
        self._append(
            event_message(
                self.names, RunEvent(EventKind.ATTEMPT_SUCCEEDED, JOB, run_id, at, 1, "w", 1, token, detail=Ended(0))
            )
        )

    def _append(self, message: object) -> int:
        appender = self.log.appender()
        ticket = appender.append(message)  # type: ignore[arg-type]
        appender.flush(10)
        appender.close()
        assert ticket.offset is not None
        return ticket.offset

    def records(self, topic: str) -> list[Record]:
        place = TopicPartition(topic, 0)
        return list(read_range(self.log, Isolation.COMMITTED, place, 0, self.log.high_watermark(place)))

    def events(self) -> list[RunEvent]:
        return [decode_event(record.value or b"") for record in self.records(self.names.run_events)]

    def fires(self) -> list[str]:
        return [event.run_id for event in self.events() if event.kind is EventKind.PENDING]

    def made(self, count: int) -> str:
        """Waits until the schedule has made so many; answers the newest."""
        self.until(lambda: len(self.fires()) >= count)
        (newest,) = self.fires()[count - 1 :]
        return newest

    def ended_at(self, run_id: str) -> Instant:
        (event,) = (
            each for each in self.events() if each.run_id == run_id and each.kind is EventKind.ATTEMPT_SUCCEEDED
        )
        return event.at


@pytest.fixture
def scene(kafka_server: Running, cassandra_server: Running, fresh_prefix: str, fresh_keyspace: str) -> Iterator[Scene]:
    migrate([cassandra_server.host], cassandra_server.port, fresh_keyspace, CLOCK)
    store = CassandraStore([cassandra_server.host], cassandra_server.port, fresh_keyspace, CLOCK)
    opened = Scene(kafka_server.address, fresh_prefix, store)
    yield opened
    opened.close()
    store.close()


def _raw(record: Record) -> dict[str, object]:
    return {
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_us": record.timestamp_us,
        "key": record.key,
        "value": record.value,
    }


def test_a_chain_goes_on_exactly_over_a_pause_and_a_restart(scene: Scene) -> None:
    scene.order(CommandKind.CREATE, JobSpec("h", Delay(DELAY_US)))
    first = scene.made(1)
    scene.idle(2.5)
    assert len(scene.fires()) == 1, "its run is open"

    scene.end(first)
    second = scene.made(2)
    assert parse_run_id(second).fire_at == scene.ended_at(first) + DELAY_US

    scene.stop()  # the run is open, and ends while nobody owns the shard
    scene.end(second)
    scene.start()
    third = scene.made(3)
    assert parse_run_id(third).fire_at == scene.ended_at(second) + DELAY_US

    scene.order(CommandKind.UPDATE, JobSpec("h", Delay(LONG_US)))
    scene.end(third)
    due_at = scene.ended_at(third) + LONG_US
    scene.idle(0.3)
    scene.stop()  # the delay runs
    scene.start()
    scene.order(CommandKind.PAUSE)
    assert CLOCK.now() < due_at, "restart and pause took too long for this test to say anything"
    scene.until(lambda: CLOCK.now() > due_at + US_PER_S)
    assert len(scene.fires()) == 3
    scene.order(CommandKind.RESUME)
    (skipped,) = (event for event in scene.events() if event.kind is EventKind.SKIPPED)
    fourth = scene.made(4)
    detail = skipped.detail
    assert parse_run_id(fourth).fire_at == detail.to_at + LONG_US  # type: ignore[union-attr]
    assert detail.from_at == due_at  # type: ignore[union-attr]

    scene.end(fourth, ahead_us=365 * 86_400 * US_PER_S)
    scene.made(5)

    commands = [_raw(record) for record in scene.records(scene.names.commands)]
    events = [_raw(record) for record in scene.records(scene.names.run_events)]
    until = CLOCK.now() - US_PER_S
    bounds = delays.Bounds(known=US_PER_S, late=15 * US_PER_S)
    complaints, counts = delays.check(commands, events, until, scene.began_at, bounds)
    assert complaints == []
    assert counts["delays: an end by a clock that is ahead"] == 1
    assert balance(commands, events, until)[0] == []
