"""Histories from a thread of their own: packing and sending a large batch takes seconds, in which the core reads on.

What must hold: batches go out one after the other, in the order in which they were given; what goes wrong is told to
whoever waits, as the store itself would. How it fails: a store that is stuck fills the queue, and then every batch is
refused until it has moved on; a batch that nobody waits for any more is not begun, because whoever gave it repeats it.

The store takes a large batch as fast as it answers, and that may be longer than anybody waits at a time. Whoever gives
the same batch again while it is under way therefore gets the one under way: sent once more behind itself it would be
late again, for ever.
"""

from __future__ import annotations

import threading
from collections import deque
from queue import Full, Queue

from waterclock.clock import Clock
from waterclock.model.errors import BackendDown, WriteUnknown
from waterclock.store.port import Histories, History, Writing


class WritingThread:
    """The port ``Histories``, over a store that this thread alone writes history with. It lives as long as the process.

    ``waiting_max``: batches that wait for the one under way.
    """

    def __init__(self, store: Histories, clock: Clock, waiting_max: int) -> None:
        self._store = store
        self._clock = clock
        self._queue: Queue[_Given] = Queue(waiting_max)
        self._given: deque[_Given] = deque(maxlen=waiting_max + 1)
        self._thread = threading.Thread(target=self._turn, name="history-writes", daemon=True)
        self._has_begun = False

    def record(self, history: History) -> Writing:
        """Raises BackendDown where too many wait."""
        for given in self._given:
            if given.history is history and given.is_under_way:
                return given
        given = _Given(history, self._clock)
        try:
            self._queue.put_nowait(given)
        except Full:
            waiting = self._queue.maxsize
            raise BackendDown("cassandra", f"record: {waiting} batches of history wait for one under way") from None
        self._given.append(given)
        if not self._has_begun:
            self._has_begun = True
            self._thread.start()
        return given

    def _turn(self) -> None:
        while True:  # ends with the process
            self._queue.get().begin(self._store)


class _Given:
    """A batch, in the queue or under way."""

    def __init__(self, history: History, clock: Clock) -> None:
        self.history: History | None = history
        self._clock = clock
        self._is_begun = False
        self._handed_over = threading.Event()
        self._is_given_up = False
        self._is_answered = False
        self._writing: Writing | None = None
        self._trouble: Exception | None = None

    @property
    def is_under_way(self) -> bool:
        """The store has it, or is taking it, and has not said yet what became of it."""
        return self._is_begun and not self._is_given_up and not self._is_answered

    def begin(self, store: Histories) -> None:
        """In the thread."""
        self._is_begun = True
        if self.history is not None and not self._is_given_up:
            try:
                self._writing = store.record(self.history)
            except Exception as trouble:  # noqa: BLE001 - a bug, too, is told to whoever waits, in the role's thread
                self._trouble = trouble
        self._handed_over.set()

    def wait(self, timeout_s: float) -> None:
        until_s = self._clock.monotonic_s() + timeout_s
        if not self._handed_over.wait(timeout_s):
            if self._is_begun:
                raise WriteUnknown("cassandra", f"record: still being sent after {timeout_s:g} s")
            self._is_given_up = True
            raise WriteUnknown("cassandra", f"record: not sent within {timeout_s:g} s")
        self._is_answered = True
        self.history = None  # a large one, which the next few batches would otherwise keep alive
        if self._trouble is not None:
            raise self._trouble
        if self._writing is None:
            raise WriteUnknown("cassandra", "record: given up before it was sent")
        self._writing.wait(max(0.0, until_s - self._clock.monotonic_s()))
