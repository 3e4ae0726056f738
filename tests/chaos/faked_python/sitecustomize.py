"""Loaded by itself, through PYTHONPATH, into every Python process that runs under libfaketime: sleeps that work there.

Python 3.11 sleeps until an instant of the monotonic clock (clock_nanosleep, TIMER_ABSTIME). libfaketime 0.9 moves that
instant by what the wall clock is off, although it was told to leave the monotonic clock alone, and after a jump the
kernel refuses it: ``OSError: Invalid argument``, in whatever thread it was. One was the scheduler of Cassandra's
driver, which ended by it, and with it every reconnection. A sleep by select has no instant.
"""

import select
import time


def _sleep(seconds: float, /) -> None:
    select.select([], [], [], seconds)


time.sleep = _sleep
