"""Puts messages into dramatiq's queue."""

from __future__ import annotations

import time

from bench.peers.handler import obey
from bench.peers.with_dramatiq.tasks import noop


def enqueue(first: int, count: int) -> None:
    """To run now."""
    for index in range(first, first + count):
        noop.send(index)


def delay(first: int, count: int, at: float) -> None:
    """To run at ``at``: the delay queue, which a worker holds in its memory."""
    for index in range(first, first + count):
        noop.send_with_options(args=(index,), delay=round((at - time.time()) * 1000))


obey(enqueue, delay)
