"""What a row of history costs, in the layout before the drawers and in theirs: by turns, on one node.

One write is one batch of a recorder that is behind: as many rows as jobs, each run's only picture. CPU of the node from
``/proc/PID/stat``, so it counts what it does besides (flushes, compaction) while the write is under way; CPU of ours is
what packs, sends and takes the answers. Then reads of one job beside all the others.
"""

from __future__ import annotations

import gc
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.bench.figures import Figures
from tests.bench.pipeline import AS_A_REPLICA
from tests.free_ports import free_port
from tests.old_runs import old_put
from waterclock.clock import SystemClock
from waterclock.model.events import Outcome, RunStatus
from waterclock.model.ids import US_PER_S
from waterclock.model.job import Tier
from waterclock.stack.servers import launch_cassandra
from waterclock.store.cassandra import CassandraStore
from waterclock.store.cells import Cells, Select
from waterclock.store.drawers import drawer_key, drawer_of
from waterclock.store.migrate import migrate
from waterclock.store.port import History, RunRow, Writing
from waterclock.store.tables import RUNS, RUNS_BY_DRAWER

ROWS, WARM_UP, WRITES, READS = 27_000, 4, 13, 300
_WAIT_S = 60.0
_DAY_US = 86_400 * US_PER_S
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")


class _Side:
    """A layout, and the node that has nothing else to do."""

    def __init__(self, folder: Path, write: Callable[[CassandraStore, Sequence[RunRow]], Writing]) -> None:
        self._write = write
        self.node = launch_cassandra(folder / "cassandra", port=free_port(), overrides=AS_A_REPLICA)
        self.turns: list[tuple[float, ...]] = []
        self._before_s = 0.0

    def open(self) -> None:
        self.node.wait_ready()
        place = ["127.0.0.1"], self.node.port, "waterclock", SystemClock()
        migrate(*place)
        self.store = CassandraStore(*place)

    def turn(self, runs: Sequence[RunRow]) -> None:
        """Write; ``turns`` takes the wall time, the node's CPU, all its CPU since the turn before, and ours."""
        began = (time.monotonic(), _cpu_s(self.node.pid), self._before_s, time.process_time())
        self._write(self.store, runs).wait(_WAIT_S)
        node_s = _cpu_s(self.node.pid)
        ended = (time.monotonic(), node_s, node_s, time.process_time())
        self._before_s = node_s
        self.turns.append(tuple((after - at) / len(runs) * US_PER_S for at, after in zip(began, ended, strict=True)))


_WHAT = ("wall", "cassandra", "cassandra_with_rests", "client")


def compare(figures: Figures) -> None:
    """Medians of ``WRITES`` writes of each layout, and of reads. Each has a node: what one still does is not counted
    for the other."""
    now = SystemClock().now()
    gc.set_threshold(50_000, 20, 100)  # as every role does
    with tempfile.TemporaryDirectory(prefix="waterclock-bench-") as folder:
        sides = {
            "before": _Side(Path(folder) / "before", _write_before),
            "drawers": _Side(Path(folder) / "drawers", lambda store, runs: store.record(History(runs))),
        }
        try:
            for side in sides.values():
                side.open()
            for turn in range(WARM_UP + WRITES):
                runs = [_run(number, now + turn * US_PER_S) for number in range(ROWS)]
                for side in sides.values():
                    side.turn(runs)
                    time.sleep(1.0)
            for name, side in sides.items():
                told = zip(_WHAT, zip(*side.turns[WARM_UP:], strict=True), strict=True)
                for what, each in told:
                    figures.add(f"{name}.{what}_us_per_row", statistics.median(each), "us", n=len(each))
                    figures.add(f"{name}.{what}_us_per_row.mean", statistics.mean(each), "us", n=len(each))
            _read(figures, {name: side.store._cells for name, side in sides.items()}, now)
        finally:
            for side in sides.values():
                side.node.kill()


def _write_before(store: CassandraStore, runs: Sequence[RunRow]) -> Writing:
    return store._cells.write("record", [old_put(run) for run in runs])


def _read(figures: Figures, cells: dict[str, Cells], now: int) -> None:
    day = now // _DAY_US
    asked = {f"bench:job-{number}": number for number in range(0, ROWS, ROWS // READS)}
    queries = {
        "before.one": (Select(RUNS, equal=2), lambda job: (job, day, now, 0)),
        "drawers.one": (Select(RUNS_BY_DRAWER, equal=3), lambda job: drawer_key(job, now, 0)),
        "before.list": (Select(RUNS, limited=True), lambda job: (job, day, 20)),
        "drawers.list": (
            Select(RUNS_BY_DRAWER, equal=1, limited=True),
            lambda job: (day, drawer_of(job), job, 20),
        ),
    }
    for _ in range(2):  # the first round warms up
        times: dict[str, list[float]] = {name: [] for name in queries}
        for job in asked:
            for name, (query, key) in queries.items():
                began = time.perf_counter()
                (found,) = cells[name.partition(".")[0]].select("bench", query, [key(job)])
                times[name].append((time.perf_counter() - began) * 1_000)
                wanted = 1 if name.endswith("one") else min(20, WARM_UP + WRITES)
                if now % _DAY_US > 20 * US_PER_S and len(found) != wanted:
                    raise RuntimeError(f"{name}: {len(found)} rows of {job}, not {wanted}")
    for name, each in times.items():
        figures.add(f"{name}_ms", statistics.median(each), "ms", n=len(each))


def _run(number: int, fire_at: int) -> RunRow:
    status, outcome = RunStatus.SUCCEEDED, Outcome.SUCCEEDED
    at = fire_at + 40_000
    return RunRow(f"bench:job-{number}", fire_at, 0, 77, Tier.MEDIUM, "SCHEDULE", status, outcome, 1, at, at + 9_000,
                  at + 12_345, "worker-1", 1 << 48 | number, "", None, "", "", "", 0, 0, at + 96)  # fmt: skip


def _cpu_s(pid: int) -> float:
    """User and system time of a process, its ended children left out."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) * _TICK_S
