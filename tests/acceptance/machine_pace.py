"""How fast the machine is at this moment: one that others share can be half as fast ten minutes later."""

from __future__ import annotations

import time

ADDITIONS = 20_000_000


def loop_s() -> float:
    """CPU seconds of a plain Python loop, on a machine that does nothing else."""
    began_s = time.process_time()
    total = 0
    for number in range(ADDITIONS):
        total += number
    return round(time.process_time() - began_s, 2)
