"""One peer, one round: fresh server, warm-up, burst, herd, drain; each counted from outside."""

from __future__ import annotations

import os
import statistics
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from bench.peers import processes, stamps
from bench.peers.installing import HERE, TARGET, venv_of
from bench.peers.registry import Peer
from bench.peers.report import Figure
from bench.peers.servers import server

ROOT = HERE.parents[1]
SETTLING_S = 0.5
"""After the last handler: what is acknowledged late belongs to the CPU of the burst."""
IDLE_S = 1.0
"""Between two measurements, so that what one leaves behind is not counted for the next; no figure spans it."""
STUCK_S = 120.0
"""Without one more stamp, a peer counts as stuck."""


class Sizes(NamedTuple):
    """How much of everything; None: as much as the registry says."""

    tasks: int | None = None
    herd: int = 5_000
    warm: int = 500


class Trial:
    """The processes of a peer in one round, and its measurements."""

    def __init__(self, peer: Peer, sizes: Sizes, folder: Path) -> None:
        self._peer = peer
        self._sizes = sizes
        self._folder = folder
        self._sink = folder / "sink"
        self._sink.mkdir()
        self._env = {**os.environ, **peer.env, processes.MARK: str(folder), "PYTHONPATH": str(ROOT)}
        self._env["PEER_SINK"] = str(self._sink)
        self._workers: list[subprocess.Popen[str]] = []
        self._first = 0

    def run(self) -> Iterator[Figure]:
        """All that the peer can do, one after the other.

        Raises:
            ValueError: tasks were lost or doubled.
            TimeoutError: it is stuck.
        """
        self._env["PEER_SERVER"] = server(self._peer.server, self._folder, self._env, TARGET)
        self._producer = self._start(self._peer.producer, talking=True)
        self._answer("ready")
        self._start_workers()
        tasks = self._peer.tasks and (self._sizes.tasks or self._peer.tasks)
        self._now(self._sizes.warm)
        if tasks:
            yield from self._burst(tasks)
        yield Figure("rss_mb", processes.resident_mb(), "MB", tasks or self._sizes.warm)
        if self._peer.herd != "none":
            yield from self._herd(self._sizes.herd)
        if tasks:
            yield self._drain(tasks)

    def _burst(self, tasks: int) -> Iterator[Figure]:
        time.sleep(IDLE_S)
        before, all_before, since = processes.cpu_s(), processes.machine_cpu_s(), time.monotonic()
        began, at = self._now(tasks)
        time.sleep(SETTLING_S)
        used = processes.cpu_s() - before
        others = (processes.machine_cpu_s() - all_before - used) / (time.monotonic() - since)
        yield Figure("burst.runs_per_s", tasks / (max(at) - began), "1/s", tasks)
        yield Figure("burst.cpu_us_per_run", used / tasks * 1e6, "us", tasks)
        yield Figure("burst.others_cores", max(others, 0.0), "cores", tasks)

    def _drain(self, tasks: int) -> Figure:
        for worker in self._workers:
            processes.end(worker)
        first = self._take(tasks)
        self._order(f"now {first} {tasks}")
        self._start_workers()
        at = self._ran(first, tasks)
        return Figure("drain.runs_per_s", (tasks - 1) / (max(at) - min(at)), "1/s", tasks)

    def _herd(self, count: int) -> Iterator[Figure]:
        time.sleep(IDLE_S)
        first = self._take(count)
        at = float(round(time.time() + self._peer.lead_s))
        with self._ticking(f"{first} {count} {at}"):
            if self._peer.herd == "producer":
                _, ready = self._order(f"at {first} {count} {at}")
                if ready > at:
                    raise ValueError(f"the herd was not stored before it was due: {ready - at:.1f} s late")
            late_ms = sorted((ran - at) * 1000 for ran in self._ran(first, count))
        yield Figure("herd-5000.p50_ms", statistics.median(late_ms), "ms", count)
        yield Figure("herd-5000.p95_ms", late_ms[int(count * 0.95)], "ms", count)
        yield Figure("herd-5000.p99_ms", late_ms[int(count * 0.99)], "ms", count)
        yield Figure("herd-5000.max_ms", late_ms[-1], "ms", count)
        yield Figure("herd-5000.min_ms", late_ms[0], "ms", count)

    @contextmanager
    def _ticking(self, herd: str) -> Iterator[None]:
        if not self._peer.ticker:
            yield
            return
        ticker = self._start(self._peer.ticker, env={"PEER_HERD": herd})
        yield
        processes.end(ticker)

    def _now(self, count: int) -> tuple[float, list[float]]:
        """Enqueue that many, and wait until all ran: when it began, and the instants of the handlers."""
        first = self._take(count)
        began, _ = self._order(f"now {first} {count}")
        return began, self._ran(first, count)

    def _take(self, count: int) -> int:
        self._first += count
        return self._first - count

    def _order(self, order: str) -> tuple[float, float]:
        assert self._producer.stdin is not None
        self._producer.stdin.write(order + "\n")
        self._producer.stdin.flush()
        began, done = self._answer("done")
        return float(began), float(done)

    def _answer(self, word: str) -> list[str]:
        assert self._producer.stdout is not None
        answer = self._producer.stdout.readline().split()
        if not answer or answer[0] != word:
            raise ValueError(f"the producer said {answer} instead of {word}: {self._said()}")
        return answer[1:]

    def _ran(self, first: int, count: int) -> list[float]:
        """Wait until all tasks so far have run; the instants of these."""
        seen, changed = -1, time.monotonic()
        while (now := stamps.written(self._sink)) < first + count:
            if now != seen:
                seen, changed = now, time.monotonic()
            elif time.monotonic() - changed > STUCK_S:
                raise TimeoutError(f"stuck at {now - first} of {count} tasks: {self._said()}")
            time.sleep(0.02)  # between two looks: the handlers say when they ran, so it adds nothing to a time
        return stamps.read(self._sink, first, count)

    def _start_workers(self) -> None:
        self._workers = [self._start(worker) for worker in self._peer.workers]

    def _start(
        self, command: tuple[str, ...], *, talking: bool = False, env: dict[str, str] | None = None
    ) -> subprocess.Popen[str]:
        binaries = venv_of(self._peer.folder) / "bin"
        argv = [word.format(py=binaries / "python", bin=binaries, target=TARGET) for word in command]
        return processes.start(argv, env={**self._env, **(env or {})}, log=self._folder / "peer.log", talking=talking)

    def _said(self) -> str:
        log = self._folder / "peer.log"
        text = log.read_text(errors="replace")[-1500:] if log.exists() else ""
        return text.replace(str(ROOT), ".").replace(str(self._folder), "round").strip()
