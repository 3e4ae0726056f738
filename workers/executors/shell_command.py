"""The executor of programs: off by default, only programs that the worker's settings name, never a shell's text.

**Whoever may create such a job owns the worker's machine as far as the worker's user does.** Run them in a pool of
their own, as a user of their own.

What must hold: ``argv`` goes to exec as it is; the environment is made from scratch (a path, the run's identity, and
nothing of ours: no settings, no secrets); the payload is the standard input. One process group per attempt, killed as a
whole at the timeout, when the attempt is stopped by force or forgotten, and when the worker dies (``shell_guard.py``);
asked to stop, the group gets SIGTERM, and then no exit code says that the work is done: a program that heeds the signal
may well end with 0, in the middle of it. Output is read on, so that the program never blocks, and only its end is kept.

How it fails: ``executor-off``, ``program-refused``, ``exit-<code>``, ``signal-<name>``, ``timed-out``,
``output-too-long``.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

from waterclock.model.errors import AttemptError
from waterclock.model.executor import ShellCommand
from waterclock.model.run_log import LogStream
from waterclock.model.time_text import format_rfc3339

from . import ending, shell_guard
from .capture import Capture, left
from .kept import fitting
from .port import Attempt, EndedAttempt
from .program_pipes import Pipes

OUTPUT_MAX_BYTES = 16 * 1024 * 1024
"""What a program may write before it is stopped. Kept is the end of it."""

_KEPT_BYTES = 8 * 1024
_CHUNK = 64 * 1024
_END_WITHIN_S = 5.0
"""How long a killed group has to be gone; then its guard is killed too."""


class ShellCommands:
    """Runs the programs of one worker. ``allow``: absolute paths, compared letter by letter.

    ``capture`` keeps their output as the attempt's log; without one only its end stands in the outcome.
    """

    def __init__(
        self,
        *,
        enabled: bool,
        allow: Sequence[str],
        working_dir: Path,
        search_path: str,
        capture: Capture | None = None,
    ) -> None:
        self._enabled = enabled
        self._allow = frozenset(allow)
        self._working_dir = working_dir
        self._search_path = search_path
        self._capture = capture
        self._running: dict[Attempt, asyncio.subprocess.Process] = {}
        self._asked: set[Attempt] = set()
        """Those of the running ones that were sent SIGTERM."""

    def ask(self, attempts: Sequence[Attempt]) -> None:
        """Pass SIGTERM on to the programs of these. On the loop that serves them."""
        for attempt in attempts:
            if (process := self._running.get(attempt)) and attempt not in self._asked:
                self._asked.add(attempt)
                _signal(process, signal.SIGUSR1)

    async def serve(self, attempt: Attempt, command: ShellCommand) -> EndedAttempt:
        """Run it, and tell how it ended. Raises AttemptError where it was asked to stop, or did not exit with 0."""
        self._check(command)
        output = _Output(*self._listeners(attempt))
        pipes = await self._pipes()
        try:
            return await self._serve(attempt, command, pipes, output)
        finally:
            pipes.close()

    async def _serve(self, attempt: Attempt, command: ShellCommand, pipes: Pipes, output: _Output) -> EndedAttempt:
        process = await self._start(attempt, command, pipes)
        self._running[attempt] = process
        if attempt.is_asked_to_stop:  # while it was started, so that nobody could pass it on
            self.ask([attempt])
        try:
            async with asyncio.timeout(command.timeout_s):
                await _follow(pipes, attempt.work.payload, output)
                code = await process.wait()
        except TimeoutError:
            raise self._stopped(f"did not end within {command.timeout_s:g} s", "timed-out", output) from None
        except _TooLong:
            raise self._stopped(f"wrote over {OUTPUT_MAX_BYTES} bytes", "output-too-long", output) from None
        finally:
            del self._running[attempt]
            was_asked = attempt in self._asked
            self._asked.discard(attempt)
            await _end(process, pipes)
            left(attempt)
        if code or was_asked:
            raise _failure(command, code, output)
        return ending.succeeded(attempt, output.result())

    def _listeners(self, attempt: Attempt) -> tuple[_Listener | None, _Listener | None]:
        if self._capture is None:
            return None, None
        follow = self._capture.follow
        return follow(attempt, LogStream.STDOUT), follow(attempt, LogStream.STDERR)

    def _check(self, command: ShellCommand) -> None:
        if not self._enabled:
            raise AttemptError(
                "this worker runs no programs: set shell.enabled there, or send the job to a pool whose workers do",
                error_class="executor-off",
            )
        program = command.argv[0]
        if program not in self._allow:
            raise AttemptError(
                f"{program[:200]!a} is not among the programs that this worker may run: add it to shell.allow there",
                error_class="program-refused",
            )
        if any("\0" in argument for argument in command.argv):
            raise AttemptError("an argument holds a zero byte", error_class="executor-refused")

    async def _pipes(self) -> Pipes:
        try:
            return await Pipes.opened(_CHUNK)
        except OSError as error:
            raise self._not_started(error) from None

    async def _start(self, attempt: Attempt, command: ShellCommand, pipes: Pipes) -> asyncio.subprocess.Process:
        guard = (sys.executable, "-I", "-S", shell_guard.__file__, str(os.getpid()))
        starting = asyncio.ensure_future(
            asyncio.create_subprocess_exec(
                *guard,
                *command.argv,
                stdin=pipes.theirs[0],
                stdout=pipes.theirs[1],
                stderr=pipes.theirs[2],
                env=self._environment(attempt),
                cwd=self._working_dir,
                start_new_session=True,
            )
        )
        starting.add_done_callback(lambda _: pipes.give_theirs_up())
        try:
            # Shielded: a start that is cancelled half-way would leave a process that nobody knows.
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            starting.add_done_callback(lambda done: None if done.exception() else _kill(done.result()))
            raise
        except OSError as error:
            raise self._not_started(error) from None

    def _not_started(self, error: OSError) -> AttemptError:
        # The system names no file: it may be the folder that is missing.
        what = f"the program could not be started in {self._working_dir} (shell.working_dir): {error}"
        return AttemptError(what, error_class="program-refused")

    def _environment(self, attempt: Attempt) -> dict[str, str]:
        work = attempt.work
        return {
            "PATH": self._search_path,
            "LANG": "C.UTF-8",
            "WATERCLOCK_RUN_ID": work.run_id,
            "WATERCLOCK_RUN_ATTEMPT": str(work.attempt),
            "WATERCLOCK_RUN_FENCE": str(attempt.token),
            "WATERCLOCK_RUN_FIRE_TIME": format_rfc3339(work.fire_at),
            **({"WATERCLOCK_RUN_BACKFILL": work.backfill} if work.backfill else {}),
            **({"WATERCLOCK_RUN_TRIGGERED_BY": work.triggered_by} if work.triggered_by else {}),
        }

    @staticmethod
    def _stopped(why: str, error_class: str, output: _Output) -> AttemptError:
        return AttemptError(f"the program {why}, and was killed", error_class=error_class, trace=output.tail())


class _TooLong(Exception):
    """The program writes without end."""


_Listener: TypeAlias = Callable[[bytes], None]


class _Tail:
    """The end of one stream. ``listener`` is told all of it."""

    def __init__(self, listener: _Listener | None) -> None:
        self.kept = b""
        self._listener = listener

    def add(self, chunk: bytes) -> None:
        if self._listener is not None:
            self._listener(chunk)
        self.kept = (self.kept + chunk)[-_KEPT_BYTES:]

    @property
    def text(self) -> str:
        return self.kept.decode("utf-8", "replace")


class _Output:
    """What a program has written so far, to both streams."""

    def __init__(self, out: _Listener | None, err: _Listener | None) -> None:
        self.out, self.err = _Tail(out), _Tail(err)
        self._left = OUTPUT_MAX_BYTES

    async def read(self, stream: asyncio.StreamReader, tail: _Tail) -> None:
        while chunk := await stream.read(_CHUNK):
            self._left -= len(chunk)
            tail.add(chunk)
            if self._left < 0:
                raise _TooLong

    def tail(self) -> str:
        return self.err.text or self.out.text

    def result(self) -> dict[str, object] | None:
        texts = {name: tail.text for name, tail in (("stdout", self.out), ("stderr", self.err)) if tail.kept}
        return fitting({}, **texts) if texts else None


async def _follow(pipes: Pipes, payload: bytes, output: _Output) -> None:
    """Give it its input and take its output, at the same time: each may wait for the other."""
    try:
        async with asyncio.TaskGroup() as streams:
            streams.create_task(_feed(pipes.stdin, payload))
            streams.create_task(output.read(pipes.stdout, output.out))
            streams.create_task(output.read(pipes.stderr, output.err))
    except ExceptionGroup as failed:
        # No ``except*``: before Python 3.11.4, and Debian 12 has 3.11.2, what is raised there comes out as a group.
        if failed.subgroup(_TooLong) is None:
            raise
        raise _TooLong from None


async def _feed(stdin: asyncio.StreamWriter, payload: bytes) -> None:
    # A program that does not read its input is within its rights. One that has ended before it was fed has closed it:
    # uvloop answers a write to that with a RuntimeError.
    if not stdin.is_closing():
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            stdin.write(payload)
            await stdin.drain()
    stdin.close()


async def _end(process: asyncio.subprocess.Process, pipes: Pipes) -> None:
    """Nothing of it runs on, and nobody of it waits for us: its pipes are read to their end."""
    _kill(process)
    pipes.stdin.close()
    try:
        async with asyncio.timeout(_END_WITHIN_S):
            await asyncio.gather(_discard(pipes.stdout), _discard(pipes.stderr))
            await process.wait()
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()


def _kill(process: asyncio.subprocess.Process) -> None:
    """Have the guard kill the whole group; it then ends by itself."""
    _signal(process, signal.SIGTERM)


def _signal(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(number)


async def _discard(stream: asyncio.StreamReader) -> None:
    while await stream.read(_CHUNK):
        pass


def _failure(command: ShellCommand, code: int, output: _Output) -> AttemptError:
    name = command.argv[0].rpartition("/")[2]
    if code < 0:
        word = signal.Signals(-code).name if -code in signal.valid_signals() else str(-code)
        return AttemptError(f"{name} was ended by {word}", error_class=f"signal-{word}", trace=output.tail())
    return AttemptError(f"{name} ended with exit code {code}", error_class=f"exit-{code}", trace=output.tail())
