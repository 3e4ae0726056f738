"""Threads for sync handlers: few while handlers are quick, as many as needed while they block.

Why not a thread per run: waking a thread costs more than a short handler, so thousands of short ones a second are
served by a few threads that take one after the other without sleeping in between. What must hold: nothing waits long
behind a handler that blocks. So the round thread calls ``prod`` every cycle: if tasks are waiting and fewer than
10,000 a second move, the threads are blocked and not busy, and the width doubles, up to ``threads_max``. It shrinks by
one per prod while tasks fly.

How it fails: user code cannot be stopped in a thread. ``stop`` lets the threads end by themselves (they are daemons);
what is queued is dropped. While an attempt keeps a thread it says so (``Attempt.is_in_thread``): whoever forgets it
must not give its worker slot to another one, which would wait for that thread. Where the machine gives no more threads
(a container's limit) the tasks wait for those that there are, and each prod tries again.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Generic, TypeVar

import structlog

from .port import Attempt

_Task = TypeVar("_Task", bound=tuple[object, Attempt])

_WIDTH_MIN = 4
_PROD_EVERY_S = 0.004
_FLYING_PER_S = 10_000

logger = structlog.get_logger()


class _Seat:
    """One thread: how many tasks it has served, and the bell that wakes it."""

    __slots__ = ("bell", "served_count")

    def __init__(self) -> None:
        self.bell: SimpleQueue[None] = SimpleQueue()
        self.served_count = 0


class Threads(Generic[_Task]):
    """Calls ``serve(task)`` for every task, in at most ``threads_max`` threads. ``serve`` must not raise.

    A task is whatever ``serve`` needs, and the attempt that it serves.
    """

    def __init__(self, serve: Callable[[_Task], None], threads_max: int) -> None:
        self._serve = serve
        self._threads_max = threads_max
        self._tasks: deque[_Task] = deque()
        self._seats: list[_Seat] = []
        self._threads: list[threading.Thread] = []
        self._asleep: deque[_Seat] = deque()
        self._width = min(_WIDTH_MIN, threads_max)
        self._prodded_at_s = float("-inf")
        self._served_at_prod = 0
        self._stopping = False
        self._is_short = False
        """It was said that the machine gave no more threads."""

    @property
    def thread_count(self) -> int:
        """Threads started so far."""
        return len(self._threads)

    def submit(self, tasks: Sequence[_Task]) -> None:
        """Queue these, and wake about as many threads as were of use lately."""
        self._tasks.extend(tasks)
        self._wake(len(tasks))

    def prod(self, now_s: float) -> None:
        """See to it that what is queued moves. Costs nothing while nothing is queued."""
        if not self._tasks or now_s - self._prodded_at_s < _PROD_EVERY_S:
            return
        served = sum(seat.served_count for seat in self._seats)
        flying = served - self._served_at_prod >= _FLYING_PER_S * min(now_s - self._prodded_at_s, 1.0)
        self._prodded_at_s, self._served_at_prod = now_s, served
        if flying:
            self._width = max(min(_WIDTH_MIN, self._threads_max), self._width - 1)
        else:
            self._width = min(self._threads_max, 2 * self._width)
        self._wake(len(self._tasks))

    def withdraw(self) -> list[_Task]:
        """Take back what is queued and in no thread's hands."""
        taken: list[_Task] = []
        with contextlib.suppress(IndexError):  # the threads take from the same queue
            while True:
                taken.append(self._tasks.popleft())
        return taken

    def clear(self) -> None:
        """Drop what is queued. What a thread is in the middle of, it finishes."""
        self._tasks.clear()

    def stop(self, grace_s: float) -> None:
        """Drop what is queued and let the threads end; waits at most ``grace_s`` for all of them."""
        self._stopping = True
        self.clear()
        for seat in self._seats:
            seat.bell.put(None)
        for thread in self._threads:
            thread.join(grace_s / len(self._threads))

    def _wake(self, tasks_count: int) -> None:
        """Bring the threads that are up to the width, but wake no more than there are tasks."""
        for _ in range(min(tasks_count, self._width - len(self._seats) + len(self._asleep))):
            try:
                self._asleep.pop().bell.put(None)
            except IndexError:
                if len(self._seats) < self._threads_max and not self._start_thread():
                    return

    def _start_thread(self) -> bool:
        """False: the machine gives no more now; those that there are do it all. Raises where there is none."""
        seat = _Seat()
        name = f"handlers-{len(self._seats) + 1}"
        thread = threading.Thread(target=self._sit, args=(seat,), name=name, daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            if not self._threads:
                raise
            if not self._is_short:
                logger.warning("too_few_threads", threads=len(self._threads), wanted=self._width, cause=str(error))
            self._is_short = True
            return False
        self._seats.append(seat)
        self._threads.append(thread)
        return True

    def _sit(self, seat: _Seat) -> None:
        tasks, serve = self._tasks, self._serve
        while not self._stopping:
            try:
                task = tasks.popleft()
            except IndexError:
                # Whoever queues right after this look finds us asleep and rings; if not, the next prod does.
                self._asleep.append(seat)
                seat.bell.get()
                continue
            attempt = task[1]
            attempt.is_in_thread = True
            serve(task)
            attempt.is_in_thread = False
            seat.served_count += 1
