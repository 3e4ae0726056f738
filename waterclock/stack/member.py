"""One supervised process through all its lives: started, waited for, watched, started again, stopped.

What must hold: once it has been ready, a process that ends is started again, within a second at first and at most ten
seconds apart in a crash loop, until it is asked to stop. Before it was ready for the first time, three deaths are
enough: then StackTrouble with its last lines. Every wait is bounded; that for a process that was started again is told
at its bound, and goes on as long as the process lives.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from .backoff import Backoff
from .state import ProcessState
from .trouble import StackTrouble, known_cause

_LOOK_AGAIN_S = 0.05
_FIRST_TRIES = 3


class Process(Protocol):
    """What the supervisor needs of a process: a role or a server."""

    @property
    def pid(self) -> int: ...

    @property
    def log_path(self) -> Path: ...

    def exit_code(self) -> int | None:
        """None while it runs."""
        ...

    def is_ready(self) -> bool:
        """Whether it says that it works. Raises StackTrouble when it is dead."""
        ...

    def ask_to_stop(self) -> None:
        """SIGTERM; returns at once."""
        ...

    def kill(self) -> None:
        """SIGKILL, and wait."""
        ...


class Member:
    """``launch`` starts a new life. ``changed`` is called after every change; ``say`` tells a person."""

    def __init__(
        self,
        name: str,
        launch: Callable[[], Process],
        *,
        ready_within_s: float,
        say: Callable[[str], None],
        changed: Callable[[], None],
    ) -> None:
        self.name = name
        self.life = "waiting"
        self.restart_count = 0
        self.process: Process | None = None
        self._launch = launch
        self._ready_within_s = ready_within_s
        self._say = say
        self._changed = changed
        self._backoff = Backoff()
        self._born_s = 0.0

    def state(self) -> ProcessState:
        """How it is now."""
        process = self.process
        return ProcessState(
            name=self.name,
            life=self.life,
            pid=process.pid if process else 0,
            restart_count=self.restart_count,
            log_path=str(process.log_path) if process else "",
            address=getattr(process, "address", ""),
            version=getattr(process, "version", ""),
        )

    def launch(self) -> None:
        """Begin a life; call it from the main thread (``leash.py``). Raises StackTrouble."""
        self._born_s = time.monotonic()
        try:
            self.process = self._launch()
        except OSError as error:  # of the files that it writes before: the disk is full, say
            raise StackTrouble(f"{self.name} cannot be started: {error}", hint=known_cause(str(error))) from error
        self._turn("starting")

    async def first_ready(self) -> None:
        """Until it is ready for the first time. Raises StackTrouble after three deaths, or when its time is over."""
        for deaths_left in range(_FIRST_TRIES - 1, -1, -1):
            try:
                await self._until_ready()
            except StackTrouble:
                if not deaths_left or self.process is None or self.process.exit_code() is None:
                    raise
                await asyncio.sleep(self._backoff.pause_after(self._lived_s()))
                self.launch()
            else:
                return

    async def keep(self) -> None:
        """Watch it and start it again, for ever; cancel to end."""
        while True:
            await self._ended()
            pause_s = self._backoff.pause_after(self._lived_s())
            self._tell_death(pause_s)
            self._turn("restarting")
            await asyncio.sleep(pause_s)
            self.restart_count += 1
            try:
                self.launch()
            except StackTrouble as trouble:
                self._say(trouble.message)
                continue
            await self._back()

    async def stop(self, grace_s: float) -> None:
        """SIGTERM, then SIGKILL once ``grace_s`` is over."""
        process = self.process
        if process is None:
            return
        process.ask_to_stop()
        give_up_at = time.monotonic() + grace_s
        while process.exit_code() is None and time.monotonic() < give_up_at:
            await asyncio.sleep(_LOOK_AGAIN_S)
        if process.exit_code() is None:
            self._say(f"{self.name} did not stop within {grace_s:.1f} s: killed")
            process.kill()
        self._turn("stopped")

    async def _back(self) -> None:
        """Until it is ready again, or has ended. That it takes long is told, each time anew, and ends nothing."""
        process = self.process
        while process is not None and process.exit_code() is None:
            try:
                await self._until_ready()
            except StackTrouble as trouble:
                if process.exit_code() is None:
                    self._say(f"{self.name} does not get ready: {trouble.message}")
            else:
                self._say(f"{self.name} is back (pid {process.pid})")
                return

    async def _until_ready(self) -> None:
        """Asks in a thread: a server may take its time to answer."""
        process, give_up_at = self.process, time.monotonic() + self._ready_within_s
        while process is not None and not await asyncio.to_thread(process.is_ready):
            if time.monotonic() > give_up_at:
                raise StackTrouble(
                    f"{self.name} is not ready after {self._lived_s():.0f} s (pid {process.pid})",
                    hint=f"Look into its log: {process.log_path}",
                )
            await asyncio.sleep(_LOOK_AGAIN_S)
        self._turn("ready")

    async def _ended(self) -> None:
        while self.process is not None and self.process.exit_code() is None:
            await asyncio.sleep(_LOOK_AGAIN_S)

    def _lived_s(self) -> float:
        return time.monotonic() - self._born_s

    def _tell_death(self, pause_s: float) -> None:
        process = self.process
        code = process.exit_code() if process else None
        how = f"killed by signal {-code}" if code is not None and code < 0 else f"exit code {code}"
        if self._backoff.crash_loops:
            log = process.log_path if process else ""
            self._say(
                f"{self.name} is in a crash loop ({self._backoff.short_lives} short lives, {how}): "
                f"next try in {pause_s:.1f} s; its log: {log}"
            )
        else:
            self._say(f"{self.name} ended ({how}); starting it again in {pause_s:.1f} s")

    def _turn(self, life: str) -> None:
        self.life = life
        self._changed()
