"""Plays a schedule of faults on a stage, one step at a time, and heals everything in the end.

A fault that cannot happen (its target is down already) does not happen, and is not counted. The process control is in
one thread: children die with the thread that started them.
"""

from __future__ import annotations

import heapq
import itertools
import os
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException

from tests.acceptance.kills import Trap
from tests.chaos.deeds import Deeds
from tests.chaos.rights import CLOCK, DISK, resize_disk
from tests.chaos.schedule import FAKED, IN_A_ROUND, KAFKA, SERVERS, WORKERS, Fault
from tests.chaos.stage import DISK_MB, Stage
from tests.chaos.supervisor import Supervisor
from tests.oracle.records import decode

_STEP_S = 0.02
"""Between two looks at the agenda: one thread does it all, and is not to take a core from whom it disturbs."""

_STORM_EVERY_S = (2.0, 5.0)
_PATIENCE_S = 0.3
"""So long a kill waits for a round of a worker's to begin; nothing else happens meanwhile."""

_DISK_LEFT_KB = (64, 256, 1_024, 4_096)
_NO_SPACE = b"No space left"
CLOCK_HEALED = "clock-healed"
NOBODYS_ROUND = "at any time: nobody began a round"


class Director:
    """Faults as they come due, and the supervisor between them."""

    def __init__(self, stage: Stage, deeds: Deeds) -> None:
        self._stage = stage
        self._deeds = deeds
        self.supervisor = Supervisor(stage, deeds)
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._is_over = False
        self._strikes: dict[str, Callable[[Fault], None]] = {
            "kill": self._kill_role,
            "kill-kafka": self._kill_server,
            "kill-cassandra": self._kill_server,
            "stop": self._stop,
            "stop-server": self._stop,
            "cut": self._cut,
            "delay": self._delay,
            "one-way": self._one_way,
            "late-endtxn": self._late,
            CLOCK: self._clock,
            DISK: self._disk,
            "storm": self._storm,
        }

    def play(self, faults: Sequence[Fault], span_s: float, meanwhile: Callable[[], None]) -> None:
        """The whole schedule, then heal. What is down still comes back: see ``wait_for``."""
        began_s = time.monotonic()
        for fault in faults:
            self._at(began_s + fault.at_s, lambda fault=fault: self._strikes[fault.kind](fault))
        while time.monotonic() < began_s + span_s:
            self.go_on()
            meanwhile()
            time.sleep(_STEP_S)
        self._heal()

    def go_on(self) -> None:
        """What is due by now."""
        self.supervisor.go_on()
        while self._agenda and self._agenda[0][0] <= time.monotonic():
            _, _, act = heapq.heappop(self._agenda)
            act()

    def wait_for(self, condition: Callable[[], Any], what: str, within_s: float, every_s: float = 0.2) -> Any:
        """The first true value of it, with the supervisor at work. Raises TimeoutError."""
        until_s = time.monotonic() + within_s
        look_at_s = 0.0
        while time.monotonic() < until_s:
            self.go_on()
            if time.monotonic() >= look_at_s:
                look_at_s = time.monotonic() + every_s
                # Right after a return a question may meet nobody, or find no answer: asked again until the bound.
                try:
                    value = condition()
                except (KafkaException, TimeoutError):
                    value = None
                if value:
                    return value
            time.sleep(_STEP_S)
        raise TimeoutError(f"{what}: not within {within_s:.0f} s")

    def _at(self, when_s: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._agenda, (when_s, next(self._numbers), act))

    def _after(self, wait_s: float, act: Callable[[], None]) -> None:
        self._at(time.monotonic() + wait_s, act)

    # -- crashes

    def _kill_role(self, fault: Fault) -> None:
        writer = self._writer() if fault.how == IN_A_ROUND else None
        name = writer or fault.target
        if self.supervisor.runs(name):
            self._stage.roles[name].kill()
            how = NOBODYS_ROUND if fault.how == IN_A_ROUND and writer is None else fault.how
            self._deeds.note("kill", name, how)
            self.supervisor.expect_back(name, fault.lasts_s)

    def _writer(self) -> str | None:
        """The worker whose round has just begun; None where the broker does not tell."""
        if not self.supervisor.is_up(KAFKA):
            return None
        try:
            trap = Trap(self._stage.bootstrap, self._stage.names.run_events, _worker_of)
        except KafkaException:
            return None
        try:
            return trap.first_writer(_PATIENCE_S)
        finally:
            trap.close()

    def _kill_server(self, fault: Fault) -> None:
        if self.supervisor.runs(fault.target):
            self._stage.server(fault.target).kill()
            self._deeds.note(fault.kind, fault.target)
            self.supervisor.expect_back(fault.target, fault.lasts_s)

    # -- pauses

    def _stop(self, fault: Fault) -> None:
        name = fault.target
        if not self.supervisor.is_up(name):
            return
        pid = self._pid(name)
        os.kill(pid, signal.SIGSTOP)
        self._deeds.note(fault.kind, name, fault.how)
        self.supervisor.stopped.add(name)
        self._after(fault.lasts_s, lambda: self._wake(name, pid))

    def _wake(self, name: str, pid: int) -> None:
        """Unless it was killed in its sleep: then another process has its place, or none."""
        if self.supervisor.runs(name) and self._pid(name) == pid:
            os.kill(pid, signal.SIGCONT)
            self._deeds.note("return", name, "woken")
            self.supervisor.stopped.discard(name)

    def _pid(self, name: str) -> int:
        return self._stage.server(name).pid if name in SERVERS else self._stage.roles[name].pid

    # -- the network

    def _cut(self, fault: Fault) -> None:
        self._stage.proxies[fault.target].order(cut=True)
        self._deeds.note(fault.kind, fault.target)

    def _delay(self, fault: Fault) -> None:
        proxy = self._stage.proxies[fault.target]
        proxy.order(delay=float(fault.how))
        self._deeds.note(fault.kind, fault.target, fault.how)
        self._after(fault.lasts_s, lambda: proxy.order(delay=0.0))

    def _one_way(self, fault: Fault) -> None:
        """Every other one ends with a reset: what was under way then is lost."""
        proxy = self._stage.proxies[fault.target]
        proxy.order(stop=fault.how)
        self._deeds.note(fault.kind, fault.target, fault.how)
        is_lost = int(fault.at_s * 100) % 2 == 1
        self._after(fault.lasts_s, lambda: proxy.order(go=fault.how, cut=is_lost))

    def _late(self, fault: Fault) -> None:
        self._stage.proxies[fault.target].order(late=fault.lasts_s)
        self._deeds.note(fault.kind, fault.target, f"{fault.lasts_s:.2f}")

    # -- clock, disk, members

    def _clock(self, fault: Fault) -> None:
        self._deeds.note(fault.kind, fault.target, fault.how)  # first: whatever is early is early after it
        self._stage.faked_clock.write_text(f"{fault.how}\n")
        self._after(fault.lasts_s, self._true_clock)

    def _true_clock(self) -> None:
        self._stage.faked_clock.write_text("+0\n")
        self._deeds.note(CLOCK_HEALED, FAKED)

    def _disk(self, fault: Fault) -> None:
        """Make the broker's disk as small as what is on it; it grows again, the broker may be dead by then.

        It has happened where the broker says so: one that wrote nothing meanwhile has not met it.
        """
        disk, log = self._stage.folder / "kafka", self._stage.server(KAFKA).log_path
        if not _is_full_now(disk):
            return
        self._deeds.note("shrunk", fault.target)
        told_before = log.stat().st_size

        def grow() -> None:
            resize_disk(disk, DISK_MB << 20)
            with log.open("rb") as told:
                told.seek(told_before)
                if _NO_SPACE in told.read():
                    self._deeds.note(fault.kind, fault.target)

        self._after(fault.lasts_s, grow)

    def _storm(self, fault: Fault) -> None:
        """One member leaves and comes back every few seconds; the supervisor brings it back."""
        self._deeds.note(fault.kind, fault.target)
        until_s = time.monotonic() + fault.lasts_s
        waits = itertools.cycle((_STORM_EVERY_S[0], sum(_STORM_EVERY_S) / 2, _STORM_EVERY_S[1]))

        def leave() -> None:
            if self.supervisor.is_up(fault.target) and not self._is_over:
                os.kill(self._pid(fault.target), signal.SIGTERM)
                self._deeds.note("leave", fault.target)
            if not self._is_over and time.monotonic() < until_s:
                self._after(next(waits), leave)

        leave()

    def _heal(self) -> None:
        """End every fault that is still on: what is on the agenda heals, whatever its time."""
        self._is_over = True
        while self._agenda:
            _, _, act = heapq.heappop(self._agenda)
            act()
        for proxy in self._stage.proxies.values():
            proxy.order(go="requests", delay=0.0)
            proxy.order(go="answers")
        self._deeds.note("healed", "all")


def _is_full_now(disk: Path) -> bool:
    """Take all but some kilobytes of what is left; the broker may be quicker, so there are several tries."""
    for left_kb in _DISK_LEFT_KB:
        found = os.statvfs(disk)
        if resize_disk(disk, (found.f_blocks - found.f_bfree) * found.f_frsize + left_kb * 1024):
            return True
    return False


def _worker_of(message: Any) -> str | None:
    """The worker that wrote this record of run-events; None where it was somebody else's."""
    _, event = decode(message.value())
    return event["worker"] if event["kind"] == "STARTED" and event["worker"] in WORKERS else None
