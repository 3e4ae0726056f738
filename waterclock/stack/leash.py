"""Runs a program that dies with the process that started it, also when that one is killed with ``kill -9``.

``python leash.py <parent pid> program arg...``: asks Linux for a SIGKILL at the parent's death (``PR_SET_PDEATHSIG``,
which survives exec), then becomes the program; the pid stays. SIGKILL and not SIGTERM: everything of ours is built
to be killed, and nothing may stay behind unsupervised. Elsewhere than on Linux it only becomes the program.

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


def main() -> None:
    """Leash this process to its parent, then become ``sys.argv[2:]``."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != int(sys.argv[1]):  # it died before the leash was on
            sys.exit(1)
    with suppress(OSError):  # it has none
        terminal = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
        fcntl.ioctl(terminal, termios.TIOCNOTTY)
        os.close(terminal)
    try:
        os.execvp(sys.argv[2], sys.argv[2:])  # noqa: S606 - becoming the program is the purpose
    except OSError as error:
        sys.exit(f"{sys.argv[2]}: {error.strerror}")


if __name__ == "__main__":
    main()
