"""Jobs of a shard, and when to look at each of them again. A look costs what is due, not what waits.

A heap beside a dict: of each job one time counts, ``_at``; what the heap has beyond it is old, and dropped as it comes
up, or where there is more of it than of what counts.
"""

from __future__ import annotations

import heapq

from waterclock.model.ids import Instant

_OLD_MAX = 1_000


class LookTimes:
    """``asked_wait_until``: what was looked at before is not looked at again earlier, whatever its own time."""

    __slots__ = ("_at", "_heap", "asked_wait_until")

    def __init__(self) -> None:
        self._at: dict[str, Instant] = {}
        self._heap: list[tuple[Instant, str]] = []
        self.asked_wait_until: Instant = 0

    def __len__(self) -> int:
        return len(self._at)

    def put(self, job_id: str, at: Instant) -> None:
        """Look at it then, and no other time; 0: at once, as at one that was never looked at."""
        if self._at.get(job_id) != at:
            self._at[job_id] = at
            heapq.heappush(self._heap, (at, job_id))
            if len(self._heap) > 2 * len(self._at) + _OLD_MAX:
                self._heap = [(at, job_id) for job_id, at in self._at.items()]
                heapq.heapify(self._heap)

    def put_new(self, job_id: str) -> None:
        """Look at it at once, unless a time is set already."""
        if job_id not in self._at:
            self.put(job_id, 0)

    def forget(self, job_id: str) -> None:
        """Nothing has to be looked for any more."""
        self._at.pop(job_id, None)

    def next_at(self) -> Instant | None:
        """When the next look is due, 0: at one that was never looked at; None where nothing waits."""
        while self._heap and self._at.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        if not self._heap:
            return None
        at = self._heap[0][0]
        return max(at, self.asked_wait_until) if at else 0

    def pop(self) -> str:
        """The job of which :meth:`next_at` has just spoken; it has no time any more."""
        _, job_id = heapq.heappop(self._heap)
        del self._at[job_id]
        return job_id
