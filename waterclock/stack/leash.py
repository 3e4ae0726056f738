"""Runs a program that dies with the process that started it, also when that one is killed with ``kill -9``.

``python leash.py <parent pid> [--timer-slack NS] program arg...``: asks Linux for a SIGKILL at the parent's death
(``PR_SET_PDEATHSIG``, which survives exec), then becomes the program; the pid stays. SIGKILL and not SIGTERM: all that
is ours is built to be killed, and nothing may stay behind unsupervised. Elsewhere than on Linux it only becomes the
program.

The timer slack is how late the kernel may wake its threads that wait for an instant (``PR_SET_TIMERSLACK``, which
survives exec and is handed on to threads), 50,000 ns mostly. Who waits for somebody else is woken as soon as ever.

It gives its terminal up first, where it has one: whoever asks that something from behind (a handler that starts ssh,
and ssh wants a password) would be stopped by the kernel for good, with all of its process group.

Danger: the kernel means the *thread* that started the process. Start children from a thread that lives on.
Imports nothing of ours: it must start in milliseconds.
"""

import ctypes
import fcntl
import os
import signal
import sys
import termios
from contextlib import suppress

_PR_SET_PDEATHSIG = 1
_PR_SET_TIMERSLACK = 29


def main() -> None:
    """Leash this process to its parent, then become the program."""
    parent, program = int(sys.argv[1]), sys.argv[2:]
    slack_ns = 0
    if program[0] == "--timer-slack":
        slack_ns, program = int(program[1]), program[2:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it died before the leash was on
            sys.exit(1)
        if slack_ns:
            ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, ctypes.c_ulong(slack_ns))
    with suppress(OSError):  # it has none
        terminal = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
        fcntl.ioctl(terminal, termios.TIOCNOTTY)
        os.close(terminal)
    try:
        os.execvp(program[0], program)  # noqa: S606 - becoming the program is the purpose
    except OSError as error:
        sys.exit(f"{program[0]}: {error.strerror}")


if __name__ == "__main__":
    main()
