"""Jobs are created at >= 800 a second by Kafka and >= 400 a second by the API, servers included on two cores.

Each door is measured twice: as fast as it takes them (the rate, to the last one applied), and at the rate of its bar,
steadily (how long until one is applied). Some thousands go before, uncounted: servers that have just been started run
half as fast. Applied is what a consumer of its own sees: the job's REVISED on run-events, read_committed. At the end
the dump of run-events and the table ``jobs`` hold every job that was asked for, once.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from statistics import quantiles
from typing import NamedTuple, Self

from confluent_kafka import Producer, TopicPartition

from tests.acceptance import dumps
from tests.acceptance.evidence import Evidence, on_stage
from tests.acceptance.real_stack import RealStack, wait_for
from tests.free_ports import free_port

KAFKA_PER_S = 800
API_PER_S = 400
_CONNECTIONS = 128
_REVISED = b"io.waterclock.job.revised"


class Size(NamedTuple):
    """How many jobs go through each door at once, and for how long at its bar's rate; how many before that."""

    flood: int
    steady_s: int
    warm: int


WHOLE = Size(12_000, 12, 6_000)
SHORT = Size(400, 2, 50)


def main(*, short: bool) -> None:
    """The short form judges no figure."""
    size = SHORT if short else WHOLE
    with on_stage("creates") as (stack, evidence):
        evidence.figure("cores", len(os.sched_getaffinity(0)))
        port = _start(stack)
        asked: list[str] = []
        with Observer(stack) as seen:
            _kafka(stack, evidence, seen, size, asked, judged=not short)
            _api(stack, evidence, seen, port, size, asked, judged=not short)
        _judge_all_are_there(stack, evidence, asked)


def _start(stack: RealStack) -> int:
    port = free_port()
    roles = [
        stack.role("dispatcher", "dispatcher-1"),
        stack.role("intake", "intake-1"),
        stack.role("recorder", "recorder-1"),
        stack.role("api", "api-1", WATERCLOCK_API__PORT=str(port), WATERCLOCK_API__RATE_PER_S="100000"),
    ]
    for role in roles:
        role.wait_ready()
    return port


class Observer:
    """Reads run-events in a thread, and notes when it saw each job's first REVISED."""

    def __init__(self, stack: RealStack) -> None:
        self.at: dict[str, float] = {}
        self._consumer = dumps.reader(stack.bootstrap, committed=True)
        topic = stack.names.run_events
        ends = dumps.high_watermarks(stack.bootstrap, topic)
        self._consumer.assign([TopicPartition(topic, partition, end) for partition, end in ends.items()])
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(10)
        self._consumer.close()

    def _look(self) -> None:
        while not self._stop.is_set():
            for message in self._consumer.consume(500, 0.02):
                headers = dict(message.headers() or ())
                if message.error() is None and headers.get("ce_type") == _REVISED:
                    self.at.setdefault((message.key() or b"").decode(), time.monotonic())

    def wait_for(self, jobs: list[str]) -> None:
        wait_for(lambda: all(job in self.at for job in jobs), f"{len(jobs)} jobs applied", 120.0)


class Cpu:
    """CPU milliseconds of every process of the stack, and of this one, since it was made."""

    def __init__(self, stack: RealStack) -> None:
        self._pids = {name: role.pid for name, role in stack.roles.items()}
        self._pids |= {"kafka": stack.kafka.pid, "cassandra": stack.cassandra.pid, "this check": os.getpid()}
        self._before = self._read()

    def per_job(self, jobs: int) -> dict[str, float]:
        spent = self._read()
        each = {name: round((spent[name] - self._before[name]) / jobs, 2) for name in self._pids}
        return each | {"all": round(sum(each.values()), 2)}

    def _read(self) -> dict[str, float]:
        ticks = os.sysconf("SC_CLK_TCK")
        found = {}
        for name, pid in self._pids.items():
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            found[name] = (int(fields[11]) + int(fields[12])) / ticks * 1e3
        return found


# -- by Kafka


