"""A dispatcher on in-memory ports, moved by hand. What it says is read back from the log, never from its own state."""

from __future__ import annotations

from waterclock.dispatcher.errands import Beside
from waterclock.dispatcher.loop import Dispatcher
from waterclock.dispatcher.pace import Pace

from tests.skewed_clock import SkewedClock
from waterclock.clock import ManualClock
from waterclock.log.memory import MemoryCluster, MemoryLog
from waterclock.log.port import Isolation, TopicPartition
from waterclock.log.reading import read_range
from waterclock.model.errors import BackendDown
from waterclock.model.events import EventKind, RunEvent
from waterclock.model.ids import US_PER_S
from waterclock.model.job import Command, CommandKind, Every, JobSpec, Tier
from waterclock.store.memory import MemoryStore, MemoryTables
from waterclock.wire import codec, messages
from waterclock.wire.names import Names, topic_specs

START = 1_795_000_020 * US_PER_S  # a whole minute
NAMES = Names()


class World:
    ahead_us = 0
    """By how much the clock of its dispatchers is ahead of the brokers'."""

    def __init__(self, partitions: int = 2, pace: Pace | None = None, beside: Beside | None = None) -> None:
        self.beside = beside
        self.clock = ManualClock(START)
        self.cluster = MemoryCluster(self.clock)
        for spec in topic_specs(NAMES, partitions):
            self.cluster.create_topic(
                spec.name,
                spec.partitions,
                append_time=spec.config.get("message.timestamp.type") == "LogAppendTime",
                compact=spec.config.get("cleanup.policy") == "compact",
            )
        self.partitions = partitions
        self.tables = MemoryTables(self.clock)
        self.outside = MemoryLog(self.cluster, "outside")
        self.pace = pace
        self.lives = 0
        self.sent_count = 0
        self.dispatcher = self.start()

    def start(self, instance: str = "d1") -> Dispatcher:
        self.lives += 1
        client = f"{instance}-{self.lives}"
        log = MemoryLog(self.cluster, client, session_timeout_s=6.0)
        clock = SkewedClock(self.clock, self.ahead_us)
        store = MemoryStore(clock, self.tables, client)
        return Dispatcher(clock, log, store, NAMES, instance=instance, pace=self.pace, beside=self.beside)

    def crash(self) -> None:
        """The process is gone: nothing of it is closed."""
        self.cluster.kill(f"d1-{self.lives}")
        self.dispatcher = self.start()

    def command(self, kind: CommandKind, job_id: str, spec: JobSpec | None = None, **more: object) -> int:
        self.sent_count += 1
        command_id = more.pop("command_id", f"c{self.sent_count}")
        command = Command(kind, job_id, command_id, "test", self.clock.now(), spec=spec, **more)  # type: ignore[arg-type]
        appender = self.outside.appender()
        ticket = appender.append(messages.command_message(NAMES, command))
        appender.flush(1.0)
        appender.close()
        assert ticket.offset is not None
        return ticket.offset

    def run(self, seconds: float, step_s: float = 0.05) -> None:
        for _ in range(round(seconds / step_s)):
            self.steps(1)
            self.clock.advance(round(step_s * US_PER_S))
        self.steps(3)

    def steps(self, count: int) -> None:
        for _ in range(count):
            try:
                self.dispatcher.step()
            except BackendDown:
                continue

    def records(self, topic: str) -> list[object]:
        found = []
        for partition in range(self.outside.partitions(topic)):
            where = TopicPartition(topic, partition)
            end = self.outside.high_watermark(where)
            found += list(read_range(self.outside, Isolation.COMMITTED, where, 0, end))
        return found

    def events(self, kind: EventKind | None = None) -> list[RunEvent]:
        decoded = [codec.decode_event(record.value) for record in self.records(NAMES.run_events)]  # type: ignore[attr-defined]
        return [event for event in decoded if kind is None or event.kind is kind]

    def runs(self, job_id: str = "") -> list[str]:
        return [event.run_id for event in self.events(EventKind.PENDING) if event.run_id.startswith(job_id)]

    def work(self) -> list[str]:
        return [
            codec.decode_work(record.value).run_id  # type: ignore[attr-defined]
            for tier in Tier
            for record in self.records(NAMES.runs(tier))
        ]


def raw(record: object) -> dict[str, object]:
    """A record as the judge takes it: bytes and coordinates."""
    return {
        "partition": record.partition,  # type: ignore[attr-defined]
        "offset": record.offset,  # type: ignore[attr-defined]
        "timestamp_us": record.timestamp_us,  # type: ignore[attr-defined]
        "key": record.key,  # type: ignore[attr-defined]
        "value": record.value,  # type: ignore[attr-defined]
    }


def store_away(_client: str, _operation: str) -> None:
    """For ``MemoryTables.on_call``: Cassandra answers nobody."""
    raise BackendDown("cassandra", "away")


def beside_a_beat(job_id: str, spec: JobSpec, begun_s: float) -> World:
    """A job that was made after so long and has run for 20 s, beside another whose fires move the edge."""
    world = World(partitions=1)
    world.run(begun_s)
    world.command(CommandKind.CREATE, job_id, spec)
    world.command(CommandKind.CREATE, "t:beat", every(5))
    world.run(20)
    return world


def every(seconds: float, **more: object) -> JobSpec:
    start_at = more.pop("start_at", None)
    return JobSpec("demo.noop", Every(round(seconds * US_PER_S), start_at), **more)  # type: ignore[arg-type]
