"""The threads that ask the store, which all tenants share: none of them has all.

What must hold: calls for one tenant take at most three quarters of the threads at once, and of what may wait for them
a tenant that has most leaves a tenth: so a key is looked up, and a request of somebody else answered, however much and
however slow one tenant's questions are. Those of one tenant go in order. Belongs to the event loop.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar

from waterclock.model.shared_room import finds_room

from .problems import busy

CALLS_MAX = 2_000
"""Calls that wait or are under way."""

whose: ContextVar[str] = ContextVar("whose", default="")
"""For which tenant this task runs; "" where nobody's: a key is looked up, the process looks at itself."""


class Turns:
    """Who may ask now. ``threads``: how many there are."""

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._of_tenant = max(1, threads - max(1, threads // 4))
        self._count_of: Counter[str] = Counter()
        self._lanes: dict[str, asyncio.Semaphore] = {}

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait until a thread may be taken. Raises Problem (503) where too many wait."""
        tenant = whose.get()
        if not finds_room(self._count_of[tenant], self._count_of.total(), CALLS_MAX):
            raise busy(f"{self._count_of.total()} calls wait for the store")
        self._count_of[tenant] += 1
        lane = self._lanes.setdefault(tenant, asyncio.Semaphore(self._of_tenant if tenant else self._threads))
        try:
            async with lane:
                yield
        finally:
            self._count_of[tenant] -= 1
            if not self._count_of[tenant]:
                del self._count_of[tenant], self._lanes[tenant]
