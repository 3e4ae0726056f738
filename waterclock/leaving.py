"""The end of a process that has spoken to Kafka: its exit code, and not a segmentation fault.

The threads of librdkafka go on while Python takes its interpreter down, and one that calls back then calls into an
interpreter that is gone. Seen: a worker that was to end with 1 ended with SIGSEGV in ``new_threadstate``, where
a thread comes in that Python does not know. Inferred: it belonged to a client that was not closed; only an
administrator's answers come in such a thread. So the process ends when everything of Python's has ended, and before its
interpreter is taken down.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path

_INTERRUPTED = 130
_begun: list[_Ending] = []
"""The end of this process, once it is to be ours."""


def leave_after(main: Callable[[], object]) -> None:
    """Run ``main``, the whole of this process, and end with the exit code that it means; what it raises is raised.

    Call it first of all: what others register to be run at exit is run before, and Python's own threads are awaited.
    """
    _open_streams()
    ending = _Ending()
    _begun.append(ending)
    atexit.register(ending.leave)
    try:
        main()
        ending.code = 0
    except SystemExit as end:
        ending.code = _code_of(end)
        raise
    except KeyboardInterrupt:
        ending.code = _INTERRUPTED
        raise


def await_threads(within_s: float) -> None:
    """From now on Python's own threads are awaited so long and no longer: user code may hold one for hours.

    What was registered to be run at exit has its own time: it is run once the threads have ended, and does not count.
    Does nothing in a process that was not begun by ``leave_after``.
    """
    for ending in _begun:
        timer = threading.Timer(within_s, ending.leave)
        timer.daemon = True
        timer.start()
        atexit.register(timer.cancel)  # the last one registered is the first to be run


def _open_streams() -> None:
    """Let streams that were closed when we were started (``>&-``) lead nowhere: Python has None there."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 - for as long as we run


class _Ending:
    """The exit code, 1 until something better is known: an error ends the process."""

    def __init__(self) -> None:
        self.code = 1

    def leave(self) -> None:
        """The last thing that this process does."""
        logging.shutdown()
        for stream in (sys.stdout, sys.stderr):
            try:
                if stream is not None:
                    stream.flush()
            except (OSError, ValueError):  # nobody reads it any more, its disk is full, or it was closed
                self.code = self.code or 1
        os._exit(self.code)


def _code_of(end: SystemExit) -> int:
    """As Python reads it: nothing is 0, a number is itself, and a text (which it prints) is 1."""
    if end.code is None:
        return 0
    return end.code & 0xFF if isinstance(end.code, int) else 1
