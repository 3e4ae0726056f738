"""Whether the tail reads: while somebody wants what comes, and for a moment longer.

Why: an API that nobody asks read every event of every run all the same, 4 % of the CPU of a run, and each commit woke
its fetch. What must hold: once ``follow`` has returned, whatever is appended from then on is delivered, until nobody
has wanted it for ``REST_AFTER_S``; what passed while it rested is nobody's, and nobody is told that it was seen. How it
fails: a log that does not answer is BackendDown for who wants to follow. Belongs to the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from waterclock.clock import Clock
from waterclock.model.errors import BackendDown
from waterclock.model.ids import Instant

REST_AFTER_S = 10.0
_FOLLOWS_WITHIN_S = 5.0


class Resting:
    """``turn_to`` tells the tail: 0, rest; another number, read from the end on, and say by ``began`` that you do."""

    def __init__(self, clock: Clock, turn_to: Callable[[int], None]) -> None:
        self._clock = clock
        self._turn_to = turn_to
        self._turn = 1
        self._wanted_s = clock.monotonic_s()
        self._began: asyncio.Future[None] | None = None
        """Of those who wait for the tail to begin."""
        self.needs: list[Callable[[], bool]] = []
        """Asked whether anybody wants the tail still."""
        self.followed_since: Instant | None = None
        """Since when nothing has passed unseen; None: it rests, or has not begun."""

    async def follow(self) -> None:
        """Have the tail read. Raises BackendDown."""
        self._wanted_s = self._clock.monotonic_s()
        if self.followed_since is not None:
            return
        if self._began is None:
            self._began = asyncio.get_running_loop().create_future()
            self._turn += 1
            self._turn_to(self._turn)
        try:
            async with asyncio.timeout(_FOLLOWS_WITHIN_S):
                await asyncio.shield(self._began)
        except TimeoutError:
            raise BackendDown("kafka", f"run-events cannot be read within {_FOLLOWS_WITHIN_S:g} s") from None

    def start(self) -> None:
        """The tail reads, from now on."""
        self.followed_since = self._clock.now()
        self._wanted_s = self._clock.monotonic_s()

    def miss(self) -> None:
        """Something has passed unseen up to now. Of a tail that was told to rest meanwhile it tells nothing."""
        if self.followed_since is not None:
            self.followed_since = self._clock.now()

    def began(self, turn: int, ends: Mapping[int, int], positions: dict[int, int]) -> None:
        """The tail reads from ``ends`` on, which go into ``positions`` before anybody is told."""
        if turn != self._turn or self._began is None:
            return  # it was told to rest meanwhile
        positions.update(ends)
        self.followed_since = self._clock.now()
        self._wanted_s = self._clock.monotonic_s()
        began, self._began = self._began, None
        if not began.done():
            began.set_result(None)

    def look(self) -> None:
        """Every now and then: let it rest where nobody wants it any more."""
        now_s = self._clock.monotonic_s()
        if any(need() for need in self.needs):
            self._wanted_s = now_s
        elif self.followed_since is not None and now_s - self._wanted_s >= REST_AFTER_S:
            self.followed_since = None
            self._turn_to(0)
