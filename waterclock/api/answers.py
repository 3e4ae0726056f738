"""Who waits for which command's answer, and the answers that came lately.

What must hold: an answer settles the one who waits for that command; a wait that was given up leaves nothing behind;
the answers kept for ``GET /operations`` are bounded, the oldest go first (the log still has them).
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import TypeAlias

from waterclock.model.events import Answered, Revised
from waterclock.model.ids import US_PER_S, Instant

RECENT_MAX = 20_000
STAMPS_MAX = 5_000
OWED_US = 600 * US_PER_S
"""An answer that outlasts its request is looked out for so long; later it is searched for in the log."""

_Place: TypeAlias = tuple[str, str]
"""(job id, command id). The job too: a sender on job-events chooses its own command ids, and could choose another's."""


class Answers:
    """Belongs to the event loop."""

    def __init__(self) -> None:
        self._waiting: dict[_Place, asyncio.Future[Answered]] = {}
        self._recent: OrderedDict[_Place, tuple[Instant, Answered]] = OrderedDict()
        self.forgotten_until: Instant = 0
        """Answers that came up to this instant may have been forgotten."""
        self._owed: OrderedDict[_Place, Instant] = OrderedDict()
        """Since when, of what has not been answered yet."""
        self._stamps: OrderedDict[tuple[str, int], Instant] = OrderedDict()

    @property
    def waiting(self) -> int:
        """How many wait."""
        return len(self._waiting)

    def expect(self, job_id: str, command_id: str, now: Instant) -> asyncio.Future[Answered]:
        """A future for the answer to this command; call it before the command is sent, and ``forget`` at the end."""
        future: asyncio.Future[Answered] = asyncio.get_running_loop().create_future()
        self._waiting[job_id, command_id] = future
        self._owed[job_id, command_id] = now
        while len(self._owed) > RECENT_MAX:
            self._owed.popitem(last=False)
        return future

    def is_owed(self, job_id: str, command_id: str) -> bool:
        """Whether this process has sent it, and has looked out in vain for its answer ever since."""
        return (job_id, command_id) in self._owed

    def are_owed(self, now: Instant) -> bool:
        """Whether anybody waits, or any answer has to be looked out for: for a while, in case somebody asks for it."""
        while self._owed and next(iter(self._owed.values())) + OWED_US < now:
            self._owed.popitem(last=False)
        return bool(self._owed or self._waiting)

    def pass_unseen(self) -> None:
        """From now on answers may have passed unseen."""
        self._owed.clear()

    def forget(self, job_id: str, command_id: str) -> None:
        """Nobody waits for it any more."""
        self._waiting.pop((job_id, command_id), None)

    def settle(self, job_id: str, answer: Answered, now: Instant) -> None:
        """An answer came."""
        self._owed.pop((job_id, answer.command_id), None)
        future = self._waiting.get((job_id, answer.command_id))
        if future is not None and not future.done():
            future.set_result(answer)
        self.keep(job_id, answer, now)

    def keep(self, job_id: str, answer: Answered, now: Instant) -> None:
        """Remember an answer, for those who ask later."""
        place = job_id, answer.command_id
        self._recent[place] = now, answer
        self._recent.move_to_end(place)
        while len(self._recent) > RECENT_MAX:
            _, (self.forgotten_until, _) = self._recent.popitem(last=False)

    def revised(self, job_id: str, revised: Revised) -> None:
        """A revision was made; it comes in the same transaction as its answer, and before it."""
        self._stamps[job_id, revised.revision] = revised.stamp_at
        while len(self._stamps) > STAMPS_MAX:
            self._stamps.popitem(last=False)

    def stamp_of(self, job_id: str, revision: int) -> Instant | None:
        """The stamp of a revision that was made lately: with it a new job is known without asking the store."""
        return self._stamps.get((job_id, revision))

    def recent(self, job_id: str, command_id: str) -> Answered | None:
        """The answer, if it came lately."""
        kept = self._recent.get((job_id, command_id))
        return kept[1] if kept else None
