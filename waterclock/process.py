"""From settings to a running role process: the real ports, signals, and the loop that survives a backend's absence.

The one place where a role meets its real Clock and Log (the Store: ``store/opening.py``). SIGTERM and SIGINT drain; a
second one ends at once. BackendDown is waited out here, for every role alike, and said once a second at most;
LostResource and every bug end the process: the supervisor restarts it, and the log decides.
"""

from __future__ import annotations

import gc
import os
import signal
import threading
from collections.abc import Callable
from typing import Protocol

from waterclock.clock import SystemClock
from waterclock.log.kafka import KafkaLog
from waterclock.model.errors import BackendDown, RequestError
from waterclock.niceness import give_way
from waterclock.role import Role
from waterclock.settings import Settings, load_settings
from waterclock.telemetry import Logger, announce_ready, configure_logging
from waterclock.wire import compiled_folder
from waterclock.wire.names import Names

_RETRY_S = 0.5
_START_RETRY_S = 1.0
_DRAIN_S = 10.0
_GC_YOUNG = 200_000


class Ready(Role, Protocol):
    """A role that can say whether it owns its inputs."""

    @property
    def ready(self) -> bool: ...


def open_log(
    settings: Settings,
    role: str,
    *,
    session_timeout_s: float = 10.0,
    transaction_timeout_s: float = 10.0,
    patient: bool = False,
) -> KafkaLog:
    """The real Log of one process. ``patient``: for roles that nobody waits for, see KafkaLog. Raises RequestError."""
    names = Names(settings.kafka.prefix)
    log = KafkaLog(
        settings.kafka.bootstrap,
        client_id=names.client_id(role, settings.instance_of(role)),
        session_timeout_s=session_timeout_s,
        transaction_timeout_s=transaction_timeout_s,
        patient=patient,
        extra=settings.kafka.properties,
    )
    if settings.kafka.properties:
        log.check_fit()
    return log


def run_role(
    role: str,
    build: Callable[[Settings], Ready],
    settings: Settings | None = None,
    *,
    niceness: int = 0,
    drain_s: float = _DRAIN_S,
) -> None:
    """Run one role until it is told to stop: build it (waiting for its backends), step it, drain it, close it.

    ``niceness``: what waits for nobody (history) yields the processor to what fires and runs, once it is ready: who
    takes over is to be as quick as anybody. ``drain_s`` bounds the drain of a core that has no end of its own. Settings
    that cannot be, and a keyspace that is another release's, end the process with 2 and one line that says so.
    """
    log = configure_logging(role)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: _ask_to_stop(stop))
    try:
        settings = settings or load_settings()
        log = configure_logging(role, settings.instance_of(role), level=settings.log_level)
        core = _built(build, settings, stop, log)
    except RequestError as error:
        log.error("not started", cause=str(error))
        raise SystemExit(2) from None
    if core is None:
        return
    _spare_the_collector()
    log.info("started", codecs="compiled" if compiled_folder else "python")
    turn(core, stop, log, _Announcing(core, log, niceness))
    log.info("draining")
    drain_and_close(core, log, drain_s)
    log.info("stopped")


def _spare_the_collector() -> None:
    """Roles keep hundreds of thousands of small tuples and make no cycles worth looking for.

    With the default threshold (700 new containers) the collector walks the young ones thousands of times a second.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_GC_YOUNG, 20, 100)


def _ask_to_stop(stop: threading.Event) -> None:
    if stop.is_set():
        raise SystemExit(130)
    stop.set()


def _built(
    build: Callable[[Settings], Ready],
    settings: Settings,
    stop: threading.Event,
    log: Logger,
) -> Ready | None:
    while not stop.is_set():
        try:
            return build(settings)
        except BackendDown as down:
            log.warning("waiting for a backend", backend=down.backend, cause=str(down))
            stop.wait(_START_RETRY_S)
    return None


class _Announcing:
    """Tells the supervisor, once, that the core is ready; from then on it gives way as it should."""

    def __init__(self, core: Ready, log: Logger, niceness: int) -> None:
        self._core = core
        self._log = log
        self._niceness = niceness
        self._announced = False

    def __call__(self) -> None:
        if not self._announced and self._core.ready:
            announce_ready()
            self._announced = True
            self._log.info("ready")
            if self._niceness:
                give_way(os.getpid(), self._niceness)


def turn(core: Ready, stop: threading.Event, log: Logger, after_step: Callable[[], None]) -> None:
    """Step a core until it is told to stop, through every absence of a backend. Raises what ends a core."""
    while not stop.is_set():
        try:
            core.step()
        except BackendDown as down:
            log.warning("backend away", backend=down.backend, cause=str(down))
            stop.wait(_RETRY_S)
        after_step()


def drain_and_close(core: Ready, log: Logger, drain_s: float = _DRAIN_S) -> None:
    """Let a core finish, within ``drain_s``, and close it."""
    clock = SystemClock()
    deadline_s = clock.monotonic_s() + drain_s
    try:
        while core.drain() and clock.monotonic_s() < deadline_s:
            pass
    except BackendDown as down:
        log.warning("stopping without a last commit", backend=down.backend, cause=str(down))
    core.close()
