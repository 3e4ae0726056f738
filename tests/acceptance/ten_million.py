"""What is stored costs a dispatcher nothing: memory, processor time per due fire and take-over do not grow with it.

Real: the same jobs fire beside 25,000 schedules that lie hours ahead (100,000 rows in four tables of Cassandra), then
beside 500,000 (2,000,000 rows). Counted from outside: the processor seconds and the resident memory of the dispatcher's
process, the PENDING records in the dump; then it is killed, and what counts is how long after its successor's start the
next PENDING is committed. The fake: the same with 100,000 and 10,000,000 rows of the time index, a process for each.
Short: hundreds of them, nothing judged.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from waterclock.dispatcher.loop import Dispatcher

from tests.acceptance import dumps
from tests.acceptance.evidence import Evidence, on_stage
from tests.acceptance.far_ahead import FarTables, fill
from tests.acceptance.orders import Orders
from tests.acceptance.real_stack import RealStack, wait_for
from tests.oracle.records import decode
from tests.unit.dispatcher_world import NAMES, World
from waterclock.clock import SystemClock
from waterclock.log.memory import MemoryLog
from waterclock.model.ids import US_PER_S
from waterclock.model.job import CommandKind, Every, JobSpec, Tier
from waterclock.store.cassandra import CassandraStore
from waterclock.store.cells import Select
from waterclock.store.memory import MemoryStore
from waterclock.store.tables import DUE
from waterclock.telemetry import configure_logging

GROWS_MAX = 1.1
_AFTER_US = 3 * 3_600 * US_PER_S
"""Nothing of it is due while the check lasts."""
_SETTLE_S = 8.0
_TICK = os.sysconf("SC_CLK_TCK")
_ROWS_EACH = 4
"""The job, its version, its line in the list, its row of the time index."""


class Size(NamedTuple):
    """``schedules``: few and many in Cassandra; ``rows``: in the fake. ``beats``: jobs that fire each second."""

    schedules: tuple[int, int]
    rows: tuple[int, int]
    beats: int
    seconds: int
    take_overs: int


WHOLE = Size((25_000, 500_000), (100_000, 10_000_000), 400, 60, 5)
SHORT = Size((300, 900), (1_000, 100_000), 20, 8, 1)


class Cost(NamedTuple):
    """Of a dispatcher: processor microseconds for a due fire, resident MiB, seconds of the median take-over."""

    cpu_us: float
    rss_mib: float
    take_over_s: float
    fires: int


def main(short: bool = False, seed: int | None = None) -> None:
    size = SHORT if short else WHOLE
    with on_stage("ten-million") as (stack, evidence):
        _judge(evidence, "Cassandra", size.schedules, _real(stack, evidence, size), whole=not short)
        _judge(evidence, "the fake", size.rows, [_faked(rows, size) for rows in size.rows], whole=not short)


def _judge(evidence: Evidence, where: str, sizes: tuple[int, int], costs: list[Cost], *, whole: bool) -> None:
    few, many = costs
    for number, cost in zip(sizes, costs, strict=True):
        evidence.figure(f"a dispatcher beside {number} schedules in {where}", cost.fires, **cost._asdict())
        evidence.demand(cost.fires > 0, "nothing fired")
    for name in ("cpu_us", "rss_mib", "take_over_s"):
        before, after = getattr(few, name), getattr(many, name)
        if before:
            times = after / before
            evidence.figure(f"{name} in {where}, times that beside few", round(times, 3))
            evidence.demand(not whole or times <= GROWS_MAX, f"{name} grows {times:.2f} times, in {where}")


# Real servers ---------------------------------------------------------------------------------------------------------


def _real(stack: RealStack, evidence: Evidence, size: Size) -> list[Cost]:
    stack.role("dispatcher", "dispatcher-1").wait_ready()
    orders = Orders(stack)
    begin = time.time_ns() // 1_000 // US_PER_S * US_PER_S
    for number in range(size.beats):
        orders.send(CommandKind.CREATE, f"acme:beat-{number}", JobSpec("demo.ping", Every(US_PER_S, begin), Tier.HIGH))
    orders.flush()
    group, commands = stack.names.group("dispatcher"), stack.names.commands
    wait_for(lambda: dumps.unread(stack.bootstrap, group, [commands]) == 0, "the jobs were made", 120.0, every_s=0.5)
    store = CassandraStore(["127.0.0.1"], stack.cassandra.port, "waterclock", SystemClock())
    costs, filled = [], 0
    for schedules in size.schedules:
        began_s = time.monotonic()
        fill(store, range(filled, schedules), begin, _AFTER_US)
        filled = schedules
        seconds = round(time.monotonic() - began_s, 1)
        evidence.figure("rows in Cassandra", schedules * _ROWS_EACH, seconds=seconds)
        costs.append(_measured(stack, size))
    store.close()
    return costs


def _measured(stack: RealStack, size: Size) -> Cost:
    """A fresh process each time: what one has gathered before must not count."""
    took = [_take_over(stack) for _ in range(size.take_overs)]
    role = stack.roles["dispatcher-1"]
    time.sleep(_SETTLE_S)  # so that its window is loaded; nothing is waited for
    begun_us, before = time.time_ns() // 1_000, _processor_s(role.pid)
    time.sleep(size.seconds)
    ended_us, after = time.time_ns() // 1_000, _processor_s(role.pid)
    rss = _resident_mib(role.pid)
    fires = sum(begun_us <= at < ended_us for at in _pending_at(stack))
    return Cost(round((after - before) * 1e6 / max(1, fires), 1), rss, round(statistics.median(took), 3), fires)


def _take_over(stack: RealStack) -> float:
    """From the successor's start to the first PENDING that is committed after it."""
    role = stack.roles["dispatcher-1"]
    role.kill()
    time.sleep(1.0)  # so that something is due, and late
    stood = _ends(stack)
    begun_us = time.time_ns() // 1_000
    role.start()
    wait_for(lambda: _ends(stack) > stood, "the successor ended what the killed one had open, or fired", 60.0)
    role.wait_ready(60.0)
    fired = wait_for(lambda: [at for at in _pending_at(stack) if at >= begun_us], "it fired", 60.0, every_s=0.5)
    return (min(fired) - begun_us) / US_PER_S


