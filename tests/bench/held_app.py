"""A handler that is in flight until a file appears (async, asleep on one event of its process), and one that is not."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from waterclock import App, Context

app = App()

_LOOK_EVERY_S = 0.2


class Door:
    """Shut until the file is there; one task of the process looks for it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._opened: asyncio.Event | None = None
        self._watch: asyncio.Task[None] | None = None

    async def passed(self) -> None:
        if self._opened is None:
            self._opened = asyncio.Event()
            self._watch = asyncio.create_task(self._look(self._opened))
        await self._opened.wait()

    async def _look(self, opened: asyncio.Event) -> None:
        while not self._path.exists():
            await asyncio.sleep(_LOOK_EVERY_S)
        opened.set()


_door = Door(Path(os.environ.get("WATERCLOCK_BENCH_RELEASE", "/nonexistent")))


@app.handler("bench.passed")
async def passed(_: Context) -> None:
    """Ends at once."""


@app.handler("bench.held")
async def held(_: Context) -> None:
    await _door.passed()
