"""Closing a Kafka client without waiting for a broker that may never answer.

``Producer.close()`` aborts an open transaction and flushes, both without a time limit, and even dropping the last
reference to an open client destroys it, which can block. So a daemon thread closes it. Must hold: at most
``CLOSING_MAX`` such threads; beyond that (only while no broker answers) the client is kept unclosed until a thread is
free, and says so: memory is the price, the loop never waits.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable

CLOSING_MAX = 8

_logger = logging.getLogger("waterclock.kafka")
_waiting: deque[Callable[[], object]] = deque()
_lock = threading.Lock()
_threads_count = 0


def close_in_background(close: Callable[[], object], what: str, *, wait_s: float = 0.0) -> None:
    """Run ``close`` in a daemon thread; wait for it at most ``wait_s``."""
    global _threads_count  # noqa: PLW0603 - one count for the process is the point
    closed = threading.Event()

    def run() -> None:
        try:
            close()
        finally:
            closed.set()

    with _lock:
        _waiting.append(run)
        if _threads_count == CLOSING_MAX:
            _logger.warning("%s: %d clients are still closing, this one waits for them", what, CLOSING_MAX)
            return
        _threads_count += 1
    threading.Thread(target=_work, name=f"close {what}", daemon=True).start()
    if wait_s and not closed.wait(wait_s):
        _logger.warning("%s: still closing after %.1f s, left to its thread", what, wait_s)


def _work() -> None:
    global _threads_count  # noqa: PLW0603 - as above
    while True:
        with _lock:
            if not _waiting:
                _threads_count -= 1
                return
            run = _waiting.popleft()
        try:
            run()
        except Exception:  # it could not even close: given up; the thread serves the next one
            _logger.warning("a Kafka client did not close cleanly", exc_info=True)
