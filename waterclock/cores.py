"""Several cores in one role process, each on a thread of its own, told as one role.

For roles whose parts wait for different things: one must not stand still because another waits for an answer. What must
hold: each core is touched by its thread alone, so each has clients of its own; the process is ready when all are; when
one ends by an error, all end, and the error is the process's. How it fails: a core that does not come back from a call
is told of, with the place where it stands; after ``STILL_S_MAX`` it ends the process, because its client goes on
beating in the background, so that nobody else would take its partitions over. It is left behind then, as a process
that is killed leaves it.
"""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Mapping

from waterclock.clock import Clock, SystemClock
from waterclock.model.errors import LostResource
from waterclock.process import Ready, drain_and_close, turn
from waterclock.telemetry import Logger

_LOOK_S = 0.1
_JOIN_S = 12.0
STILL_S = 15.0
"""No step should take so long: every call to a backend has a bound of about ten seconds."""
STILL_S_MAX = 90.0
_FRAMES_SHOWN = 6


class Cores:
    """A role made of cores, by name. ``log`` says which one is in trouble."""

    def __init__(self, cores: Mapping[str, Ready], log: Logger, clock: Clock | None = None) -> None:
        self._log = log
        self._clock = clock or SystemClock()
        self._back_at_s = dict.fromkeys(cores, self._clock.monotonic_s())
        self._told: set[str] = set()
        self._stop = threading.Event()
        self._ended = threading.Event()
        self._ready = dict.fromkeys(cores, False)
        self._trouble: BaseException | None = None
        self._threads = [
            threading.Thread(target=self._live, args=(name, core), name=name, daemon=True)
            for name, core in cores.items()
        ]

    @property
    def ready(self) -> bool:
        """All of them are."""
        return all(self._ready.values())

    def step(self) -> bool:
        """Start them at the first call; then look whether all live. Raises what ended one of them, and LostResource
        where one has not come back for too long.
        """
        for thread in self._threads:
            if thread.ident is None:
                self._back_at_s[thread.name] = self._clock.monotonic_s()
                thread.start()
            self._look_at(thread)
        if self._ended.wait(_LOOK_S):
            self._stop.set()
            raise self._trouble or RuntimeError("a core ended without being asked to")
        return False

    def drain(self) -> bool:
        """Ask them to stop; True while one has not."""
        self._stop.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(_LOOK_S)
                return True
        return False

    def close(self) -> None:
        """Wait for those that are still at it, within a bound: each closes what is its own."""
        self._stop.set()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(_JOIN_S)

    def _look_at(self, thread: threading.Thread) -> None:
        still_s = self._clock.monotonic_s() - self._back_at_s[thread.name]
        if still_s < STILL_S or not thread.is_alive():
            self._told.discard(thread.name)
            return
        if thread.name not in self._told:
            self._told.add(thread.name)
            self._log.warning("core stands still", core=thread.name, for_s=round(still_s), where=_where(thread))
        if still_s > STILL_S_MAX:
            raise LostResource(f"{thread.name} has stood still for {still_s:.0f} s: {_where(thread)}")

    def _live(self, name: str, core: Ready) -> None:
        log = self._log.bind(core=name)

        def note_readiness() -> None:
            self._back_at_s[name] = self._clock.monotonic_s()
            self._ready[name] = core.ready

        try:
            turn(core, self._stop, log, note_readiness)
            drain_and_close(core, log)
        except BaseException as trouble:  # noqa: BLE001 - raised again where the process ends by it
            if not self._stop.is_set():
                log.error("core ended", cause=f"{type(trouble).__name__}: {trouble}")
            self._trouble = self._trouble or trouble
            self._ended.set()


def _where(thread: threading.Thread) -> str:
    """The innermost calls of a thread, the last one last."""
    frame = sys._current_frames().get(thread.ident or 0)
    shown = traceback.extract_stack(frame)[-_FRAMES_SHOWN:] if frame else []
    return " > ".join(f"{each.name} ({each.filename.rpartition('/')[2]}:{each.lineno})" for each in shown)