def _ends(stack: RealStack) -> int:
    """How far run-events go: nobody but the dispatcher writes them here."""
    return sum(dumps.high_watermarks(stack.bootstrap, stack.names.run_events).values())


def _pending_at(stack: RealStack) -> list[int]:
    """The brokers' stamps of all PENDING."""
    told = ((record, decode(record["value"])[1]) for record in dumps.dump(stack.bootstrap, stack.names.run_events))
    return [record["timestamp_us"] for record, event in told if event["kind"] == "PENDING"]


def _processor_s(pid: int) -> float:
    parts = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(parts[11]) + int(parts[12])) / _TICK


def _resident_mib(pid: int) -> float:
    told = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    line = next(line for line in told.splitlines() if line.startswith("VmRSS"))
    return round(int(line.split()[1]) / 1_024, 1)


# The fake -------------------------------------------------------------------------------------------------------------


def _faked(rows: int, size: Size) -> Cost:
    command = [sys.executable, "-m", "tests.acceptance.ten_million", str(rows), str(size.beats), str(size.seconds)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=True)
    return Cost(**json.loads(done.stdout.splitlines()[-1]))


class _FarWorld(World):
    """One dispatcher beside so many rows; its steps are counted in processor time."""

    def __init__(self, rows: int) -> None:
        self.far = rows
        self.processor_s = 0.0
        super().__init__(partitions=4)

    def start(self, instance: str = "d1") -> Dispatcher:
        if not isinstance(self.tables, FarTables):
            self.tables = FarTables(self.clock, self.far, self.clock.now(), _AFTER_US)
        self.lives += 1
        client = f"{instance}-{self.lives}"
        store = MemoryStore(self.clock, self.tables, client)
        log = MemoryLog(self.cluster, client, session_timeout_s=6.0)
        return Dispatcher(self.clock, log, store, NAMES, instance=instance, pace=self.pace)

    def counted(self, seconds: float, step_s: float) -> None:
        for _ in range(round(seconds / step_s)):
            self.clock.advance(round(step_s * US_PER_S))
            for _ in range(4):
                began_s = time.process_time()
                self.dispatcher.step()
                self.processor_s += time.process_time() - began_s


def _one(rows: int, beats: int, seconds: int) -> Cost:
    world = _FarWorld(rows)
    tables = world.tables
    assert isinstance(tables, FarTables)
    assert tables.far_rows >= rows
    begin = world.clock.now()
    for number in range(beats):
        world.command(CommandKind.CREATE, f"acme:beat-{number}", JobSpec("demo.ping", Every(US_PER_S, begin)))
    world.counted(10.0, 0.1)
    fires, world.processor_s = len(world.runs()), 0.0
    world.counted(seconds, 0.1)
    fires, used_s = len(world.runs()) - fires, world.processor_s
    rss_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1_024
    world.cluster.kill(f"d1-{world.lives}")
    world.clock.advance(7 * US_PER_S)  # beyond a session
    world.dispatcher, world.processor_s, stood = world.start(), 0.0, len(world.runs())
    while len(world.runs()) == stood:
        world.counted(0.1, 0.1)
    assert tables.far_rows_read == 0, "what lies hours ahead was read"
    assert tables.read(Select(DUE), (255, tables.first_minute)), "nothing lies ahead"
    return Cost(round(used_s * 1e6 / max(1, fires), 1), round(rss_mib, 1), round(world.processor_s, 3), fires)


if __name__ == "__main__":
    configure_logging("check", level="error")
    print(json.dumps(_one(*(int(word) for word in sys.argv[1:4]))._asdict()))
