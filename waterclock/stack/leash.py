"""Runs a program that dies with the process that started it, also when that one is killed with ``kill -9``.

``python leash.py <parent pid> program arg...``: asks Linux for a SIGKILL at the parent's death (``PR_SET_PDEATHSIG``,
which survives exec), then becomes the program; the pid stays. SIGKILL and not SIGTERM: everything of ours is built
to be killed, and nothing may stay behind unsupervised. Elsewhere than on Linux it only becomes the program.

Danger: the kernel means the *thread* that started the process. Start children from a thread that lives on.
Imports nothing of ours: it must start in milliseconds.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Leash this process to its parent, then become ``sys.argv[2:]``."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != int(sys.argv[1]):  # it died before the leash was on
            sys.exit(1)
    try:
        os.execvp(sys.argv[2], sys.argv[2:])  # noqa: S606 - becoming the program is the purpose
    except OSError as error:
        sys.exit(f"{sys.argv[2]}: {error.strerror}")


if __name__ == "__main__":
    main()
