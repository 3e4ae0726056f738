"""The demo's stack: ``waterclock up`` as a child, its words passed on, stopped when the demo ends.

A process of its own, so that drawing and reading never hold up the supervisor; on the leash, so that it cannot outlive
the demo. Fails with StackTrouble when it cannot start, and with Conflict where a stack runs in this folder already.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from waterclock.model.errors import Conflict

from .child import Child
from .state import StackState, read_state, sole_owner
from .trouble import StackTrouble

APP = "waterclock.stack.demo_app:app"

_LOOK_AGAIN_S = 0.05
_READY_WITHIN_S = 240.0
_STOP_GRACE_S = 20.0


class DemoStack:
    """Starts at once. ``tell`` gets every line that the supervisor says, also later, at each ``listen``.

    ``options``: more of those of ``waterclock up``.
    """

    def __init__(self, data_dir: Path, tell: Callable[[str], None], options: Sequence[str] = ()) -> None:
        state = read_state(data_dir)
        if state is not None and state.alive:
            raise Conflict(
                f"A stack runs in {data_dir} already (pid {state.pid})", hint="`waterclock down` stops it; then again"
            )
        self._data_dir = data_dir
        self._tell = tell
        log_path = data_dir / "logs" / "supervisor.log"
        with sole_owner(data_dir):  # raises where the folder cannot be used
            log_path.unlink(missing_ok=True)
        command = [sys.executable, "-m", "waterclock.cli", "up", "--quick", "--app", APP, *options]
        self._supervisor = Child("supervisor", command, log_path)
        self._log = log_path.open(encoding="utf-8", errors="replace")
        self._part = ""

    def listen(self) -> None:
        """Pass on what the supervisor has said since."""
        *lines, self._part = (self._part + self._log.read()).split("\n")
        for line in lines:
            self._tell(line)

    def wait_ready(self) -> StackState:
        """Until everything runs. Raises StackTrouble: the supervisor ended, or it takes too long."""
        give_up_at = time.monotonic() + _READY_WITHIN_S
        while True:
            self.listen()
            state = read_state(self._data_dir)
            if state is not None and state.pid == self._supervisor.pid and state.phase == "ready":
                return state
            self.check()
            if time.monotonic() > give_up_at:
                raise StackTrouble(
                    f"Not everything is ready after {_READY_WITHIN_S:.0f} s", hint=f"Look into {self._data_dir}/logs"
                )
            time.sleep(_LOOK_AGAIN_S)

    def check(self) -> None:
        """Raises StackTrouble when the supervisor has ended: what it said says why."""
        code = self._supervisor.exit_code()
        if code is not None:
            self.listen()
            raise StackTrouble(f"The stack ended (exit code {code})", hint="Its last words above say why")

    def stop(self) -> None:
        """Drain and stop everything; safe to call again."""
        self._supervisor.ask_to_stop()
        give_up_at = time.monotonic() + _STOP_GRACE_S
        while self._supervisor.exit_code() is None and time.monotonic() < give_up_at:
            self.listen()
            time.sleep(_LOOK_AGAIN_S)
        self._supervisor.kill()
        self.listen()
        self._log.close()
