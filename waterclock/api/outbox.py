"""Commands on their way into the log: a bounded queue, and one thread that appends and waits for acks=all.

Why a thread: the client's calls block, and an appender belongs to one thread. What must hold: a future is resolved
only when every in-sync replica has the record (or with BackendDown when that is not known); the queue is bounded, and
a full one refuses at once instead of letting requests pile up. Batches form by themselves: what arrived while the last
flush waited goes out together, and a first one is given a few milliseconds of company, because every record that goes
out alone costs the broker, and each of its readers, a request.

How it fails: BackendDown from ``append`` or ``flush``: each record of the batch that was not acknowledged may be in the
log or not; its future says so.
"""

from __future__ import annotations

import asyncio
import queue
import time
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from waterclock.log.port import Appender, Outgoing, Ticket
from waterclock.model.errors import BackendDown, RequestError

from .problems import busy

_BATCH = 500
_IDLE_S = 0.25
_COMPANY_S = 0.004
LINGER_S = 0.05
"""For the appender: what is appended in a row leaves in one request. The flush that follows ends the wait."""

_FLUSH_S = 10.0


class Place(NamedTuple):
    """Where a command landed."""

    partition: int
    offset: int


_Letter: TypeAlias = tuple[Outgoing, "asyncio.Future[Place]"]
_Sent: TypeAlias = tuple["asyncio.Future[Place]", Ticket]


class Outbox:
    """``put`` belongs to the event loop, ``step`` to one thread."""

    def __init__(self, appender: Appender, room: int) -> None:
        self._appender = appender
        self._waiting: queue.Queue[_Letter] = queue.Queue(room)

    @property
    def depth(self) -> int:
        """How many commands wait."""
        return self._waiting.qsize()

    def put(self, message: Outgoing) -> asyncio.Future[Place]:
        """Queue a record. Raises Problem (503) at once where the queue is full."""
        future: asyncio.Future[Place] = asyncio.get_running_loop().create_future()
        try:
            self._waiting.put_nowait((message, future))
        except queue.Full:
            raise busy(f"{self._waiting.maxsize} commands wait for the log") from None
        return future

    def put_all(self, messages: Sequence[Outgoing]) -> list[asyncio.Future[Place]]:
        """Queue records, all or none. Raises Problem (503) at once where the queue has no room for all."""
        if len(messages) > self._waiting.maxsize - self._waiting.qsize():  # nobody else puts meanwhile
            raise busy(f"{self._waiting.qsize()} commands wait for the log")
        return [self.put(message) for message in messages]

    def step(self, idle_s: float = _IDLE_S) -> bool:
        """Send what waits. False: nothing did."""
        try:
            letters = [self._waiting.get(timeout=idle_s) if idle_s else self._waiting.get_nowait()]
        except queue.Empty:
            return False
        give_up_at_s = time.monotonic() + (_COMPANY_S if idle_s else 0.0)
        while len(letters) < _BATCH:
            left_s = give_up_at_s - time.monotonic()
            try:
                letters.append(self._waiting.get(timeout=left_s) if left_s > 0 else self._waiting.get_nowait())
            except queue.Empty:
                break
        self._send(letters)
        return True

    def close(self) -> None:
        """Send what waits still, once, and give the appender up."""
        while self.step(0.0):  # ends: the listener is closed, nobody puts any more
            pass
        self._appender.close()

    def _send(self, letters: list[_Letter]) -> None:
        sent: list[_Sent] = []
        trouble: BackendDown | None = None
        for message, future in letters:
            try:
                sent.append((future, self._appender.append(message)))
            except RequestError as refused:
                _resolve([(future, refused)])
            except BackendDown as down:
                trouble = down
                _resolve([(future, down)])
        try:
            self._appender.flush(_FLUSH_S)
        except BackendDown as down:
            trouble = down
        _resolve([(future, _outcome(ticket, trouble)) for future, ticket in sent])


def _outcome(ticket: Ticket, trouble: BackendDown | None) -> Place | BackendDown:
    if ticket.offset is not None:
        return Place(ticket.partition, ticket.offset)
    return trouble or BackendDown("kafka", "a command was not acknowledged")


def _resolve(results: list[tuple[asyncio.Future[Place], Place | BackendDown | RequestError]]) -> None:
    """Hand results to their loops, in one call for each."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Place], object]]] = {}
    for future, result in results:
        by_loop.setdefault(future.get_loop(), []).append((future, result))
    for loop, mine in by_loop.items():
        if not loop.is_closed():
            loop.call_soon_threadsafe(_settle, mine)


def _settle(results: list[tuple[asyncio.Future[Place], object]]) -> None:
    for future, result in results:
        if future.done():
            continue  # nobody waits any more
        if isinstance(result, Exception):
            future.set_exception(result)
        else:
            assert isinstance(result, Place)
            future.set_result(result)
