"""Wires the API to the real ports and serves it: ``python -m waterclock.api``."""

from __future__ import annotations

import sys
from threading import Event

import structlog

from waterclock.clock import SystemClock
from waterclock.leaving import leave_after
from waterclock.model.errors import BackendDown, WaterclockError
from waterclock.process import open_log
from waterclock.settings import Settings, load_settings
from waterclock.store.opening import store_to_build_on
from waterclock.telemetry import announce_ready, configure_logging

from .services import Services
from .serving import Server, check_may_listen, make_server

ROLE = "api"
_RETRY_S = 1.0


def main() -> int:
    """Serve until SIGTERM or SIGINT. 0: drained; 1: a thread died; 2: it may not listen there."""
    settings = load_settings()
    log = configure_logging(ROLE, settings.instance_of(ROLE), level=settings.log_level)
    try:
        server = _built(settings)
    except WaterclockError as error:
        log.error("not started", cause=str(error))
        return 2
    where = f"{settings.api.host}:{settings.api.port}"
    log.info("serving", address=where)
    server.run()
    log.info("stopped")
    return 1 if server.has_died or not server.started else 0


def _built(settings: Settings) -> Server:
    """Waits for the backends. Raises RequestError where it may not listen, Conflict for a foreign schema."""
    log, clock = structlog.get_logger(), SystemClock()
    servers: list[Server] = []
    while True:  # ends when the backends answer, or with the process
        try:
            with store_to_build_on(settings) as store:
                settings = check_may_listen(settings, store, clock)
                services = Services(
                    settings,
                    clock,
                    open_log(settings, ROLE),
                    store,
                    on_death=lambda: servers[0].die(),  # noqa: PLW0108 - the server comes after the services
                )
        except BackendDown as down:
            log.warning("waiting for a backend", backend=down.backend, cause=str(down))
            Event().wait(_RETRY_S)
            continue
        servers.append(make_server(settings, services, announce_ready))
        return servers[0]


if __name__ == "__main__":
    leave_after(lambda: sys.exit(main()))
