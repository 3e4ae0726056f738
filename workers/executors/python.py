"""The executor of Python handlers: async ones on an event loop of its own, sync ones in threads.

What must hold: the round thread is never inside user code and never waits for it; attempts are handed over, and their
ends taken back, many at a time; whatever a handler does, its attempt ends once; no handler is called for an attempt
that was asked to stop, or whose lease ran out, while it waited for its thread or its turn; what a handler sets in its
context (context variables, decimal's precision) is seen by no other attempt in the same thread; a handler that returned
before any of its code ran (a generator, a coroutine that it did not await) has not succeeded.

How it fails: a handler that blocks the event loop holds up the other async handlers; a sync handler cannot be stopped,
only forgotten: its attempt shows as one whose lease ran out, and its worker slot stays taken until its code has ended.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from contextvars import copy_context
from types import AsyncGeneratorType, GeneratorType
from typing import Any, TypeAlias

from waterclock.app import Context, Handler
from waterclock.clock import Clock

from . import ending
from .basket import Basket
from .capture import entered, left
from .emitting import Emissions, Outlet
from .loop_thread import LoopThread
from .port import Attempt, EndedAttempt
from .threads import Threads

_Call: TypeAlias = tuple[Handler, Attempt]
_GENERATORS = (GeneratorType, AsyncGeneratorType)

THREADS_MAX = 1_000


class PythonExecutors:
    """Runs ``handlers``, which may grow while it runs. ``threads_max``: sync handlers at once (at most 1,000),
    and as many calls of async ones by ``asyncio.to_thread``.

    ``outlet`` judges what handlers emit; without one they cannot.
    """

    def __init__(
        self,
        handlers: Mapping[str, Handler],
        clock: Clock,
        *,
        threads_max: int = 32,
        basket: Basket | None = None,
        outlet: Outlet | None = None,
    ) -> None:
        self._outlet = outlet
        self._handlers = handlers
        self._clock = clock
        self._allowed_until_s = float("inf")
        self._basket = basket or Basket()
        threads_max = min(threads_max, THREADS_MAX)
        self._threads: Threads[_Call] = Threads(self._call, threads_max)
        self._loop = LoopThread("handlers-loop", self._serve, self._basket, clock, threads_max=threads_max)
        self._was_asked_of = self._was_asked  # bound once, not for each attempt

    def submit(self, attempts: Sequence[Attempt]) -> None:
        sync: list[_Call] = []
        on_loop: list[Attempt] = []
        handlers = self._handlers
        for attempt in attempts:
            handler = handlers.get(attempt.work.handler)
            if handler is None:
                self._basket.put(ending.unknown_handler(attempt, handlers))
            elif handler.is_async:
                on_loop.append(attempt)
            else:
                sync.append((handler, attempt))
        if sync:
            self._threads.submit(sync)
        if on_loop:
            self._loop.submit(on_loop)

    def take_ended(self) -> list[EndedAttempt]:
        self._threads.prod(self._clock.monotonic_s())
        return self._basket.take()

    def wait(self, enough: int, timeout_s: float) -> None:
        self._threads.prod(self._clock.monotonic_s())
        self._basket.wait(enough, timeout_s)

    def allow_until(self, monotonic_s: float) -> None:
        self._loop.allow_until(monotonic_s)
        self._allowed_until_s = monotonic_s

    def ask(self, attempts: Sequence[Attempt]) -> None:
        for attempt in attempts:
            attempt.is_asked_to_stop = True

    def force(self, attempts: Sequence[Attempt]) -> None:
        self._loop.force(attempts)

    def withdraw(self) -> list[Attempt]:
        return [attempt for _, attempt in self._threads.withdraw()]

    def forget(self) -> None:
        self._threads.clear()
        self._loop.forget()
        self._basket.clear()

    def stop(self, grace_s: float) -> None:
        self.forget()
        self._threads.stop(grace_s / 2)
        self._loop.stop(grace_s / 2)

    def _context(self, attempt: Attempt, door: _AttemptDoor) -> Context:
        timeout_us = attempt.timeout_us
        deadline_at = attempt.started_at + timeout_us if timeout_us else 0
        return Context.of(attempt.work, attempt.token, door, deadline_at=deadline_at)

    def _was_asked(self, attempt: Attempt) -> bool:
        """Also where the lease is over and the round thread hangs in a call, so that it can ask nobody."""
        return attempt.is_asked_to_stop or self._clock.monotonic_s() > self._allowed_until_s

    # -- in the threads -------------------------------------------------------------------------------------------

    def _call(self, call: _Call) -> None:
        handler, attempt = call
        try:
            ended = copy_context().run(self._end_of, handler, attempt)
        except BaseException:  # noqa: BLE001 - whatever a handler left behind: its attempt ends, and this thread goes on
            ended = ending.untold(attempt)
        self._basket.put(ended)

    def _end_of(self, handler: Handler, attempt: Attempt) -> EndedAttempt:
        if self._was_asked(attempt):
            return _not_called(attempt)
        door = _AttemptDoor(self._outlet, attempt, self._was_asked_of)
        entered(attempt)
        try:
            value = handler.call(self._context(attempt, door))
            if value is not None:
                _check_has_run(handler, value)
            return ending.succeeded(attempt, value, door.close())
        except BaseException as error:  # noqa: BLE001 - user code: even SystemExit ends this attempt and nothing else
            door.close()
            return ending.failed(attempt, error)
        finally:
            left(attempt)

    # -- on the event loop ----------------------------------------------------------------------------------------

    async def _serve(self, attempt: Attempt) -> None:
        if self._was_asked(attempt):
            self._loop.end(_not_called(attempt))
            return
        door = _AttemptDoor(self._outlet, attempt, self._was_asked_of)
        entered(attempt)
        try:
            try:
                handler = self._handlers[attempt.work.handler]
                value: Any = await handler.call(self._context(attempt, door))
                if value is not None:
                    _check_has_run(handler, value)
                ended = ending.succeeded(attempt, value, door.close())
            except BaseException as error:  # noqa: BLE001 - user code: even SystemExit ends this attempt, no more
                door.close()
                ended = ending.failed(attempt, error)
            finally:
                left(attempt)
        except BaseException:  # noqa: BLE001 - whatever a handler left behind: its attempt ends
            ended = ending.untold(attempt)
        self._loop.end(ended)


class _AttemptDoor(Emissions):
    """What stands behind the context of one attempt."""

    __slots__ = ("_attempt", "_was_asked")

    def __init__(self, outlet: Outlet | None, attempt: Attempt, was_asked: Callable[[Attempt], bool]) -> None:
        super().__init__(outlet, attempt.work)
        self._attempt = attempt
        self._was_asked = was_asked

    def is_asked(self) -> bool:
        return self._was_asked(self._attempt)


def _check_has_run(handler: Handler, value: object) -> None:
    """Raises TypeError where what came back is the handler's own code, of which nothing has run, and nobody runs it."""
    if inspect.iscoroutine(value):
        value.close()
        if handler.is_async:
            raise TypeError("the handler returned a coroutine that was never run: await it")
        raise TypeError("a handler that is not async returned a coroutine: declare it with 'async def'")
    # The value alone does not tell: a handler that did its work may return a generator, which is not kept.
    if not isinstance(value, _GENERATORS):
        return
    if inspect.isgeneratorfunction(handler.call) or inspect.isasyncgenfunction(handler.call):
        raise TypeError("the handler is a generator, whose code never ran: leave out 'yield'")


def _not_called(attempt: Attempt) -> EndedAttempt:
    return ending.not_begun(attempt, "it was to stop before its handler began")
