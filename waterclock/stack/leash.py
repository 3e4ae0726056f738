"""Runs a program that dies with the process that started it, also when that one is killed with ``kill -9``.

``python leash.py <parent pid> [--niceness=N] program arg...``: asks Linux for a SIGKILL at the parent's death
(``PR_SET_PDEATHSIG``, which survives exec), then becomes the program; the pid stays. SIGKILL and not SIGTERM:
everything of ours is built to be killed, and nothing may stay behind unsupervised. Elsewhere than on Linux it only
becomes the program.

``--niceness``: gives way to others. The process's own niceness is not enough: Linux shares the processors out among
sessions first (autogroups), and a niceness counts only within one, so that of the session is set as well.

Danger: the kernel means the *thread* that started the process. Start children from a thread that lives on.
Imports nothing of ours: it must start in milliseconds.
"""

import ctypes
import os
import signal
import sys
from contextlib import suppress

_PR_SET_PDEATHSIG = 1
_NICENESS = "--niceness="


def main() -> None:
    """Leash this process to its parent, then become the program."""
    program = sys.argv[2:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != int(sys.argv[1]):  # it died before the leash was on
            sys.exit(1)
    if program[0].startswith(_NICENESS):
        _give_way(int(program.pop(0).removeprefix(_NICENESS)))
    try:
        os.execvp(program[0], program)  # noqa: S606 - becoming the program is the purpose
    except OSError as error:
        sys.exit(f"{program[0]}: {error.strerror}")


def _give_way(niceness: int) -> None:
    os.nice(niceness)
    if sys.platform == "linux" and os.getsid(0) == os.getpid():  # the session is ours alone
        with suppress(OSError), open("/proc/self/autogroup", "w") as autogroup:  # noqa: PTH123 - starts in milliseconds
            autogroup.write(str(niceness))


if __name__ == "__main__":
    main()
