"""Which topics exist, for handlers that are about to emit: asked once, remembered for a minute.

What must hold: an unknown topic never gets into a round (it would block the round until its time-out, kafka.md 3.3),
and a handler on the event loop is held up for one question to the broker at most, not for one per record, nor for one
per thread that wants the same answer. A topic that was there is believed on while the broker does not answer, or while
another thread is asking.

How it fails: BackendDown, where a topic was never seen and no broker answers; the same for a second.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import NamedTuple, TypeAlias

from waterclock.clock import Clock
from waterclock.log.port import Log, TopicPartition
from waterclock.model.errors import BackendDown, NotFound

_KNOWN_S = 60.0
_MISSING_S = 1.0
_AWAY_S = 5.0
_DOWN_S = 1.0
_TOPICS_MAX = 1_000


_Down: TypeAlias = Callable[[], BackendDown]


class _Page(NamedTuple):
    """What is believed of a topic; ``down``: nothing, for no broker has answered.

    Made anew for each who is told: an error that was raised keeps alive all that the handler had at hand.
    """

    exists: bool
    until_s: float
    down: _Down | None = None


_BLANK = _Page(exists=False, until_s=float("-inf"))


class TopicBook:
    """Any thread may ask. ``open_log`` makes a Log of its own for the questions, at the first one."""

    def __init__(self, open_log: Callable[[], Log], clock: Clock) -> None:
        self._open_log = open_log
        self._clock = clock
        self._lock = threading.Lock()
        self._log: Log | None = None
        self._pages: dict[str, _Page] = {}

    def exists(self, topic: str) -> bool:
        """Whether the topic exists, as of a minute ago at most. Raises BackendDown."""
        page = self._pages.get(topic, _BLANK)
        if self._clock.monotonic_s() < page.until_s:
            return _told(page)
        if not self._lock.acquire(blocking=not page.exists):
            return page.exists
        try:
            page = self._pages.get(topic, _BLANK)  # another thread may have asked while we waited for it
            if self._clock.monotonic_s() < page.until_s:
                return _told(page)
            return self._ask(topic, exists=page.exists)
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
        except BackendDown as down:
            if exists:
                return self._note(topic, exists=True, for_s=_AWAY_S)
            cause = str(down).removeprefix(f"{down.backend}: ")
            self._note(topic, exists=False, for_s=_DOWN_S, down=partial(type(down), down.backend, cause))
            raise
        return self._note(topic, exists=True, for_s=_KNOWN_S)

    def _note(self, topic: str, *, exists: bool, for_s: float, down: _Down | None = None) -> bool:
        if len(self._pages) >= _TOPICS_MAX and topic not in self._pages:
            del self._pages[next(iter(self._pages))]
        self._pages[topic] = _Page(exists, self._clock.monotonic_s() + for_s, down)
        return exists


def _told(page: _Page) -> bool:
    if page.down is not None:
        raise page.down()
    return page.exists
