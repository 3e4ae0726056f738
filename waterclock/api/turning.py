"""A thread that turns one core: steps until it is told to stop, waits out a backend's absence, dies of a bug.

What must hold: ``moved_s`` tells when the last step ended, so that a stuck thread shows in /healthz; a bug ends the
process (``on_death``), because a half-dead API looks alive. Stopping is bounded: a step ends within its own bounds.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import structlog

from waterclock.clock import Clock
from waterclock.model.errors import BackendDown

_PAUSE_S = 0.5
_log = structlog.get_logger()


class Turning:
    """Turns ``step`` in a thread of its own; ``close`` is called by that thread at its end."""

    def __init__(
        self,
        name: str,
        step: Callable[[], object],
        clock: Clock,
        *,
        close: Callable[[], None],
        on_death: Callable[[], None],
    ) -> None:
        self.name = name
        self._step = step
        self._clock = clock
        self._close = close
        self._on_death = on_death
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._turn, name=name, daemon=True)
        self.moved_s = clock.monotonic_s()

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self, within_s: float) -> None:
        """Ask it to end, and wait; what does not end is left behind as a daemon."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(within_s)

    def _turn(self) -> None:
        try:
            while not self._stop.is_set():
                try:
                    self._step()
                except BackendDown as down:
                    _log.warning("backend away", thread=self.name, backend=down.backend, cause=str(down))
                    self._stop.wait(_PAUSE_S)
                self.moved_s = self._clock.monotonic_s()
            self._close()
        except BaseException:  # noqa: BLE001 - a supervising loop: it says so, and ends the process
            _log.exception("a bug ended this thread, and ends the process", thread=self.name)
            self._on_death()
