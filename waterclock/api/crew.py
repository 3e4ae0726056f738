"""Whether somebody works for a job: what is said beside it when it is defined and looked at.

Read from the beats at most every ``KEPT_S``, off the event loop, and shared by all requests. It is advice: beats are
seconds old. How it fails: where the log cannot be asked nothing is warned of.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from waterclock.clock import Clock
from waterclock.model.errors import BackendDown
from waterclock.model.job import JobSpec
from waterclock.serving import Served, warning_for

from .problems import Problem

KEPT_S = 5.0


class Crew:
    """Belongs to the event loop. ``look`` reads who serves which pool."""

    def __init__(self, clock: Clock, look: Callable[[], Awaitable[dict[str, Served]]]) -> None:
        self._clock = clock
        self._look = look
        self._looking = asyncio.Lock()
        self._known: dict[str, Served] | None = None
        self._fresh_until_s = float("-inf")

    async def warnings(self, spec: JobSpec) -> list[str]:
        """What a person should know about the job's workers: [] where all is well, or nothing is known."""
        known = await self.serving()
        warning = "" if known is None else warning_for(spec, known)
        return [warning] if warning else []

    async def serving(self) -> dict[str, Served] | None:
        """Who serves which pool; None where nobody can tell."""
        if self._clock.monotonic_s() >= self._fresh_until_s:
            await self._refresh()
        return self._known

    async def _refresh(self) -> None:
        async with self._looking:
            if self._clock.monotonic_s() < self._fresh_until_s:
                return  # somebody else has just looked
            try:
                self._known = await self._look()
            except (BackendDown, Problem):
                self._known = None
            self._fresh_until_s = self._clock.monotonic_s() + KEPT_S
