"""A server of the local stack: a child process, its address, and when it is ready.

Ready means that it, and nobody else, answered its own protocol, never that a port is open. Waiting is bounded and ends
early, with the last lines of the log, when the process has died.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from .child import Child
from .jars import Distribution
from .ports import PickedPort, holder_of
from .trouble import StackTrouble, died

_LOOK_AGAIN_S = 0.05
STOP_GRACE_S = 10.0


class Server:
    """A started server. ``answers`` asks it a question of its protocol: what it said, or None (not yet).

    ``niceness``: how far it gives way to others once it is ready; a start is not to be slow.
    """

    def __init__(
        self,
        distribution: Distribution,
        child: Child,
        picked: PickedPort,
        answers: Callable[[], str | None],
        *,
        niceness: int = 0,
    ) -> None:
        self.name = distribution.name
        self.version = distribution.version
        self.picked = picked
        self._child = child
        self._answers = answers
        self._niceness = niceness

    @property
    def port(self) -> int:
        """The port for clients, on 127.0.0.1."""
        return self.picked.port

    @property
    def address(self) -> str:
        """``host:port`` for clients."""
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def log_path(self) -> Path:
        return self._child.log_path

    def exit_code(self) -> int | None:
        """None while the process runs."""
        return self._child.exit_code()

    def is_ready(self) -> bool:
        """One question, answered or not; takes at most a second or two. Raises StackTrouble if the process is dead.

        The first yes is also the moment from which the process gives way (``niceness``).
        """
        exit_code = self._child.exit_code()
        if exit_code is not None:
            raise died(self.name, exit_code, self.log_path, self._child.last_lines())
        if self._answers() is None or not self._is_ours():
            return False
        if self._niceness:
            self._child.give_way(self._niceness)
            self._niceness = 0
        return True

    def _is_ours(self) -> bool:
        """Whether our process answered: in another folder a stack may have taken the same port a moment before.

        Ours cannot bind then and ends soon; to take the other one's answer for ours would mix two stacks.
        """
        return holder_of(self.port).pid in (self.pid, 0)

    def wait_ready(self, timeout_s: float = 90.0) -> None:
        """Until it answers. Raises StackTrouble when it dies, or (after stopping it) when ``timeout_s`` is over."""
        give_up_at = time.monotonic() + timeout_s
        while not self.is_ready():
            if time.monotonic() > give_up_at:
                last = self._child.last_lines()
                self.kill()
                raise StackTrouble(
                    f"{self.name} did not answer on {self.address} within {timeout_s:.0f} s. Its last lines "
                    f"({self.log_path}):\n{last}",
                    hint="The machine may be busy: run the same command again, or look into the log file",
                )
            time.sleep(_LOOK_AGAIN_S)

    def ask_to_stop(self) -> None:
        """SIGTERM; returns at once."""
        self._child.ask_to_stop()

    def stop(self, grace_s: float = STOP_GRACE_S) -> None:
        """SIGTERM, then SIGKILL once the grace is over; only our own process. Safe to call again."""
        self._child.stop(grace_s)

    def kill(self) -> None:
        """SIGKILL: the crash test. What was acknowledged is on disk or in the page cache and survives."""
        self._child.kill()
