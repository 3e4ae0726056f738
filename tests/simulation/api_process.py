"""One process of the HTTP API in the play: the product's own routes, services, outbox and tail, turned by hand.

What is replaced is what a play cannot have: threads (calls of the store run where they are asked for) and random ids
(a command's id names the operation of its client, so that the log can be held against the client's history).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import ContextVar
from functools import cache
from typing import Any, NamedTuple

from fastapi import FastAPI

from waterclock.api.app import build_app
from waterclock.api.services import Services
from waterclock.clock import Clock, ManualClock
from waterclock.log.memory import MemoryCluster, MemoryLog
from waterclock.model.errors import BackendDown
from waterclock.settings import ApiSettings, Settings
from waterclock.store.memory import MemoryStore

from .hand_loop import HandLoop

ID_PREFIX = "api-"
_HERE: ContextVar[PlayedServices] = ContextVar("services of the process that serves")
_OP: ContextVar[str] = ContextVar("operation of the client", default="")


class Call(NamedTuple):
    """A request as a client makes it. ``op`` names the client's operation, in nothing that the API reads."""

    op: str
    method: str
    path: str
    headers: tuple[tuple[str, str], ...]
    body: bytes


Answered = Callable[[int, dict[str, str], bytes], None]
"""(status, headers, body); status 0: the connection was lost."""


class PlayedServices(Services):
    """Services without threads."""

    _count = 0

    async def call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        await asyncio.sleep(0)
        return function(*args, **kwargs)

    async def ask(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        await asyncio.sleep(0)
        return function(*args, **kwargs)

    def next_command_id(self) -> str:  # type: ignore[override]
        self._count += 1
        return f"{ID_PREFIX}{_OP.get()}/{id_of(self)}.{self._count}"


def id_of(services: PlayedServices) -> str:
    """The process's name, as its appender's client id says it."""
    return str(services.log._client.client_id)  # type: ignore[attr-defined]


class ApiProcess:
    """A core like the others: ``step``, ``drain``, ``close``; and ``serve`` for its clients. Raises BackendDown."""

    def __init__(self, log: MemoryLog, store: MemoryStore, clock: Clock, *, wait_s: float) -> None:
        self._loop = HandLoop(clock)
        self._services = PlayedServices(Settings(api=ApiSettings(wait_s=wait_s)), clock, log, store)
        self._waiting: dict[asyncio.Task[None], Answered] = {}
        self._loop.finish(self._services.start(threads=False))

    @property
    def ready(self) -> bool:
        return True

    @property
    def wake_count(self) -> int:
        """How often somebody has wanted run-events while it rested."""
        return self._services.resting._turn - 1

    @property
    def is_called(self) -> bool:
        """Whether something waits for its turn that no log tells of: a request, a time-out, a command to be sent."""
        tail = self._services.tail
        assert tail is not None
        return self._loop.is_anything_due() or self._services.outbox.depth > 0 or tail.is_called

    def serve(self, call: Call, answered: Answered) -> None:
        """A request comes in; ``answered`` is told its end, once."""
        task = self._loop.create_task(self._handle(call, answered))
        self._waiting[task] = answered
        task.add_done_callback(lambda done: self._waiting.pop(done, None))

    def step(self) -> bool:
        """Turn the loop and what stands beside it as threads."""
        busy = self._loop.turn()
        for core in (self._services.outbox.step, self._tail_step):
            try:
                busy = core(0.0) or busy
            except BackendDown:  # as ``turning.py``: it waits, and goes on
                continue
        return self._loop.turn() or busy

    def drain(self) -> bool:
        """True while requests are served."""
        self.step()
        return bool(self._waiting)

    def close(self) -> None:
        self._services.outbox.close()
        self.abandon()

    def abandon(self) -> None:
        """The process is gone: whoever waits loses the connection."""
        waiting, self._waiting = dict(self._waiting), {}
        self._loop.drop()
        for answered in waiting.values():
            answered(0, {}, b"")

    def _tail_step(self, wait_s: float) -> bool:
        tail = self._services.tail
        assert tail is not None
        return tail.step(wait_s)

    async def _handle(self, call: Call, answered: Answered) -> None:
        _HERE.set(self._services)
        _OP.set(call.op)
        status, headers, body = await _serve(call)
        if self._waiting.pop(asyncio.current_task(), None) is not None:  # type: ignore[arg-type]
            answered(status, headers, body)


async def _serve(call: Call) -> tuple[int, dict[str, str], bytes]:
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": call.method,
        "scheme": "http",
        "path": call.path,
        "raw_path": call.path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [(name.lower().encode(), text.encode()) for name, text in (("host", "127.0.0.1"), *call.headers)],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8080),
    }
    said: dict[str, Any] = {"status": 500, "headers": {}, "body": b""}

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": call.body, "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            said["status"] = message["status"]
            said["headers"] = {name.decode(): text.decode() for name, text in message["headers"]}
        else:
            said["body"] += message.get("body", b"")

    await _app()(scope, receive, send)  # type: ignore[arg-type]
    return said["status"], said["headers"], said["body"]


class _State:
    """Of the one application: its services are those of the process that serves the request."""

    @property
    def services(self) -> Services:
        return _HERE.get()


@cache
def _app() -> FastAPI:
    """Made once: routes are no state of a process, and making them costs more than a play."""
    clock = ManualClock()
    log = MemoryLog(MemoryCluster(clock))
    app = build_app(PlayedServices(Settings(), clock, log, MemoryStore(clock)), threads=False)
    app.state = _State()  # type: ignore[assignment]
    return app
