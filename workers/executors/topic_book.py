"""Which topics exist, for handlers that are about to emit: asked once, remembered for a minute.

What must hold: an unknown topic never gets into a round (it would block the round until its time-out, kafka.md 3.3),
and a handler on the event loop is held up for one question to the broker at most, not for one per record. A topic
that was there is believed on while the broker does not answer, or while another thread is asking.

How it fails: BackendDown, where a topic was never seen and no broker answers.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from waterclock.clock import Clock
from waterclock.log.port import Log, TopicPartition
from waterclock.model.errors import BackendDown, NotFound

_KNOWN_S = 60.0
_MISSING_S = 1.0
_AWAY_S = 5.0
_TOPICS_MAX = 1_000


class TopicBook:
    """Any thread may ask. ``open_log`` makes a Log of its own for the questions, at the first one."""

    def __init__(self, open_log: Callable[[], Log], clock: Clock) -> None:
        self._open_log = open_log
        self._clock = clock
        self._lock = threading.Lock()
        self._log: Log | None = None
        self._pages: dict[str, tuple[bool, float]] = {}

    def exists(self, topic: str) -> bool:
        """Whether the topic exists, as of a minute ago at most. Raises BackendDown."""
        exists, believed_until_s = self._pages.get(topic, (False, float("-inf")))
        if self._clock.monotonic_s() < believed_until_s:
            return exists
        if not self._lock.acquire(blocking=not exists):
            return exists
        try:
            return self._ask(topic, exists=exists)
        finally:
            self._lock.release()

    def close(self) -> None:
        """Give the client of the questions up."""
        with self._lock:
            log, self._log = self._log, None
            if log is not None:
                log.close()

    def _ask(self, topic: str, *, exists: bool) -> bool:
        if self._log is None:
            self._log = self._open_log()
        try:
            # The port's ``partitions`` remembers for good; a watermark is asked for each time.
            self._log.low_watermark(TopicPartition(topic, 0))
        except NotFound:
            return self._note(topic, exists=False, for_s=_MISSING_S)
        except BackendDown:
            if exists:
                return self._note(topic, exists=True, for_s=_AWAY_S)
            raise
        return self._note(topic, exists=True, for_s=_KNOWN_S)

    def _note(self, topic: str, *, exists: bool, for_s: float) -> bool:
        if len(self._pages) >= _TOPICS_MAX and topic not in self._pages:
            del self._pages[next(iter(self._pages))]
        self._pages[topic] = (exists, self._clock.monotonic_s() + for_s)
        return exists
