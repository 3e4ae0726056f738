"""What a Python peer's own processes need: the sink named by the environment, and the orders of the harness.

Runs in the venvs of the peers: nothing but the standard library.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from bench.peers.stamps import Sink

SERVER = os.environ["PEER_SERVER"]
"""Address of the peer's server, in the form that its driver wants."""

stamp = Sink(Path(os.environ["PEER_SINK"])).stamp

Enqueue = Callable[[int, int], None]
"""(first, count): put the tasks into the queue, to run now."""
Delay = Callable[[int, int, float], None]
"""(first, count, at): put them in, to run at that instant (seconds since the epoch)."""


def obey(enqueue: Enqueue, delay: Delay | None = None) -> None:
    """Carry out orders from standard input until it ends; each is answered with when it began and was done."""
    print("ready", flush=True)
    for line in sys.stdin:
        order, *numbers = line.split()
        began = time.time()
        if order == "now":
            enqueue(int(numbers[0]), int(numbers[1]))
        elif order == "at" and delay is not None:
            delay(int(numbers[0]), int(numbers[1]), float(numbers[2]))
        else:
            raise SystemExit(f"{line!r} is no order that this peer knows")
        print(f"done {began!r} {time.time()!r}", flush=True)
