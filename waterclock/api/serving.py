"""From settings to a listening server: checks that it may listen there, serves, and stops in order.

What must hold: elsewhere than on loopback it does not start without a usable key; slow clients are cut off (head,
body, keep-alive and what is sent to them each have their seconds); at SIGTERM streams end first, requests are finished
within five seconds, then what waits for the log is sent. How it fails: a port that is taken, or a missing key, is told
in one line.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
from collections.abc import Callable
from types import FrameType

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from waterclock.clock import Clock
from waterclock.model.errors import RequestError
from waterclock.settings import Settings
from waterclock.store.port import Access

from . import keys
from .app import build_app
from .services import Services

HEAD_WITHIN_S = 10.0
"""A request's head must have arrived by then, counted from the connection or from the answer before."""

TAKEN_WITHIN_S = 30.0
"""Where so much waits to be sent that no more is taken, some 48 KiB of it must have gone by then: else nobody reads."""

_KEEP_ALIVE_S = 30
_FINISH_WITHIN_S = 5
_CONNECTIONS_MAX = 2_000
_HEAD_MAX = 32 * 1024
_KEYS_MAX = 10_000


def check_may_listen(settings: Settings, store: Access, clock: Clock) -> Settings:
    """The settings to serve with: elsewhere than on loopback keys are asked for. Raises RequestError without any."""
    if is_loopback(settings.api.host):
        return settings
    now = clock.now()
    if not any(keys.in_force(key, now) for key in store.keys(_KEYS_MAX)):
        raise RequestError(
            f"The API does not listen on {settings.api.host} without a key",
            pointer="/api/host",
            hint="Make one first, `waterclock key create --scopes admin`, or listen on 127.0.0.1",
        )
    return settings.model_copy(update={"api": settings.api.model_copy(update={"require_key": True})})


def is_loopback(host: str) -> bool:
    """Whether only this machine can connect to it."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class _PatientForSeconds(H11Protocol):
    """HTTP/1.1 with limits for a head that does not come and an answer that nobody takes.

    A thousand idle sockets must not keep others out; nor must two hundred streams whose clients sleep.
    """

    _deadline: asyncio.TimerHandle | None = None
    _taken_by: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)  # type: ignore[arg-type]  # asyncio's own signature
        self._expect_a_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._is_idle():
            self._expect_a_head()
        else:
            self._forget()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._taken_by = self.loop.call_later(TAKEN_WITHIN_S, self.transport.abort)

    def resume_writing(self) -> None:
        self._forget_taking()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()
        self._forget_taking()
        super().connection_lost(exc)

    def _expect_a_head(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(HEAD_WITHIN_S, self._give_up)

    def _give_up(self) -> None:
        self._deadline = None
        if self._is_idle():
            self.transport.close()

    def _is_idle(self) -> bool:
        """No request is being served."""
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is None or cycle.response_complete

    def _forget(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _forget_taking(self) -> None:
        if self._taken_by is not None:
            self._taken_by.cancel()
            self._taken_by = None


class Server(uvicorn.Server):
    """Ends streams as soon as it is asked to stop: they would otherwise hold it for ever."""

    def __init__(self, config: uvicorn.Config, services: Services, when_ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._services = services
        self._when_ready = when_ready
        self.has_died = False

    async def startup(self, sockets: list[object] | None = None) -> None:  # type: ignore[override]
        await super().startup(sockets)  # type: ignore[arg-type]
        if self.started:
            self._when_ready()

    async def shutdown(self, sockets: list[object] | None = None) -> None:  # type: ignore[override]
        self._services.watchers.close()
        await super().shutdown(sockets)  # type: ignore[arg-type]

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """A second signal ends at once; the first is not raised again, so that a drain exits with 0."""
        super().handle_exit(sig, frame)
        self._captured_signals.clear()

    def die(self) -> None:
        """A thread died of a bug: stop, and end with an error."""
        self.has_died = True
        self.should_exit = True


def make_server(settings: Settings, services: Services, when_ready: Callable[[], None]) -> Server:
    """The server, not yet running."""
    api = settings.api
    logging.getLogger("uvicorn").setLevel(logging.ERROR)  # a bad request of a stranger is no line in our log
    config = uvicorn.Config(
        build_app(services),
        host=api.host,
        port=api.port,
        http=_PatientForSeconds,
        ws="none",
        loop="uvloop",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=_FINISH_WITHIN_S,
        limit_concurrency=_CONNECTIONS_MAX,
        h11_max_incomplete_event_size=_HEAD_MAX,
        ssl_certfile=api.tls_cert,
        ssl_keyfile=api.tls_key,
    )
    return Server(config, services, when_ready)
