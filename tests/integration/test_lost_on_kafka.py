"""Death on a real broker: fenced within its lease, lost soon after, and a zombie's transaction goes with it.

What the fakes cannot show: how long the init takes that must abort somebody's open transaction, and that router and
keeper, each on its thread with clients of its own, hear of everything in time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest
import structlog
from waterclock.retry_router.keeper import FENCINGS_MAX, Keeper
from waterclock.retry_router.loop import RetryRouter

from tests.conftest import Running
from waterclock.clock import SystemClock
from waterclock.cores import Cores
from waterclock.log.kafka import KafkaLog
from waterclock.log.kafka_topics import ensure_topics
from waterclock.log.port import Isolation, TopicPartition
from waterclock.log.reading import read_range
from waterclock.model.errors import BackendDown, Fenced
from waterclock.model.events import (
    EventKind,
    Heartbeat,
    Lease,
    LeaseKind,
    Origin,
    Pending,
    RunEvent,
    Started,
    WorkRecord,
)
from waterclock.model.ids import US_PER_S, make_run_id, partition_of
from waterclock.model.job import Tier
from waterclock.process import Ready
from waterclock.transact import Rounds
from waterclock.wire.codec import decode_event
from waterclock.wire.messages import event_message, heartbeat_message, lease_message, work_message
from waterclock.wire.names import Names, topic_specs

pytestmark = pytest.mark.servers

PARTITIONS = 2
LEASE_S = 4.0
BEAT_S = 1.0


class Life:
    """A worker's life, lived by hand: it says HELLO, claims, beats, and may die with a transaction open."""

    def __init__(self, log: KafkaLog, names: Names, worker: str) -> None:
        self._log, self._names, self.worker = log, names, worker
        self.rounds = Rounds(log, names.transactional_id("worker", worker))
        self.incarnation = 0
        self.hello_at_s = 0.0
        self._dead = threading.Event()
        self._beating = threading.Thread(target=self._beat, daemon=True)

    def hello(self) -> None:
        draft = self.rounds.draft()
        said = draft.append_tracked(
            lease_message(self._names, Lease(LeaseKind.HELLO, self.worker, SystemClock().now(), "process"))
        )
        self.rounds.commit(draft)
        assert said.offset is not None
        self.incarnation, self.hello_at_s = said.offset, time.monotonic()

    def claim(self, name: str) -> str:
        """A run of its own, made and claimed; returns the run id."""
        now = SystemClock().now()
        job_id = f"default:{name}"
        run_id = make_run_id(job_id, now)
        work = WorkRecord(run_id, now, now, 1, job_id, 1, Tier.HIGH, "default", "h", b"")
        message = work_message(self._names, work)
        appender = self._log.appender()
        pending = Pending(1, now, now, Tier.HIGH, Origin.SCHEDULE)
        appender.append(event_message(self._names, RunEvent(EventKind.PENDING, job_id, run_id, now, detail=pending)))
        placed = appender.append(message)
        appender.flush(10)
        appender.close()
        assert placed.offset is not None
        claim = Started(message.topic, placed.partition, placed.offset)
        draft = self.rounds.draft()
        started = RunEvent(EventKind.STARTED, job_id, run_id, now, 1, self.worker, self.incarnation, detail=claim)
        draft.append(event_message(self._names, started))
        self.rounds.commit(draft)
        return run_id

    def begin_beating(self) -> None:
        self._beating.start()

    def die(self) -> float:
        """It beats no more; returns when."""
        self._dead.set()
        self._beating.join()
        return time.monotonic()

    def _beat(self) -> None:
        appender = self._log.appender()
        while not self._dead.wait(BEAT_S):
            now = SystemClock().now()
            lease_us = round(LEASE_S * US_PER_S)
            beat = Heartbeat(self.worker, self.incarnation, now, "", 1, 1, slots=8, lease_ttl_us=lease_us)
            appender.append(heartbeat_message(self._names, beat))
        appender.close()

    def leave_a_transaction_open(self) -> None:
        """As one does that is killed between produce and commit: nobody has aborted it."""
        producer = self._log.producer(self.rounds.transactional_id)
        producer.init(30)
        producer.begin()
        now = SystemClock().now()
        late = RunEvent(EventKind.ATTEMPT_SUCCEEDED, "default:x", make_run_id("default:x", now), now, 1, self.worker)
        producer.append(event_message(self._names, late))
        producer.flush(10)
        self.open = producer


