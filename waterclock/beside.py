"""A second core in the same process, on a thread of its own: beside history the reader of printed lines, or a check.

What must hold: the first core is the process's, and nothing that happens to the second holds it up or ends it. How the
second fails: a backend's absence and its own bugs are said and waited out, so that lines come late, say, and history
does not.
"""

from __future__ import annotations

import threading

import structlog

from waterclock.model.errors import BackendDown
from waterclock.process import Ready

_REST_S = 0.5
_AFTER_A_BUG_S = 5.0
_STOP_S = 5.0

_log = structlog.get_logger()


class Beside:
    """Steps ``first`` in the caller's thread and ``second`` in its own, which begins with the first step."""

    def __init__(self, first: Ready, second: Ready, *, name: str = "run-logs", rest_s: float = 0.0) -> None:
        """``name``: of the thread. ``rest_s``: how long it waits when the second core has nothing to do right now."""
        self._first = first
        self._second = second
        self._rest_s = rest_s
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._turn, name=name, daemon=True)
        self._began = False

    @property
    def ready(self) -> bool:
        return self._first.ready and self._second.ready

    def step(self) -> bool:
        if not self._began:
            self._began = True
            self._thread.start()
        return self._first.step()

    def drain(self) -> bool:
        self._stopping.set()
        return self._first.drain()

    def close(self) -> None:
        self._stopping.set()
        self._first.close()
        if self._began:
            self._thread.join(_STOP_S)

    # -- in the thread --------------------------------------------------------------------------------------------

    def _turn(self) -> None:
        while not self._stopping.is_set():
            try:
                if not self._second.step() and self._rest_s:
                    self._stopping.wait(self._rest_s)
            except BackendDown as down:
                _log.warning("backend away", backend=down.backend, cause=str(down))
                self._stopping.wait(_REST_S)
            except Exception:  # noqa: BLE001 - a supervising loop: this is no reason to end whoever writes history
                _log.exception("a bug holds up what runs beside a role", thread=self._thread.name)
                self._stopping.wait(_AFTER_A_BUG_S)
        self._second.drain()
        self._second.close()
