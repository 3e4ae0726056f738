"""Loaded by itself, through PYTHONPATH, into a Python process whose wall clock is to be ahead by ``CLOCK_AHEAD_S``.

For a role that is all: whatever of ours reads the wall clock does so by ``time``. Libraries in C go on with the
machine's. Used where libfaketime cannot be: its version 0.9.10 has librdkafka's waits last for as long as the clock is
ahead.
"""

import os
import time

_AHEAD_S = int(os.environ["CLOCK_AHEAD_S"])
_time, _time_ns = time.time, time.time_ns

time.time = lambda: _time() + _AHEAD_S
time.time_ns = lambda: _time_ns() + _AHEAD_S * 1_000_000_000
