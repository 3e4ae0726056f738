"""The retry ladder on a real broker: what waits arrives once, never early, and at most a second late."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from waterclock.retry_router.hops import onward
from waterclock.retry_router.ladder import Ladder

from tests.conftest import Running, fresh_name
from waterclock.clock import SystemClock
from waterclock.log.kafka import KafkaLog
from waterclock.log.kafka_topics import ensure_topics
from waterclock.log.port import Isolation, TopicPartition
from waterclock.model.events import WorkRecord
from waterclock.model.ids import US_PER_S, make_run_id
from waterclock.model.job import Tier
from waterclock.wire.codec import decode_work
from waterclock.wire.messages import work_message
from waterclock.wire.names import Names, topic_specs

pytestmark = pytest.mark.servers

PARTITIONS = 4
MS = 1_000
CLOCK = SystemClock()


@pytest.fixture
def names(kafka_server: Running) -> Names:
    names = Names(fresh_name("ladder"))
    ensure_topics(kafka_server.address, topic_specs(names, PARTITIONS))
    return names


@pytest.fixture
def log(kafka_server: Running) -> Iterator[KafkaLog]:
    log = KafkaLog(kafka_server.address, client_id="ladder-test", session_timeout_s=6, patient=True)
    yield log
    log.close()


class Turning:
    """A ladder on a thread of its own."""

    def __init__(self, log: KafkaLog, names: Names, instance: str = "ladder-1") -> None:
        self.ladder = Ladder(log, CLOCK, names, instance)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._turn)
        self._thread.start()

    def _turn(self) -> None:
        while not self._stop.is_set():
            self.ladder.step()

    def wait_ready(self) -> None:
        give_up_at = time.monotonic() + 30
        while not self.ladder.ready:
            assert time.monotonic() < give_up_at, "the ladder never became ready"
            time.sleep(0.02)

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
        self.ladder.drain()
        self.ladder.close()


class Tail:
    """What arrives on the tier: by run, the times at which its work was handed out."""

    def __init__(self, log: KafkaLog, names: Names) -> None:
        topic = names.runs(Tier.HIGH)
        self._reader = log.reader(Isolation.COMMITTED)
        self._reader.assign({TopicPartition(topic, partition): 0 for partition in range(PARTITIONS)})
        self.arrived: dict[str, list[int]] = {}

    def until(self, count: int, within_s: float) -> None:
        give_up_at = time.monotonic() + within_s
        while len(self.arrived) < count and time.monotonic() < give_up_at:
            self.read()

    def read(self) -> None:
        for record in self._reader.poll(1_000, 0.1):
            self.arrived.setdefault(decode_work(record.value or b"").run_id, []).append(record.timestamp_us)

    def close(self) -> None:
        self._reader.close()


class Placed(NamedTuple):
    """When each run is due (whole milliseconds), and when the last of them stood on its rung."""

    due: dict[str, int]
    placed_at: int


def place(log: KafkaLog, names: Names, waits_us: list[int]) -> Placed:
    """Records that wait so long from now, over many jobs."""
    appender = log.appender()
    due: dict[str, int] = {}
    for number, wait_us in enumerate(waits_us):
        job_id, now = f"acme:job-{number % 37}", CLOCK.now()
        run_id = make_run_id(job_id, now)
        due[run_id] = (now + wait_us) // MS * MS + MS
        work = WorkRecord(run_id, now, now, 2, job_id, 1, Tier.HIGH, "default", "h", b"payload")
        appender.append(onward(names, names.runs(Tier.HIGH), work_message(names, work), due[run_id], now))
    appender.flush(10.0)
    appender.close()
    return Placed(due, CLOCK.now())


def early(placed: Placed, arrived: dict[str, list[int]]) -> list[str]:
    return [run_id for run_id, at in placed.due.items() if arrived[run_id][0] < at]


def lateness_ms(placed: Placed, arrived: dict[str, list[int]]) -> list[float]:
    """Past its due time, or past the moment it stood there to be found: a new producer's first acknowledgement takes
    half a second, and the ladder has no part in that.
    """
    assert {run_id: len(times) for run_id, times in arrived.items()} == dict.fromkeys(placed.due, 1)
    late = sorted((arrived[run_id][0] - max(at, placed.placed_at)) / MS for run_id, at in placed.due.items())
    print(f"late: p50 {late[len(late) // 2]} ms, p99 {late[len(late) * 99 // 100]} ms, worst {late[-1]} ms")
    return late


def test_two_hundred_waits_arrive_once_none_early_none_a_second_late(log: KafkaLog, names: Names) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    dice = random.Random(seed)
    turning, tail = Turning(log, names), Tail(log, names)
    try:
        turning.wait_ready()
        placed = place(log, names, [dice.randrange(1, 7 * US_PER_S) for _ in range(200)])
        tail.until(200, within_s=15)
        tail.read()
    finally:
        turning.stop()
        tail.close()
    late = lateness_ms(placed, tail.arrived)
    assert not early(placed, tail.arrived)
    assert late[-1] <= 1_000


def test_a_herd_is_handed_on_in_time_and_a_successor_repeats_nothing(log: KafkaLog, names: Names) -> None:
    """Given 5,000 that wait for less than 3 s, and a ladder that is stopped half way and started again."""
    dice = random.Random(4711)
    turning, tail = Turning(log, names), Tail(log, names)
    try:
        turning.wait_ready()
        placed = place(log, names, [dice.randrange(1, 3 * US_PER_S) for _ in range(5_000)])
        tail.until(2_000, within_s=10)
        turning.stop()
        turning = Turning(log, names)
        tail.until(5_000, within_s=20)
        tail.read()
    finally:
        turning.stop()
        tail.close()
    lateness_ms(placed, tail.arrived)
    assert not early(placed, tail.arrived)
