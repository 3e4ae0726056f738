"""A supervisor outlives a full disk, and whoever listened to it: what dies meanwhile is started again."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from waterclock.stack import supervise
from waterclock.stack.state import read_state
from waterclock.stack.supervise import ServerPlan, Supervisor, Whereabouts
from waterclock.stack.trouble import StackTrouble

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class Life:
    """Stands in for a process: ready at once, alive until it is killed or asked to stop."""

    def __init__(self, folder: Path, pid: int) -> None:
        self.pid = pid
        self.log_path = folder / "log"
        self.code: int | None = None

    def exit_code(self) -> int | None:
        return self.code

    def is_ready(self) -> bool:
        return True

    def ask_to_stop(self) -> None:
        self.code = self.code or 0

    def kill(self) -> None:
        self.code = -9


class Stack:
    """One server under a supervisor. ``failing``: how many launches end as on a full disk."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lives: list[Life] = []
        self.failing = 0
        self.said: list[str] = []
        plan = ServerPlan("kafka", self.launch, lambda _: "prepared")
        where = Whereabouts("127.0.0.1:1", "127.0.0.1", 2)
        self.supervisor = Supervisor(folder, [plan], [], where=lambda: where, say=self.say)
        self.is_deaf = False

    def launch(self) -> Life:
        if self.failing:
            self.failing -= 1
            raise FULL
        self.lives.append(Life(self.folder, len(self.lives) + 1))
        return self.lives[-1]

    def say(self, line: str) -> None:
        if self.is_deaf:
            raise BrokenPipeError
        self.said.append(line)

    def play(self, spoil: Callable[[], None]) -> None:
        """Until a killed server has come back, after ``spoil``."""

        async def scene() -> None:
            ready = asyncio.Event()
            running = asyncio.create_task(self.supervisor.run(ready.set))
            await ready.wait()
            spoil()
            self.lives[0].kill()
            async with asyncio.timeout(10):
                while len(self.lives) < 2:
                    await asyncio.sleep(0.01)
            os.kill(os.getpid(), signal.SIGTERM)
            await running

        asyncio.run(scene())


def test_what_cannot_be_launched_is_tried_until_it_can_and_the_cause_is_told(tmp_path):
    stack = Stack(tmp_path)
    stack.play(lambda: setattr(stack, "failing", 2))
    assert sum("kafka cannot be started: [Errno 28] No space left on device" in line for line in stack.said) == 2
    assert read_state(tmp_path).phase == "stopped"


def test_a_state_file_that_cannot_be_written_is_told_once_and_stops_nobody_from_coming_back(tmp_path, monkeypatch):
    stack = Stack(tmp_path)

    def full(*_: object) -> None:
        raise FULL

    stack.play(lambda: monkeypatch.setattr(supervise, "write_state", full))
    assert sum("state file is out of date" in line for line in stack.said) == 1
    assert stack.lives[1].code == 0, "drained, and not killed with us"


def test_nobody_has_to_listen(tmp_path):
    stack = Stack(tmp_path)
    stack.play(lambda: setattr(stack, "is_deaf", True))
    assert stack.lives[1].code == 0


def test_a_start_on_a_full_disk_is_told_with_what_to_do(tmp_path):
    stack = Stack(tmp_path)
    stack.failing = 1
    with pytest.raises(StackTrouble, match="kafka cannot be started") as told:
        asyncio.run(stack.supervisor.run(lambda: None))
    assert "free some space" in told.value.hint
