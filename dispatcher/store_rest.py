"""How long the store is left alone after it did not answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import structlog

from waterclock.clock import Clock
from waterclock.model.errors import BackendDown
from waterclock.store.rest import rest_s

from .pace import Pace
from .shard import Shard

log_ = structlog.get_logger("dispatcher")


class StoreRest:
    """Of one dispatcher. A store that is silent holds fires up: see ``store/rest.py``."""

    def __init__(self, clock: Clock, pace: Pace) -> None:
        self._clock = clock
        self._pace = pace
        self._until_s = 0.0

    @property
    def is_down(self) -> bool:
        """Whether it is left alone now."""
        return self._clock.monotonic_s() < self._until_s

    def end(self) -> None:
        """Ask it again at once: of a shard that was just taken over nothing is loaded that could fire meanwhile, and
        what did not answer may have been this very machine, which stood still."""
        self._until_s = 0.0

    @contextmanager
    def noting(self, shards: Iterable[Shard]) -> Iterator[None]:
        """Within, the store is asked: where it does not answer that is noted, and the round goes on without it."""
        asked_at_s = self._clock.monotonic_s()
        try:
            yield
        except BackendDown as down:
            self._note(down, asked_at_s, shards)

    def _note(self, down: BackendDown, asked_at_s: float, shards: Iterable[Shard]) -> None:
        """It did not answer what was asked at ``asked_at_s`` (monotonic)."""
        now_s, pace = self._clock.monotonic_s(), self._pace
        self._until_s = now_s + rest_s(now_s - asked_at_s, pace.store_retry_s, pace.store_retry_max_s)
        ends = min((shard.horizon_at for shard in shards), default=0)
        log_.warning("store away: the loaded window keeps firing", cause=str(down), window_ends_at=ends)