def _kafka(stack: RealStack, evidence: Evidence, seen: Observer, size: Size, asked: list[str], *, judged: bool) -> None:
    properties = {"partitioner": "murmur2_random", "enable.idempotence": True, "linger.ms": 1}
    producer = Producer(dumps.client(stack.bootstrap) | properties)

    def send(name: str) -> None:
        document = {"name": name, "every": "1h", "handler": "demo.noop", "idempotency_key": name}
        producer.produce(stack.names.job_events, json.dumps(document).encode(), name.encode())
        producer.poll(0)

    _warm_up(seen, [send(name) or f"default:{name}" for name in _names("kafka-warm", size.warm)], producer)
    names = list(_names("kafka-flood", size.flood))
    cpu = Cpu(stack)
    began_s = time.monotonic()
    for name in names:
        send(name)
    asked += _applied(evidence, seen, "by Kafka, all at once", names, began_s, KAFKA_PER_S if judged else 0)
    evidence.figure("CPU ms a job, by Kafka, all at once", cpu.per_job(len(names)))
    _settle(stack)
    sent: dict[str, float] = {}
    names = list(_names("kafka-steady", KAFKA_PER_S * size.steady_s))
    for due_s, name in _paced(names, KAFKA_PER_S):
        sent[f"default:{name}"] = due_s
        send(name)
    producer.flush(10)
    asked += _steady(evidence, seen, "by Kafka", sent, KAFKA_PER_S)


# -- by the API


