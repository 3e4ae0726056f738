"""One child process: its log file, its end, and nothing left behind.

Must hold: a child ends with us, however we end (``leash.py``); stopping touches our own pid alone, first with SIGTERM
and, when the grace is over, with SIGKILL. Fails with StackTrouble when the program cannot be started.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from waterclock.niceness import give_way

from .trouble import StackTrouble

_LEASH = Path(__file__).with_name("leash.py")
_TAIL_BYTES = 64 * 1024


class Child:
    """A started program. Its standard output and error go to ``log_path``, after what is there.

    ``own_session``: whether it begins a session of its own. Linux shares full processors out among sessions first
    (autogroups): roles with one each would leave the broker, for which all of them wait, a tenth.
    ``timer_slack_ns``: how late its threads may wake from a sleep, see ``leash.py``; 0: as late as ours.
    """

    def __init__(
        self,
        name: str,
        argv: Sequence[str],
        log_path: Path,
        env: Mapping[str, str] | None = None,
        *,
        own_session: bool = True,
        timer_slack_ns: int = 0,
    ) -> None:
        self.name = name
        self.log_path = log_path
        self._own_session = own_session
        log_path.parent.mkdir(parents=True, exist_ok=True)
        slack = ["--timer-slack", str(timer_slack_ns)] if timer_slack_ns else []
        leashed = [sys.executable, "-I", "-S", str(_LEASH), str(os.getpid()), *slack, *argv]
        try:
            with log_path.open("ab") as log:
                self._log_start = log.tell()
                self._process = subprocess.Popen(  # noqa: S603 - the caller made up every word of it
                    leashed,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    env=None if env is None else dict(env),
                    # Either way Ctrl-C in the terminal is for us alone; we stop children in our order.
                    start_new_session=own_session,
                    process_group=None if own_session else 0,
                )
        except OSError as error:
            raise StackTrouble(f"Cannot start {name}: {error}", hint=f"Look at {argv[0]} and {log_path}") from error

    @property
    def pid(self) -> int:
        """Process id, the same from the first moment to the last."""
        return self._process.pid

    def exit_code(self) -> int | None:
        """None while it runs; minus the signal's number when a signal ended it."""
        return self._process.poll()

    def ask_to_stop(self) -> None:
        """SIGTERM; returns at once."""
        if self.exit_code() is None:
            self._process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        if self.exit_code() is None:
            self._process.kill()
            self._process.wait()

    def stop(self, grace_s: float) -> int:
        """SIGTERM, then SIGKILL once ``grace_s`` is over. Returns the exit code; safe to call again."""
        self.ask_to_stop()
        try:
            self._process.wait(timeout=grace_s)
        except subprocess.TimeoutExpired:
            self.kill()
        return self._process.wait()

    def give_way(self, niceness: int) -> None:
        """Let others have the processors first, from now on; where that cannot be had, nothing happens.

        The niceness of its threads is not enough: Linux shares the processors out among sessions first (autogroups),
        and theirs counts only within their own, so that of the session is set as well.
        """
        give_way(self.pid, niceness)
        if self._own_session:  # else it would be ours too
            with suppress(OSError):
                Path(f"/proc/{self.pid}/autogroup").write_text(str(niceness))

    def last_lines(self, count: int = 20) -> str:
        """The end of what it wrote since it was started, at most ``count`` lines."""
        with self.log_path.open("rb") as log:
            size = log.seek(0, os.SEEK_END)
            log.seek(max(self._log_start, size - _TAIL_BYTES))
            text = log.read().decode(errors="replace")
        return "\n".join(text.splitlines()[-count:])
