"""Which pools there are: those whose work topics exist. Asked at the door, so that no job waits where nobody serves.

What must hold: a record that names a pool which does not exist costs no question to the broker each time, and a pool
that was made a moment ago is found soon. So both answers are kept: no for some seconds, in bounded number (at the bound
the oldest is asked again); yes until ``forget``, which whoever writes to these topics calls after trouble, for a topic
that is gone blocks every round. How it fails: NotFound for a pool without topics; BackendDown.
"""

from __future__ import annotations

from waterclock.clock import Clock
from waterclock.log.port import Log
from waterclock.model.errors import NotFound
from waterclock.model.job import Tier

from .names import Names

ASK_AGAIN_S = 10.0
_MISSING_MAX = 1_000


class Pools:
    """Asks the log, and remembers."""

    def __init__(self, log: Log, names: Names, clock: Clock) -> None:
        self._log = log
        self._names = names
        self._clock = clock
        self._there: set[str] = set()
        self._missing: dict[str, float] = {}

    def check(self, tier: Tier, pool: str) -> None:
        """Refuse a pool without topics: NotFound, pointer ``/pool``. Raises BackendDown."""
        if not self.has(self._names.runs(tier, pool)):
            _refuse(pool)

    def remembers(self, topic: str) -> bool:
        """Whether ``has`` answers without a question to the log."""
        return topic in self._there or self._missing.get(topic, 0.0) > self._clock.monotonic_s()

    def has(self, topic: str) -> bool:
        """Whether there is this topic of a pool. Raises BackendDown."""
        if topic in self._there:
            return True
        now_s = self._clock.monotonic_s()
        if self._missing.get(topic, 0.0) > now_s:
            return False
        try:
            self._log.topic_id(topic)  # never told from memory, and also of a partition without a leader
        except NotFound:
            self._forget_some()
            self._missing[topic] = now_s + ASK_AGAIN_S
            return False
        self._missing.pop(topic, None)
        self._there.add(topic)
        return True

    def forget(self) -> None:
        """There was trouble: a pool that was there may have been taken away."""
        self._there.clear()

    def _forget_some(self) -> None:
        while len(self._missing) >= _MISSING_MAX:
            self._missing.pop(next(iter(self._missing)))


def _refuse(pool: str) -> None:
    raise NotFound(
        f"There is no pool {pool!r}: it has no topics",
        pointer="/pool",
        hint="Add it to `pools` in waterclock.toml (or WATERCLOCK_POOLS) and run `waterclock up` or `waterclock init`",
    )
