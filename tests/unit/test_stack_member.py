"""One supervised process, in place of which stands one whose life and readiness the test decides."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from waterclock.stack.member import Member
from waterclock.stack.trouble import StackTrouble


class Life:
    """One life of a process."""

    def __init__(self, pid: int, *, ready: bool) -> None:
        self.pid = pid
        self.log_path = Path("its.log")
        self.ready = ready
        self.code: int | None = None

    def exit_code(self) -> int | None:
        return self.code

    def is_ready(self) -> bool:
        if self.code is not None:
            raise StackTrouble("dead", hint="")
        return self.ready

    def ask_to_stop(self) -> None:
        self.code = 0

    def kill(self) -> None:
        self.code = -9


class Kept:
    """A member with its lives: ready at first, later ones when the test says so."""

    def __init__(self) -> None:
        self.lives: list[Life] = []
        self.said: list[str] = []
        self.member = Member("worker-1", self.launch, ready_within_s=0.05, say=self.said.append, changed=lambda: None)

    def launch(self) -> Life:
        self.lives.append(Life(len(self.lives) + 1, ready=not self.lives))
        return self.lives[-1]

    def has_said(self, part: str) -> bool:
        return any(part in line for line in self.said)

    def play(self, scene: Callable[[], Awaitable[None]]) -> None:
        async def kept() -> None:
            self.member.launch()
            await self.member.first_ready()
            keeping = asyncio.create_task(self.member.keep())
            try:
                await scene()
            finally:
                keeping.cancel()
                await asyncio.gather(keeping, return_exceptions=True)

        asyncio.run(kept())


async def until(condition: Callable[[], bool]) -> None:
    give_up_at = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < give_up_at, "not within 10 s"
        await asyncio.sleep(0.01)


def test_a_role_that_is_slow_to_come_back_is_told_as_back_all_the_same() -> None:
    kept = Kept()

    async def scene() -> None:
        kept.lives[0].code = -9
        await until(lambda: kept.has_said("worker-1 does not get ready"))
        assert kept.member.life == "starting"
        kept.lives[1].ready = True
        await until(lambda: kept.has_said("worker-1 is back (pid 2)"))
        assert kept.member.life == "ready"

    kept.play(scene)
    assert len(kept.lives) == 2


def test_a_role_that_dies_after_it_was_slow_is_started_again() -> None:
    kept = Kept()

    async def scene() -> None:
        kept.lives[0].code = -9
        await until(lambda: kept.has_said("worker-1 does not get ready"))
        kept.lives[1].code = 3
        await until(lambda: len(kept.lives) == 3)
        kept.lives[2].ready = True
        await until(lambda: kept.has_said("worker-1 is back (pid 3)"))

    kept.play(scene)
    assert kept.has_said("worker-1 ended (exit code 3)")
    assert kept.member.restart_count == 2
