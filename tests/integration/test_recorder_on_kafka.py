"""The recorder on a real broker: what it keeps of open runs goes with its positions, and a successor goes by it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from tests.conftest import Running, fresh_name
from waterclock.clock import SystemClock
from waterclock.log.kafka import KafkaLog
from waterclock.log.kafka_topics import ensure_topics
from waterclock.log.port import Committed, Isolation, TopicPartition
from waterclock.log.reading import read_range
from waterclock.model.events import Ended, EventKind, Origin, Pending, RunEvent, RunStatus, Started
from waterclock.model.fold import parse_fold_from
from waterclock.model.ids import US_PER_S, make_run_id, ordinal, parse_run_id
from waterclock.model.job import Tier
from waterclock.recorder.loop import Recorder
from waterclock.store.memory import MemoryStore, MemoryTables
from waterclock.wire.messages import event_message
from waterclock.wire.names import Names, topic_specs

pytestmark = pytest.mark.servers

CLOCK = SystemClock()
BEHIND, WINDOW, WITHIN_S = 20, 5, 60.0
FIRE_AT = 1_795_000_000 * US_PER_S


@pytest.fixture
def names(kafka_server: Running) -> Names:
    names = Names(fresh_name("recorder"))
    ensure_topics(kafka_server.address, topic_specs(names, 1))
    return names


@pytest.fixture
def log(kafka_server: Running) -> Iterator[KafkaLog]:
    log = KafkaLog(kafka_server.address, client_id="recorder-test", session_timeout_s=6, patient=True)
    yield log
    log.close()


class Scene:
    """One partition, rows in memory, and a hand that says what happened to runs."""

    def __init__(self, log: KafkaLog, names: Names) -> None:
        self.log, self.names = log, names
        self.tables = MemoryTables(CLOCK)
        self.store = MemoryStore(CLOCK, self.tables)
        self.events = TopicPartition(names.run_events, 0)
        self.state = TopicPartition(names.state("recorder"), 0)
        self._appender = log.appender()

    def say(self, kind: EventKind, run_id: str, **parts: object) -> int:
        event = RunEvent(kind, parse_run_id(run_id).job_id, run_id, CLOCK.now())._replace(**parts)
        ticket = self._appender.append(event_message(self.names, event))
        self._appender.flush(WITHIN_S)
        assert ticket.offset is not None
        return ticket.offset

    def pending(self, job_id: str, number: int) -> str:
        run_id = make_run_id(job_id, FIRE_AT + number * US_PER_S)
        detail = Pending(1, FIRE_AT + number * US_PER_S, None, Tier.HIGH, Origin.SCHEDULE)
        self.say(EventKind.PENDING, run_id, detail=detail)
        return run_id

    def succeed(self, run_id: str) -> None:
        claim = {"attempt": 1, "worker": "w-1", "incarnation": 3}
        offset = self.say(EventKind.STARTED, run_id, detail=Started(self.names.runs(Tier.HIGH), 0, 0), **claim)
        token = ordinal(1, offset)
        self.say(EventKind.ATTEMPT_SUCCEEDED, run_id, token=token, detail=Ended(CLOCK.now()), **claim)

    def recorder(self, instance: str) -> Recorder:
        bounds = {"kept_behind": BEHIND, "window": WINDOW}
        return Recorder(self.log, self.store, CLOCK, self.names, instance, batch_s=0.1, commit_every_s=0.1, **bounds)

    def kept(self) -> dict[bytes | None, bytes | None]:
        """By run what the state topic holds, to readers of what is committed."""
        end = self.log.high_watermark(self.state)
        records = read_range(self.log, Isolation.COMMITTED, self.state, 0, end)
        latest = {record.key: record.value for record in records}
        return {key: value for key, value in latest.items() if value is not None}

    def position(self) -> Committed | None:
        return self.log.group_positions(self.names.group("recorder")).get(self.events)

    def status(self, run_id: str) -> RunStatus | None:
        run = parse_run_id(run_id)
        row = self.store.run(run.job_id, run.fire_at, run.series)
        return None if row is None else row.status


def turn(recorder: Recorder, until: Callable[[], bool]) -> None:
    give_up_at = time.monotonic() + WITHIN_S
    while not until():
        assert time.monotonic() < give_up_at, "it never came to that"
        recorder.step()


def test_a_successor_writes_the_end_of_a_run_whose_beginning_it_has_not_read(log: KafkaLog, names: Names) -> None:
    scene = Scene(log, names)
    waiting = scene.pending("acme:waits", 0)
    for number in range(2 * BEHIND):
        scene.succeed(scene.pending("acme:passes", number))
    first = scene.recorder("recorder-1")
    turn(first, lambda: waiting.encode() in scene.kept())
    position = scene.position()
    assert position is not None
    assert (parse_fold_from(position.metadata) or 0) > BEHIND
    first.drain()
    first.close()
    second = scene.recorder("recorder-1")
    turn(second, lambda: second.ready)
    scene.succeed(waiting)
    turn(second, lambda: scene.status(waiting) is RunStatus.SUCCEEDED and not scene.kept())
    second.drain()
    second.close()
