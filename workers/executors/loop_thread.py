"""An event loop in a thread of its own, on which attempts are served as tasks.

What must hold: attempts are handed over many at a time, so that one costs no thread switch of its own; each ends once,
whatever its coroutine does, unless it was forgotten. Past ``allow_until`` the loop cancels its tasks by itself, so that
a round thread which hangs in a broker call does not keep effects alive that the lease no longer covers. From then on
``allow_until`` refuses until they are forgotten: a worker that lived on would hold attempts that no task will ever end.

The loop goes on whatever is done on it: SystemExit in a task that user code began, and its call of ``loop.stop``, would
end it for everybody.

How it fails: a coroutine that blocks holds up the others on the same loop (asyncio names it in debug mode).
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import structlog
import uvloop

from waterclock.clock import Clock
from waterclock.model.errors import LeaseLost

from .basket import Basket
from .port import Attempt, EndedAttempt

Serve = Callable[[Attempt], Coroutine[Any, Any, None]]
"""Serves an attempt and hands its end to ``LoopThread.end``, whatever happens: in one coroutine, for each that awaits
another one costs memory and time in every attempt there is."""

_WATCH_EVERY_S = 0.25
_CLEAN_UP_SHARE = 0.8
"""Of the grace of a stop: so long have cancelled tasks; what awaits longer in its clean-up is given up."""
_THREADS_MAX = 32

logger = structlog.get_logger()


class _BlockingCalls(ThreadPoolExecutor):
    """Threads for ``asyncio.to_thread``, made as they are needed; where the machine gives no more, those do it all."""

    def _adjust_thread_count(self) -> None:
        try:
            super()._adjust_thread_count()
        except RuntimeError:  # the call is queued already: to raise would call it failed, and run it later
            if not self._threads:
                raise


class LoopThread:
    """Serves attempts by ``serve`` and puts their ends into ``basket``. The thread starts with the first attempt.

    ``threads_max``: calls that attempts hand to ``asyncio.to_thread`` at once; asyncio's own measure are the CPUs.
    ``closing`` runs on the loop at the very end: connections are closed there.
    """

    def __init__(
        self,
        name: str,
        serve: Serve,
        basket: Basket,
        clock: Clock,
        *,
        threads_max: int = _THREADS_MAX,
        closing: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._name = name
        self._serve = serve
        self._basket = basket
        self._clock = clock
        self._closing = closing
        self._allowed_until_s = float("inf")
        self._has_lapsed = False
        self._lease = threading.Lock()
        """Around these two: either the lease is prolonged first, or the tasks are cancelled."""
        self._tasks: dict[Attempt, asyncio.Task[None]] = {}
        self._loop = uvloop.new_event_loop()
        self._loop.set_default_executor(_BlockingCalls(threads_max, thread_name_prefix=f"{name}-blocking"))
        self._thread: threading.Thread | None = None
        self._stopping = False
        self._clean_up_s = 0.0
        self._has_cleaned_up = True

    def submit(self, attempts: Sequence[Attempt]) -> None:
        """Start these; returns at once."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()
        self._loop.call_soon_threadsafe(self._start_tasks, attempts)

    def allow_until(self, monotonic_s: float) -> None:
        """Past this monotonic instant every task is cancelled. Raises LeaseLost where they were already."""
        with self._lease:
            if self._has_lapsed:
                raise LeaseLost("three quarters of the lease were over, and the attempts were cancelled")
            self._allowed_until_s = monotonic_s

    def call(self, function: Callable[[Sequence[Attempt]], None], attempts: Sequence[Attempt]) -> None:
        """Call ``function`` with these on the loop, after all that was submitted before; not once it has stopped."""
        if self._thread is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(function, attempts)

    def force(self, attempts: Sequence[Attempt]) -> None:
        """Cancel these; they come back as ended."""
        self.call(self._cancel_some, attempts)

    def forget(self) -> None:
        """Cancel every task; none of them comes back as ended. The next ones stand under a lease of their own."""
        with self._lease:
            self._allowed_until_s, self._has_lapsed = float("inf"), False
        if self._thread is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._cancel_tasks)

    def stop(self, grace_s: float) -> None:
        """Cancel every task and end the thread; waits at most ``grace_s``."""
        if self._loop.is_closed():
            return
        if self._thread is not None:
            self._clean_up_s = grace_s * _CLEAN_UP_SHARE
            self._loop.call_soon_threadsafe(self._end_turns)
            self._thread.join(grace_s)
            if self._thread.is_alive():
                return  # something blocks the loop: the daemon thread dies with the process
        if self._has_cleaned_up:  # else there are handles that a close would trip over
            with contextlib.suppress(OSError):  # EBUSY: a program is not gone yet, its handles die with this process
                self._loop.close()

    # -- on the loop ----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._watch()
        while not self._stopping:
            self._turn()
        self._cancel_tasks()
        # All there are: those that were forgotten may still be at their clean-up, with a process that is not gone yet.
        if tasks := asyncio.all_tasks(self._loop):
            self._loop.run_until_complete(asyncio.wait(tasks, timeout=self._clean_up_s))
            self._loop.run_until_complete(asyncio.sleep(0))  # what they closed is gone one turn later
        self._has_cleaned_up = not asyncio.all_tasks(self._loop)
        if self._closing is not None:
            self._loop.run_until_complete(self._closing())

    def _turn(self) -> None:
        """Run until we stop it, or somebody else does: asyncio passes these two on to whoever runs the loop."""
        cause = "loop.stop() was called"
        try:
            self._loop.run_forever()
        except (SystemExit, KeyboardInterrupt) as left:
            cause = f"a task or callback raised {type(left).__name__}"
        if not self._stopping:
            logger.warning("loop_goes_on", loop=self._name, cause=cause)

    def _end_turns(self) -> None:
        self._stopping = True
        self._loop.stop()

    def _start_tasks(self, attempts: Sequence[Attempt]) -> None:
        create_task, tasks, serve = self._loop.create_task, self._tasks, self._serve
        for attempt in attempts:
            tasks[attempt] = create_task(serve(attempt), name=attempt.work.run_id)

    def end(self, ended: EndedAttempt) -> None:
        """An attempt has ended; called on the loop, by ``serve``.

        Not kept where it was forgotten: that is our own cancellation, or whatever its coroutine made of it.
        """
        if self._tasks.pop(ended.attempt, None) is not None:
            self._basket.put(ended)

    def _cancel_some(self, attempts: Sequence[Attempt]) -> None:
        for attempt in attempts:
            if task := self._tasks.get(attempt):
                # Behind its first step: a task that is cancelled before it never runs, and could not tell its end.
                self._loop.call_soon(task.cancel)

    def _watch(self) -> None:
        with self._lease:
            self._has_lapsed = self._clock.monotonic_s() > self._allowed_until_s
        if self._has_lapsed:
            self._cancel_tasks()
        self._loop.call_later(_WATCH_EVERY_S, self._watch)

    def _cancel_tasks(self) -> None:
        tasks = list(self._tasks.values())
        self._tasks.clear()
        for task in tasks:
            task.cancel()
