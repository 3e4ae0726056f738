"""Names to addresses, once per call or less: the answer that was checked is the one that is connected to.

What must hold: a resolver is asked in one place, with a bound on the time; what it said is kept for a few seconds (a
job that calls every second must not ask every second), the same question is asked once at a time, and no name waits
for another one's servers.

How it fails: Unreachable, class ``name-not-resolved``.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from typing import Protocol

from waterclock.clock import Clock

from .destination import Destination
from .refusals import Unreachable

_KEPT_MAX = 1_024
_ADDRESSES_MAX = 8
_ASKED_AT_ONCE_MAX = 256


class Resolver(Protocol):
    """Asks for the addresses of a name."""

    async def resolve(self, host: str, port: int) -> list[str]:
        """The addresses, the preferred one first. Raises OSError."""
        ...


class SystemResolver:
    """The machine's own: files, DNS, whatever it is set up for. Belongs to one event loop.

    Each question has a thread of its own. It cannot be called back, and the loop's pool has four threads for all: four
    names whose servers are silent would hold up every other name of the worker.
    """

    def __init__(self) -> None:
        self._asking: dict[tuple[str, int], asyncio.Future[list[str]]] = {}

    async def resolve(self, host: str, port: int) -> list[str]:
        asked = host, port
        answer = self._asking.get(asked)
        if answer is None:  # else one that was given up a while ago is still asking the same
            if len(self._asking) >= _ASKED_AT_ONCE_MAX:
                raise OSError(f"{_ASKED_AT_ONCE_MAX} other names wait for an answer of this machine's resolver")
            answer = self._begin(asked)
        return await asyncio.shield(answer)

    def _begin(self, asked: tuple[str, int]) -> asyncio.Future[list[str]]:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[list[str]] = loop.create_future()
        try:
            threading.Thread(target=self._ask, args=(loop, asked, answer), name="resolver", daemon=True).start()
        except RuntimeError as error:  # the machine gives no more threads
            raise OSError(str(error)) from None
        self._asking[asked] = answer
        return answer

    def _answered(
        self, asked: tuple[str, int], answer: asyncio.Future[list[str]], found: list[str] | Exception
    ) -> None:
        del self._asking[asked]
        if isinstance(found, Exception):
            answer.set_exception(found)
            answer.exception()  # seen, also where nobody waits for it any more
        else:
            answer.set_result(found)

    # -- in the thread --------------------------------------------------------------------------------------------

    def _ask(self, loop: asyncio.AbstractEventLoop, asked: tuple[str, int], answer: asyncio.Future[list[str]]) -> None:
        found: list[str] | Exception
        try:
            infos = socket.getaddrinfo(*asked, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
            found = list(dict.fromkeys(str(info[4][0]) for info in infos))
        except Exception as error:  # noqa: BLE001 - whatever it is, whoever waits is told
            found = error
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
            loop.call_soon_threadsafe(self._answered, asked, answer, found)


class Answers:
    """What the resolver said lately. ``keep_s``: for how long; 0: not at all. ``timeout_s`` bounds one question."""

    def __init__(self, resolver: Resolver, clock: Clock, *, keep_s: float, timeout_s: float) -> None:
        self._resolver = resolver
        self._clock = clock
        self._keep_s = keep_s
        self._timeout_s = timeout_s
        self._kept: dict[tuple[str, int], tuple[float, tuple[str, ...]]] = {}
        self._asking: dict[tuple[str, int], asyncio.Task[tuple[str, ...]]] = {}

    async def of(self, destination: Destination, within_s: float | None = None) -> tuple[str, ...]:
        """The addresses of a name, at most 8. Raises Unreachable, and TimeoutError where it takes over ``within_s``."""
        asked = destination.host, destination.port
        kept = self._kept.get(asked)
        if kept is not None and self._clock.monotonic_s() < kept[0]:
            return kept[1]
        task = self._asking.get(asked)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._ask(*asked))
            self._asking[asked] = task
            task.add_done_callback(lambda done: self._answered(asked, done))
        async with asyncio.timeout(within_s):
            # Shielded: others wait for the same answer, and one of them may be cancelled, or have less time.
            return await asyncio.shield(task)

    async def _ask(self, host: str, port: int) -> tuple[str, ...]:
        try:
            async with asyncio.timeout(self._timeout_s):
                found = await self._resolver.resolve(host, port)
        except TimeoutError:
            raise _unresolved(host, f"no answer within {self._timeout_s:g} s") from None
        except (OSError, UnicodeError) as error:
            raise _unresolved(host, str(error)) from None
        if not found:
            raise _unresolved(host, "it has no address")
        return tuple(found[:_ADDRESSES_MAX])

    def _answered(self, asked: tuple[str, int], task: asyncio.Task[tuple[str, ...]]) -> None:
        self._asking.pop(asked, None)
        if task.cancelled() or task.exception() is not None or not self._keep_s:
            return
        if len(self._kept) >= _KEPT_MAX:
            self._kept.pop(next(iter(self._kept)))
        self._kept[asked] = (self._clock.monotonic_s() + self._keep_s, task.result())


def _unresolved(host: str, why: str) -> Unreachable:
    return Unreachable(f"{host} has no address that could be found: {why}", error_class="name-not-resolved")
