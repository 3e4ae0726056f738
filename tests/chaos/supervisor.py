"""Starts again whatever has ended, as systemd would: role or server, planned or not. Nobody lends a hand beside it.

One step at a time and never waiting: a child dies with the thread that started it, and the faults go on meanwhile.
"""

from __future__ import annotations

import time
from typing import NamedTuple

from tests.acceptance.real_stack import RoleProcess
from tests.chaos.deeds import Deeds
from tests.chaos.schedule import SERVERS
from tests.chaos.stage import Stage
from waterclock.stack.backoff import Backoff
from waterclock.stack.trouble import StackTrouble

_LOOK_AT_SERVERS_EVERY_S = 0.2


class _Life(NamedTuple):
    """Since when a process runs, and how often its kind has died young."""

    since_s: float
    record: Backoff


class Supervisor:
    """Looks after the roles and servers of one stage."""

    def __init__(self, stage: Stage, deeds: Deeds) -> None:
        self._stage = stage
        self._deeds = deeds
        now_s = time.monotonic()
        self._lives = {name: _Life(now_s, Backoff()) for name in (*stage.roles, *SERVERS)}
        self._back_at_s: dict[str, float] = {}
        self._starting = set(stage.roles)
        self._look_at_s = now_s
        self.stopped: set[str] = set()
        """Who stands still by SIGSTOP: nobody asks it anything."""

    @property
    def is_whole(self) -> bool:
        """Everything runs and has said that it is ready."""
        return not self._back_at_s and not self._starting and not self.stopped

    def is_up(self, name: str) -> bool:
        """Runs, ready, and not stopped."""
        return name not in self._back_at_s and name not in self._starting and name not in self.stopped

    def runs(self, name: str) -> bool:
        """There is a process of it, whatever its state."""
        return name not in self._back_at_s and self._exit_code(name) is None

    def expect_back(self, name: str, away_s: float) -> None:
        """It was killed; it comes back then."""
        self._starting.discard(name)
        self.stopped.discard(name)
        self._back_at_s[name] = time.monotonic() + away_s

    def go_on(self) -> None:
        """Notice who has ended, start whose time has come, notice who is ready."""
        now_s = time.monotonic()
        for name in self._lives:
            if name in self._back_at_s:
                if now_s >= self._back_at_s[name]:
                    self._start(name, now_s)
            elif (code := self._exit_code(name)) is not None:
                self._deeds.note("ended", name, str(code))
                self.expect_back(name, self._lives[name].record.pause_after(now_s - self._lives[name].since_s))
        for name in [each for each in self._starting if each not in self.stopped and each not in SERVERS]:
            if self._stage.roles[name].ready_path.exists():
                self._is_back(name)
        if now_s >= self._look_at_s:
            self._look_at_s = now_s + _LOOK_AT_SERVERS_EVERY_S
            for name in [each for each in self._starting if each in SERVERS and each not in self.stopped]:
                self._ask(name)

    def _start(self, name: str, now_s: float) -> None:
        del self._back_at_s[name]
        self._lives[name] = _Life(now_s, self._lives[name].record)
        self._starting.add(name)
        try:
            self._stage.relaunch(name) if name in SERVERS else self._restart(self._stage.roles[name])
        except (StackTrouble, OSError) as trouble:  # a full disk takes no configuration either
            self._deeds.note("not started", name, str(trouble)[:200])
            self.expect_back(name, self._lives[name].record.pause_after(0.0))

    def _restart(self, role: RoleProcess) -> None:
        role.stop(0.0)  # it has ended: this closes its log
        role.start()

    def _ask(self, name: str) -> None:
        try:
            if self._stage.server(name).is_ready():
                self._is_back(name)
        except StackTrouble:
            return  # it has ended: the next look says so

    def _is_back(self, name: str) -> None:
        self._starting.discard(name)
        self._deeds.note("return", name)

    def _exit_code(self, name: str) -> int | None:
        if name in SERVERS:
            return self._stage.server(name).exit_code()
        process = self._stage.roles[name].process
        return None if process is None else process.poll()
