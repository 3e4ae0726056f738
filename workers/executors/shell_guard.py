"""Runs one program of a job and kills everything that it started: at SIGTERM, and when the worker dies. At SIGUSR1 it
passes SIGTERM on to the program's group, which may heed it.

``python -I -S shell_guard.py <parent pid> <program> <argument>...``, in a session of its own. The program gets a
process group of its own; this process waits for it and then kills what is left of the group, before it ends as the
program ended (same exit code, same signal).

Why a process in between: Linux tells only a direct child of its parent's death (``PR_SET_PDEATHSIG``), and user code
must not run between fork and exec in a worker that has threads. Limits: what a program moves to another group or
session escapes; a cgroup around the worker catches that. If somebody kills this guard with SIGKILL, only the program
itself dies with it. Elsewhere than on Linux nothing is told of a parent's death.

Imports nothing of ours: it must start in milliseconds.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import sys

_PR_SET_PDEATHSIG = 1
_PR_SET_NO_NEW_PRIVS = 38
_CANNOT_RUN = 126
_NOT_FOUND = 127
_HEARD = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGCHLD}


def main() -> None:
    """Start the program, wait for it, clear up, end as it ended."""
    _tied_to_parent(signal.SIGTERM)
    if os.getppid() != int(sys.argv[1]):  # it died before the tie was made
        sys.exit(_CANNOT_RUN)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # Blocked from here on and taken one by one: a handler would run too late for one that comes just before a wait.
    signal.pthread_sigmask(signal.SIG_BLOCK, _HEARD)
    child = os.fork()
    if child == 0:
        _become(sys.argv[2:])
    _group(child)
    _end_as(_ended(child))


def _become(program: list[str]) -> None:
    """In the child: a group of its own, every signal as usual, no more rights than the worker has."""
    _group(0)
    _tied_to_parent(signal.SIGKILL)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores these two, and exec would pass that on
        signal.signal(number, signal.SIG_DFL)
    _close_others()
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    try:
        os.execv(program[0], program)  # noqa: S606 - the program that the worker's settings allow, without a shell
    except OSError as error:
        os.write(2, f"{program[0]}: {error.strerror}\n".encode())
        os._exit(_NOT_FOUND if isinstance(error, FileNotFoundError) else _CANNOT_RUN)


def _close_others() -> None:
    """The worker's loop passes on second copies of the three pipes: held by a daemon, they would never end."""
    numbers: list[int] = []
    with contextlib.suppress(OSError), os.scandir("/dev/fd") as entries:
        numbers = [int(entry.name) for entry in entries]
    for number in numbers:
        if number > 2:
            with contextlib.suppress(OSError):  # the one that the list was read from
                os.close(number)


def _tied_to_parent(number: signal.Signals) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number)


def _group(pid: int) -> None:
    # Done on both sides of the fork, because either may come first; the later one fails, and that is right.
    with contextlib.suppress(OSError):
        os.setpgid(pid, pid)


def _ask(group: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGTERM)


def _kill(group: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def _ended(child: int) -> int:
    """Its wait status. Not reaped before its group is killed, so that its number cannot be somebody else's."""
    while os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
        heard = signal.sigwait(_HEARD)
        if heard == signal.SIGUSR1:
            _ask(child)
        elif heard != signal.SIGCHLD:
            _kill(child)
    _kill(child)
    return os.waitpid(child, 0)[1]


def _end_as(status: int) -> None:
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        with contextlib.suppress(OSError):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
        os.kill(os.getpid(), number)
    os._exit(os.WEXITSTATUS(status))


if __name__ == "__main__":
    main()
