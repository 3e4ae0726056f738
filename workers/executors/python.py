"""The executor of Python handlers: async ones on an event loop of its own, sync ones in threads.

What must hold: the round thread is never inside user code and never waits for it; one attempt costs no thread switch
of its own (attempts are handed over, and their ends taken back, many at a time); whatever a handler does, its attempt
ends once. Past ``allow_until`` the loop cancels its handlers by itself, so that a round thread which hangs in a broker
call does not keep effects alive that the lease no longer covers.

How it fails: a handler that blocks the event loop holds up the other async handlers (asyncio names it in debug mode);
a sync handler cannot be stopped, only forgotten. Both then show as attempts whose lease ran out.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import uvloop

from waterclock.app import Context, Handler
from waterclock.clock import Clock

from . import ending
from .port import Attempt, EndedAttempt
from .threads import Threads

_Call: TypeAlias = tuple[Handler, Attempt]

_WATCH_EVERY_S = 0.25
_NOBODY_WAITS = 1 << 60
THREADS_MAX = 1_000


class PythonExecutors:
    """Runs ``handlers``, which may grow while it runs. ``threads_max``: sync handlers at once (at most 1,000)."""

    def __init__(self, handlers: Mapping[str, Handler], clock: Clock, *, threads_max: int = 32) -> None:
        self._handlers = handlers
        self._clock = clock
        self._ended: deque[EndedAttempt] = deque()
        self._wake_at_count = _NOBODY_WAITS
        self._woken = threading.Event()
        self._allowed_until_s = float("inf")
        self._threads: Threads[_Call] = Threads(self._call, min(threads_max, THREADS_MAX))
        self._tasks: dict[Attempt, asyncio.Task[None]] = {}
        self._loop = uvloop.new_event_loop()
        self._loop_thread: threading.Thread | None = None

    def submit(self, attempts: Sequence[Attempt]) -> None:
        sync: list[_Call] = []
        on_loop: list[_Call] = []
        handlers = self._handlers
        for attempt in attempts:
            handler = handlers.get(attempt.work.handler)
            if handler is None:
                self._end(ending.unknown_handler(attempt, handlers))
            elif handler.is_async:
                on_loop.append((handler, attempt))
            else:
                sync.append((handler, attempt))
        if sync:
            self._threads.submit(sync)
        if on_loop:
            self._start_loop()
            self._loop.call_soon_threadsafe(self._start_tasks, on_loop)

    def take_ended(self) -> list[EndedAttempt]:
        self._threads.prod(self._clock.monotonic_s())
        # Others append while we take: only as many as are there now, or this would not end.
        return [self._ended.popleft() for _ in range(len(self._ended))]

    def wait(self, enough: int, timeout_s: float) -> None:
        self._threads.prod(self._clock.monotonic_s())
        self._woken.clear()
        self._wake_at_count = enough
        if len(self._ended) < enough:
            self._woken.wait(timeout_s)
        self._wake_at_count = _NOBODY_WAITS

    def allow_until(self, monotonic_s: float) -> None:
        self._allowed_until_s = monotonic_s

    def forget(self) -> None:
        self._threads.clear()
        if self._loop_thread is not None:
            self._loop.call_soon_threadsafe(self._cancel_tasks)
        self._ended.clear()

    def stop(self, grace_s: float) -> None:
        self.forget()
        self._threads.stop(grace_s / 2)
        if self._loop_thread is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._loop_thread.join(grace_s / 2)
            if self._loop_thread.is_alive():
                return  # a handler blocks the loop: the daemon thread dies with the process
        self._loop.close()

    def _end(self, ended: EndedAttempt) -> None:
        self._ended.append(ended)
        if len(self._ended) >= self._wake_at_count:
            self._woken.set()

    # -- in the threads -------------------------------------------------------------------------------------------

    def _call(self, call: _Call) -> None:
        handler, attempt = call
        try:
            value = handler.call(Context.of(attempt.work, attempt.token))
            if inspect.iscoroutine(value):
                value.close()
                raise TypeError("a handler that is not async returned a coroutine: declare it with 'async def'")
        except BaseException as error:  # noqa: BLE001 - user code: even SystemExit ends this attempt and nothing else
            self._end(ending.failed(attempt, error))
        else:
            self._end(ending.succeeded(attempt, value))

    # -- on the event loop ----------------------------------------------------------------------------------------

    def _start_loop(self) -> None:
        if self._loop_thread is None:
            self._loop_thread = threading.Thread(target=self._run_loop, name="handlers-loop", daemon=True)
            self._loop_thread.start()

    def _run_loop(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._watch()
        self._loop.run_forever()
        # Cancelled handlers get one more turn to clean up; what awaits in its clean-up is given up.
        self._cancel_tasks()
        self._loop.run_until_complete(asyncio.sleep(0))

    def _start_tasks(self, calls: Sequence[_Call]) -> None:
        create_task, tasks, serve = self._loop.create_task, self._tasks, self._serve
        for handler, attempt in calls:
            tasks[attempt] = create_task(serve(handler, attempt))

    async def _serve(self, handler: Handler, attempt: Attempt) -> None:
        try:
            value: Any = await handler.call(Context.of(attempt.work, attempt.token))
        except BaseException as error:  # noqa: BLE001 - user code: even SystemExit ends this attempt and nothing else
            # Forgotten: our own cancellation, or whatever the handler made of it.
            if self._tasks.pop(attempt, None) is not None:
                self._end(ending.failed(attempt, error))
        else:
            if self._tasks.pop(attempt, None) is not None:
                self._end(ending.succeeded(attempt, value))

    def _watch(self) -> None:
        if self._clock.monotonic_s() > self._allowed_until_s:
            self._cancel_tasks()
        self._loop.call_later(_WATCH_EVERY_S, self._watch)

    def _cancel_tasks(self) -> None:
        tasks = list(self._tasks.values())
        self._tasks.clear()
        for task in tasks:
            task.cancel()
