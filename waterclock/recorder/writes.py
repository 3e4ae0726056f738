"""Writes under way: begun in order, acknowledged in order, repeated with the same stamps until they are.

Must hold: a batch leaves only once every row of it is acknowledged, and only then is handed out what may be committed
behind it. How it fails: where the store gives no answer the queue is stuck, and stays so until the oldest batch was
written again.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import structlog

from waterclock.log.following import Position
from waterclock.log.port import Committed, Outgoing
from waterclock.model.errors import BackendDown
from waterclock.store.port import Histories, History, Writing

_WRITE_TIMEOUT_S = 20.0

_log = structlog.get_logger()


class Progress(NamedTuple):
    """What may be committed together: how far the partitions were read, and what is kept of their open runs there."""

    positions: dict[Position, Committed]
    kept: list[Outgoing]

    def then(self, later: Progress) -> Progress:
        """Both, in this order."""
        return Progress(self.positions | later.positions, self.kept + later.kept)


NO_PROGRESS = Progress({}, [])


class _Write(NamedTuple):
    """A batch under way, and what may be committed once it is acknowledged."""

    writing: Writing
    history: History
    progress: Progress


class Writes:
    """At most ``limit`` batches; the loop settles the oldest before it begins one more."""

    def __init__(self, store: Histories, limit: int) -> None:
        self._store = store
        self._limit = limit
        self._queue: deque[_Write] = deque()
        self.is_stuck = False
        self.acknowledged = NO_PROGRESS
        """Every row below it is written; the loop commits it, and says so."""

    def __bool__(self) -> bool:
        return bool(self._queue)

    @property
    def full(self) -> bool:
        """No room for one more batch."""
        return len(self._queue) >= self._limit

    def clear(self) -> None:
        """Forget all. Rows under way may still land: they are the ones that will be written again."""
        self._queue.clear()
        self.acknowledged = NO_PROGRESS
        self.is_stuck = False

    def committed(self) -> None:
        """What was acknowledged has been committed."""
        self.acknowledged = NO_PROGRESS

    def pass_by(self, progress: Progress) -> None:
        """All its rows are written, or it asked for none. In the order of the log."""
        self.acknowledged = self.acknowledged.then(progress)

    def begin(self, history: History, progress: Progress) -> None:
        """Begin to write; what goes wrong is met when the batch is settled."""
        try:
            writing = self._store.record(history)
        except BackendDown as trouble:
            writing = _Refused(trouble)
        self._queue.append(_Write(writing, history, progress))

    def settle(self) -> None:
        """Wait for the oldest write, 20 s at most; without an answer we are stuck."""
        try:
            self._queue[0].writing.wait(_WRITE_TIMEOUT_S)
        except BackendDown as trouble:
            self.is_stuck = True
            _log.warning("history is not written: the batch is kept", trouble=str(trouble))
        else:
            self.pass_by(self._queue.popleft().progress)

    def repeat(self) -> bool:
        """Write the oldest batch again, with the same stamps. True once it is acknowledged."""
        oldest = self._queue[0]
        try:
            self._store.record(oldest.history).wait(_WRITE_TIMEOUT_S)
        except BackendDown as trouble:
            _log.warning("history is still not written", trouble=str(trouble))
            return False
        self.pass_by(self._queue.popleft().progress)
        self.is_stuck = False
        _log.info("history is written again", rows=len(oldest.history.runs))
        return True


class _Refused:
    """A write that did not even begin."""

    def __init__(self, trouble: BackendDown) -> None:
        self._trouble = trouble

    def wait(self, timeout_s: float) -> None:  # noqa: ARG002 - the port's signature
        raise self._trouble
