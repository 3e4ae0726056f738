"""A cluster in memory, a hand that writes to job-events as strangers do, and an intake or two."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from waterclock.clock import ManualClock
from waterclock.intake.confluent import NoRegistry
from waterclock.intake.judge import Judge
from waterclock.intake.loop import Intake
from waterclock.intake.parse import Writers
from waterclock.log.memory import MemoryCluster, MemoryLog
from waterclock.log.port import Headers, Isolation, Outgoing, Record, TopicPartition
from waterclock.log.reading import read_range
from waterclock.model.events import Reject
from waterclock.model.job import Command
from waterclock.wire.codec import decode_command, decode_reject
from waterclock.wire.names import Names, topic_specs
from waterclock.wire.pools import Pools

NAMES = Names()
ACME = "waterclock.job-events.acme"
JSON_TYPE: Headers = (("content-type", b"application/json"),)
PING = {"name": "ping", "handler": "demo.ping", "every": "5s"}


class IntakeWorld:
    def __init__(self, partitions: int = 2, writers: Writers | None = None) -> None:
        self.clock = ManualClock()
        self.cluster = MemoryCluster(self.clock)
        for spec in topic_specs(NAMES, partitions, ingress=(ACME,)):
            self.cluster.create_topic(spec.name, spec.partitions)
        self.log = MemoryLog(self.cluster, "hand")
        self.appender = self.log.appender()
        self.tenants = {NAMES.job_events: "default", ACME: "acme"}
        self.writers = writers or NoRegistry()

    def send(self, value: bytes, headers: Headers = (), *, at: int = 0, topic: str = "", key: bytes = b"") -> int:
        message = Outgoing(topic or NAMES.job_events, key, value, headers, partition=at)
        offset = self.appender.append(message).offset
        assert offset is not None
        return offset

    def send_json(self, document: Any, headers: Headers = JSON_TYPE, **parts: Any) -> int:
        return self.send(json.dumps(document).encode(), headers, **parts)

    def judge(self, log: MemoryLog | None = None) -> Judge:
        pools = Pools(log or self.log, NAMES, self.clock)
        return Judge(NAMES, self.clock, self.writers, pools, self.tenants)

    def intake(self, instance: str = "intake-1", judge: Judge | None = None, **parts: Any) -> Intake:
        log = MemoryLog(self.cluster, instance)
        return Intake(log, self.clock, NAMES, instance, judge or self.judge(log), tenants=self.tenants, **parts)

    def turn(self, *intakes: Intake, steps: int = 30) -> None:
        for _ in range(steps):
            for intake in intakes:
                intake.step()
            self.clock.advance(200_000)

    def records(self, topic: str) -> list[Record]:
        found: list[Record] = []
        for partition in range(self.log.partitions(topic)):
            place = TopicPartition(topic, partition)
            end = self.log.high_watermark(place)
            start = self.log.low_watermark(place)
            found.extend(read_range(self.log, Isolation.COMMITTED, place, start, end, headers=True))
        return found

    def commands(self) -> list[Command]:
        return [decode_command(record.value or b"") for record in self.records(NAMES.commands)]

    def rejects(self) -> list[Reject]:
        return [decode_reject(record.value or b"") for record in self.records(NAMES.rejects)]

    def fates(self) -> Counter[tuple[str, int, int]]:
        """By source coordinates, how often a record went on: each must be 1 (I3)."""
        told = Counter(tuple(command.command_id.split("/")) for command in self.commands())
        fates = Counter({(f"waterclock.{topic}", int(at), int(offset)): n for (topic, at, offset), n in told.items()})
        fates.update((r.source.topic, r.source.partition, r.source.offset) for r in self.rejects())
        return fates

    def lag(self) -> int:
        group = self.cluster.group(NAMES.group("intake"))
        left = 0
        for topic in self.tenants:
            for partition in range(self.log.partitions(topic)):
                place = TopicPartition(topic, partition)
                committed = group.committed(place)
                left += self.log.high_watermark(place) - (committed.offset if committed else 0)
        return left