class Scene:
    """Router and keeper on a real broker, as the role's process runs them."""

    def __init__(self, address: str, prefix: str, closing: ExitStack) -> None:
        self.names = Names(prefix)
        ensure_topics(address, topic_specs(self.names, PARTITIONS))
        self.log = KafkaLog(address, client_id="outside")
        closing.callback(self.log.close)
        clock = SystemClock()

        def router() -> Ready:
            return RetryRouter(KafkaLog(address, client_id="router", patient=True), clock, self.names, "retry-router-1")

        def keeper() -> Ready:
            hands = ThreadPoolExecutor(FENCINGS_MAX)
            closing.callback(hands.shutdown)
            return Keeper(KafkaLog(address, client_id="keeper"), clock, self.names, "retry-router-1", hands=hands)

        self.cores = Cores({"router": built(router), "keeper": built(keeper)}, structlog.get_logger())
        closing.callback(self.cores.close)
        self.until(lambda: self.cores.ready, 30)

    def until(self, condition: Callable[[], bool], within_s: float) -> float:
        """Waits while the cores run; returns how long it took."""
        began_s = time.monotonic()
        while not condition():
            self.cores.step()
            assert time.monotonic() < began_s + within_s, "it did not come to pass in time"
        return time.monotonic() - began_s

    def lost(self, run_id: str) -> bool:
        place = TopicPartition(self.names.run_events, partition_of(run_id.partition("@")[0], PARTITIONS))
        records = read_range(self.log, Isolation.COMMITTED, place, 0, self.log.high_watermark(place))
        events = [decode_event(record.value or b"") for record in records]
        return any(event.kind is EventKind.ATTEMPT_LOST and event.run_id == run_id for event in events)


def built(make: Callable[[], Ready]) -> Ready:
    """Topics that were just made have no leader for a moment: a role waits for that too."""
    until_s = time.monotonic() + 20
    while True:
        try:
            return make()
        except BackendDown:
            assert time.monotonic() < until_s
            time.sleep(0.1)


@pytest.fixture(scope="module")
def scene(kafka_server: Running, fresh_prefix: str) -> Iterator[Scene]:
    with ExitStack() as closing:
        yield Scene(kafka_server.address, fresh_prefix, closing)


def test_a_killed_workers_attempt_is_lost_within_its_lease_and_two_seconds(scene: Scene) -> None:
    life, other = Life(scene.log, scene.names, "w-killed"), Life(scene.log, scene.names, "w-lives")
    for each in (life, other):
        each.hello()
        each.begin_beating()
    run_id, kept = life.claim("killed"), other.claim("lives")
    time.sleep(LEASE_S + 2)
    assert not scene.lost(run_id), "it beats"
    life.leave_a_transaction_open()
    killed_at_s = life.die()
    took_s = scene.until(lambda: scene.lost(run_id), LEASE_S + 2.0)
    print(f"lost {took_s:.2f} s after the death, with a lease of {LEASE_S} s")
    assert time.monotonic() - killed_at_s > LEASE_S - 2 * BEAT_S, "not before its time"
    with pytest.raises(Fenced):
        life.open.commit(10)
    assert not scene.lost(kept)
    other.die()


def test_a_restarted_workers_former_attempt_is_lost_within_three_seconds_of_its_hello(scene: Scene) -> None:
    life = Life(scene.log, scene.names, "w-restarted")
    life.hello()
    run_id = life.claim("restarted")
    life.leave_a_transaction_open()
    again = Life(scene.log, scene.names, "w-restarted")
    again.hello()
    scene.until(lambda: scene.lost(run_id), 3.0)
    took_s = time.monotonic() - again.hello_at_s
    print(f"lost {took_s:.2f} s after the HELLO")
    assert took_s < 3.0
