"""What an API process does few of at once, and all tenants share: asking the store, reading calendar files.

What must hold: one tenant has at most three quarters of it at once, and of what may wait a tenant that has most leaves
a tenth: so a key is looked up, and a request of somebody else answered, however much and however slow one tenant's are.
Where there is one place, of each tenant one waits for it. Those of one tenant go in order. Belongs to the event loop.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from contextvars import ContextVar

from waterclock.model.shared_room import finds_room

from .problems import busy

CALLS_MAX = 2_000
"""Calls that wait or are under way."""

whose: ContextVar[str] = ContextVar("whose", default="")
"""For which tenant this task runs; "" where nobody's: a key is looked up, the process looks at itself."""


class Turns:
    """Whose turn it is. ``places``: how many go on at once."""

    def __init__(self, places: int) -> None:
        self._places = places
        self._of_tenant = max(1, places - max(1, places // 4))
        self._going_on = asyncio.Semaphore(places)
        self._count_of: Counter[str] = Counter()
        self._lanes: dict[str, asyncio.Semaphore] = {}

    @asynccontextmanager
    async def turn(self, within_s: float | None = None, *, waits_for: str = "") -> AsyncIterator[None]:
        """Wait for a place. Raises Problem (503) where too many wait, or, with the words ``waits_for``, where there is
        none ``within_s``."""
        tenant = whose.get()
        if not finds_room(self._count_of[tenant], self._count_of.total(), CALLS_MAX):
            raise busy(f"{self._count_of.total()} calls wait")
        self._count_of[tenant] += 1
        lane = self._lanes.setdefault(tenant, asyncio.Semaphore(self._of_tenant if tenant else self._places))
        try:
            async with AsyncExitStack() as place:
                try:
                    async with asyncio.timeout(within_s):
                        await place.enter_async_context(lane)
                        await place.enter_async_context(self._going_on)
                except TimeoutError:
                    raise busy(waits_for) from None
                yield
        finally:
            self._count_of[tenant] -= 1
            if not self._count_of[tenant]:
                del self._count_of[tenant], self._lanes[tenant]
