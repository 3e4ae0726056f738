"""The thread that makes a dispatcher's errands: calls of the store, one after the other.

What must hold: it touches nothing but the store, which more threads than one may call. How it fails: whatever a call
raises, a bug too, is raised where its answer is taken. A store that does not answer holds up the next calls, and never
a round. It lives as long as the process.
"""

from __future__ import annotations

import threading
from queue import SimpleQueue
from typing import Any

from .errands import Call, Pending


class StoreThread:
    """Makes calls beside rounds. The thread starts with the first one."""

    def __init__(self) -> None:
        self._given: SimpleQueue[_Given | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def begin(self, call: Call) -> Pending:
        """Raises nothing: what the call raises is raised by its answer."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._turn, name="store-errands", daemon=True)
            self._thread.start()
        given = _Given(call)
        self._given.put(given)
        return given

    def close(self) -> None:
        """What is given after this is not made."""
        self._given.put(None)

    def _turn(self) -> None:
        while (given := self._given.get()) is not None:  # ends when it is closed
            given.make()


class _Given:
    """A call, and its answer once it was made."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._answer: Any = None
        self._trouble: BaseException | None = None
        self._made = threading.Event()

    @property
    def is_done(self) -> bool:
        return self._made.is_set()

    def make(self) -> None:
        """In the thread."""
        try:
            self._answer = self._call()
        except BaseException as trouble:  # noqa: BLE001 - raised again in the thread that takes the answer
            self._trouble = trouble
        self._made.set()

    def result(self) -> Any:
        if self._trouble is not None:
            raise self._trouble
        return self._answer