def _api(
    stack: RealStack, evidence: Evidence, seen: Observer, port: int, size: Size, asked: list[str], *, judged: bool
) -> None:
    async def whole() -> None:
        async with connected(port, _CONNECTIONS) as idle:
            names = list(_names("api-warm", 50))
            await asyncio.gather(*(create(idle, name) for name in names))
            names = list(_names("api-flood", size.flood // 2))
            cpu = Cpu(stack)
            began_s = time.monotonic()
            statuses, took_s = _told(await asyncio.gather(*(create(idle, name) for name in names)))
            evidence.figure("answers of the API, all at once", statuses)
            evidence.figure("ms to the answer, all at once", _spread(took_s))
            evidence.demand(set(statuses) <= {201, 202}, f"not every create was accepted: {statuses}")
            bar = API_PER_S if judged else 0
            asked.extend(await asyncio.to_thread(_applied, evidence, seen, "by API, all at once", names, began_s, bar))
            evidence.figure("CPU ms a job, by API, all at once", cpu.per_job(len(names)))
            await asyncio.to_thread(_settle, stack)
            sent: dict[str, float] = {}
            calls = []
            for due_s, name in _schedule("api-steady", API_PER_S, size.steady_s):
                await asyncio.sleep(max(0.0, due_s - time.monotonic()))
                sent[f"default:{name}"] = due_s
                calls.append(asyncio.create_task(create(idle, name)))
            statuses, took_s = _told(await asyncio.gather(*calls))
            evidence.figure("answers of the API, steadily", statuses)
            evidence.figure("ms to the answer, steadily", _spread(took_s))
            evidence.demand(set(statuses) <= {201, 202}, f"not every create was accepted: {statuses}")
            asked.extend(await asyncio.to_thread(_steady, evidence, seen, "by API", sent, API_PER_S))

    asyncio.run(whole())


Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class connected:  # noqa: N801 - reads as a context
    """Open connections, each lent to one request at a time."""

    def __init__(self, port: int, count: int) -> None:
        self._port = port
        self._count = count
        self._all: list[Connection] = []

    async def __aenter__(self) -> asyncio.Queue[Connection]:
        idle: asyncio.Queue[Connection] = asyncio.Queue()
        for _ in range(self._count):
            connection = await asyncio.open_connection("127.0.0.1", self._port)
            self._all.append(connection)
            idle.put_nowait(connection)
        return idle

    async def __aexit__(self, *_: object) -> None:
        for _, writer in self._all:
            writer.close()


async def create(idle: asyncio.Queue[Connection], name: str) -> tuple[int, float]:
    """(status, seconds from the head's first byte to the answer's last) of one POST /jobs."""
    body = json.dumps({"name": name, "every": "1h", "handler": "demo.noop"}).encode()
    head = "POST /api/v1/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    reader, writer = connection = await idle.get()
    began_s = time.monotonic()
    writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    answer = (await reader.readuntil(b"\r\n\r\n")).lower()
    length = int(answer.partition(b"content-length: ")[2].partition(b"\r\n")[0])
    await reader.readexactly(length)
    idle.put_nowait(connection)
    return int(answer[9:12]), time.monotonic() - began_s


# -- figures


def _settle(stack: RealStack) -> None:
    """History catches up first: what a flood has left behind is not the steady state."""
    group, topics = stack.names.group("recorder"), (stack.names.commands, stack.names.run_events)
    wait_for(lambda: not dumps.unread(stack.bootstrap, group, topics), "the recorder at rest", every_s=0.5)


def _warm_up(seen: Observer, jobs: list[str], producer: Producer) -> None:
    producer.flush(10)
    seen.wait_for(jobs)


def _applied(
    evidence: Evidence, seen: Observer, door: str, names: list[str], began_s: float, bar_per_s: int
) -> list[str]:
    jobs = [f"default:{name}" for name in names]
    seen.wait_for(jobs)
    rate = len(jobs) / (max(seen.at[job] for job in jobs) - began_s)
    evidence.figure(f"jobs a second, {door}", round(rate), jobs=len(jobs), bar=bar_per_s or None)
    evidence.demand(rate >= bar_per_s, f"{door}: {rate:.0f} jobs a second, not {bar_per_s}")
    return jobs


def _steady(evidence: Evidence, seen: Observer, door: str, sent: dict[str, float], per_s: int) -> list[str]:
    seen.wait_for(list(sent))
    took_s = [seen.at[job] - due_s for job, due_s in sent.items()]
    evidence.figure(f"ms to applied, {door}, at {per_s} a second", _spread(took_s), jobs=len(took_s))
    return list(sent)


def _spread(took_s: list[float]) -> dict[str, float]:
    cuts = quantiles(took_s, n=100)
    return {"p50": round(cuts[49] * 1e3, 1), "p99": round(cuts[98] * 1e3, 1), "max": round(max(took_s) * 1e3, 1)}


def _told(answers: list[tuple[int, float]]) -> tuple[dict[int, int], list[float]]:
    return dict(Counter(status for status, _ in answers)), [took_s for _, took_s in answers]


def _names(start: str, count: int) -> Iterator[str]:
    return (f"{start}-{number}" for number in range(count))


def _schedule(start: str, per_s: int, seconds: int) -> Iterator[tuple[float, str]]:
    begin_s = time.monotonic() + 0.1
    return ((begin_s + number / per_s, name) for number, name in enumerate(_names(start, per_s * seconds)))


def _paced(names: list[str], per_s: int) -> Iterator[tuple[float, str]]:
    """(when it is due, name), each at its time: lateness of ours counts as theirs."""
    begin_s = time.monotonic() + 0.1
    for number, name in zip(itertools.count(), names):
        due_s = begin_s + number / per_s
        time.sleep(max(0.0, due_s - time.monotonic()))
        yield due_s, name


def _judge_all_are_there(stack: RealStack, evidence: Evidence, asked: list[str]) -> None:
    counted = Counter(
        (message.key() or b"").decode()
        for message in dumps.messages(stack.bootstrap, stack.names.run_events, committed=True)
        if dict(message.headers() or ()).get("ce_type") == _REVISED
    )
    stored = {row.job_id for row in dumps.rows(stack.cassandra.port, "SELECT job_id FROM jobs")}
    evidence.figure("jobs asked for", len(asked))
    evidence.none_of((job for job in asked if counted[job] != 1), "jobs not revised exactly once in the dump")
    evidence.none_of((job for job in asked if job not in stored), "jobs missing in the table")
