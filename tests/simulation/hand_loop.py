"""An asyncio event loop that is turned by hand, under the play's clock: so the API's own coroutines can be played.

Must hold: no thread, no selector, no time but the clock's; callbacks run in the order in which they were asked for. A
loop may be turned inside a callback of another one: that is how an API process stands still while others go on.
"""

from __future__ import annotations

import asyncio
from asyncio import events
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from waterclock.clock import Clock

_PASSES_MAX = 200
_T = TypeVar("_T")


class _NothingToSelect:
    def select(self, _timeout: float | None) -> list[Any]:
        return []

    def close(self) -> None:
        """Holds nothing."""


class HandLoop(asyncio.BaseEventLoop):
    """Of one process of the play."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock
        self._selector = _NothingToSelect()
        self.set_exception_handler(lambda *_: None)  # tasks of a process that was killed end with it

    def __del__(self) -> None:
        """A killed process closes nothing."""

    def time(self) -> float:
        return self._clock.monotonic_s()

    def turn(self) -> bool:
        """Run what is ready, and what that makes ready; bounded. False: nothing was."""
        before = events._get_running_loop()
        events._set_running_loop(self)
        passes = 0
        try:
            while passes < _PASSES_MAX and self.is_anything_due():
                passes += 1
                self._run_once()  # type: ignore[attr-defined]
        finally:
            events._set_running_loop(before)
        return passes > 0

    def finish(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Run a coroutine that waits for nobody outside to its end. Raises what it raises."""
        task = self.create_task(work)
        self.turn()
        if not task.done():
            raise RuntimeError("it waits for something, and nobody is there to wait for")
        return task.result()

    def drop(self) -> None:
        """The process is gone: what waits here is let go of. Its own code may be what is running now."""
        for task in asyncio.all_tasks(self):
            with suppress(RuntimeError, ValueError):
                task.get_coro().close()  # type: ignore[union-attr]

    def is_anything_due(self) -> bool:
        """Whether a turn would run something."""
        scheduled = self._scheduled  # type: ignore[attr-defined]
        return bool(self._ready) or bool(scheduled and scheduled[0]._when <= self.time())  # type: ignore[attr-defined]

    def _process_events(self, _found: list[Any]) -> None:
        """There is nothing to select, so nothing comes of it."""

    def _write_to_self(self) -> None:
        """Nobody sleeps in a selector."""
