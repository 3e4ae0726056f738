"""Those who watch run events as they happen, each behind a bounded queue.

What must hold: a watcher sees only its tenant's events, in the order of each partition; one who does not keep up is
told so and dropped, and never slows the others or fills the memory. Belongs to the event loop.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping

from waterclock.model.events import EventKind
from waterclock.model.ids import tenant_of_job

from .problems import busy
from .tail import Seen, SeenBatch

QUEUE_MAX = 2_000
"""Events that may wait for one watcher."""


class Watcher:
    """One who watches. ``lost``: it did not keep up, nothing more comes. ``positions``: where it began."""

    def __init__(self, tenant: str, job_id: str, positions: dict[int, int], key: str = "") -> None:
        self.key = key
        self.about = job_id or _tenant_part(tenant)
        """Whose events it sees: a job's, or those of all jobs whose ids begin so."""
        self._waiting: deque[Seen] = deque()
        self._news = asyncio.Event()
        self.positions = positions
        self.lost = False
        self.closed = False

    def offer(self, seen: Seen) -> None:
        """One more event; kept if it is for this watcher."""
        if self.lost or not self.wants(seen):
            return
        if len(self._waiting) >= QUEUE_MAX:
            self.lose()
        else:
            self._waiting.append(seen)
        self._news.set()

    def lose(self) -> None:
        """Something is missing here: nothing more comes."""
        self.lost = True
        self._waiting.clear()
        self._news.set()

    def wants(self, seen: Seen) -> bool:
        """Whether it may see this event, and asked for it."""
        if seen.kind in (EventKind.ANSWERED, EventKind.UNKNOWN):
            return False  # an answer is for whoever sent the command
        return self.about in _parts_of(seen.job_id)

    async def take(self, within_s: float) -> list[Seen]:
        """What has come, or what comes first within ``within_s``; [] where nothing does."""
        if not self._waiting and not self.lost and not self.closed:
            try:
                async with asyncio.timeout(within_s):
                    await self._news.wait()
            except TimeoutError:
                return []
        self._news.clear()
        taken = list(self._waiting)
        self._waiting.clear()
        return taken

    def close(self) -> None:
        """The process stops: nothing more comes."""
        self.closed = True
        self._news.set()


class Watchers:
    """All of them, and where the tail stands."""

    def __init__(self, watchers_max: int) -> None:
        self._watchers_max = watchers_max
        self._watchers: set[Watcher] = set()
        self._by_about: dict[str, set[Watcher]] = {}
        """An event is offered to those alone whom it may concern: of hundreds nearly all are about others."""
        self._listeners: list[tuple[Callable[[SeenBatch], None], Callable[[], None]]] = []
        self._closed = False
        self.positions: dict[int, int] = {}
        """The next offset of each partition."""

    def __len__(self) -> int:
        return len(self._watchers)

    def listen(self, listener: Callable[[SeenBatch], None], missed: Callable[[], None]) -> None:
        """Call ``listener`` with every batch of events, of all tenants: for figures. It must be quick.

        ``missed`` is called where events have passed unseen.
        """
        self._listeners.append((listener, missed))

    def add(self, tenant: str, job_id: str = "", key: str = "") -> Watcher:
        """One more watcher. Raises Problem (503) where there are too many; one key may have a quarter of them."""
        if len(self._watchers) >= self._watchers_max or self._closed:
            raise busy(f"{len(self._watchers)} streams are open", retry_after_s=5)
        of_key = sum(watcher.key == key for watcher in self._watchers) if key else 0
        if of_key >= max(1, self._watchers_max // 4):
            raise busy(f"{of_key} streams are open with this key", retry_after_s=5)
        watcher = Watcher(tenant, job_id, dict(self.positions), key)
        self._watchers.add(watcher)
        self._by_about.setdefault(watcher.about, set()).add(watcher)
        return watcher

    def remove(self, watcher: Watcher) -> None:
        """It watches no more."""
        self._watchers.discard(watcher)
        others = self._by_about.get(watcher.about, set())
        others.discard(watcher)
        if not others:
            self._by_about.pop(watcher.about, None)

    def take(self, batch: SeenBatch) -> None:
        """A batch of the tail."""
        self.positions.update(batch.ends)
        for seen in batch if self._watchers else ():
            for about in _parts_of(seen.job_id):
                for watcher in self._by_about.get(about, ()):
                    watcher.offer(seen)
        for listener, _ in self._listeners:
            listener(batch)

    def miss(self, ends: Mapping[int, int]) -> None:
        """Events have passed unseen; the tail goes on at ``ends``. Who watches comes back, and reads them again."""
        self.positions.update(ends)
        for watcher in self._watchers:
            watcher.lose()
        for _, missed in self._listeners:
            missed()

    def close(self) -> None:
        """Every stream ends."""
        self._closed = True
        for watcher in self._watchers:
            watcher.close()


def _tenant_part(tenant: str) -> str:
    """What the ids of all of a tenant's jobs begin with."""
    return f"{tenant}:"


def _parts_of(job_id: str) -> set[str]:
    """What a watcher of the job's events may be about: the job, or its tenant."""
    return {job_id, _tenant_part(tenant_of_job(job_id))}
