"""The loaded part of a shard's future: chains of fires in one order (design §6).

A *chain* is one ``due`` row come to life: the fires of one version of one job that are due within one minute. The
timeline holds the next fire of every chain, and every deferred attempt, in a heap ordered like positions: by due time.
Nothing here decides; it only knows what comes next.
A chain that a later command has cut short, or a catch-up has passed, drops out silently when its turn comes: it never
moves the cursor.

With a jitter fires of several versions of a job may be due in one instant. A position names no version, and what a
command finds decided is told by one instant. So they go together (``take_beside``), at the place of the first of them:
of what a job has due in one instant all is decided, or nothing.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from waterclock.log.port import Outgoing
from waterclock.model.ids import US_PER_MINUTE, Instant, minute_of
from waterclock.model.job import Every, JobVersion, Tier
from waterclock.model.timetable import due_of, next_of
from waterclock.store.port import DueRow

from .envelope import FIRE_BYTES, weight_of
from .position import Position


class Ready(NamedTuple):
    """The records of one fire, made before its instant (``ready.py``)."""

    fire_at: Instant
    pending: Outgoing
    work: Outgoing | None

    @property
    def messages(self) -> tuple[Outgoing, ...]:
        """As they go out; a DagRun has no work of its own."""
        return (self.pending,) if self.work is None else (self.pending, self.work)


class Chain:
    """The remaining fires of one version that are due within one minute.

    ``next_at`` is the fire time of the next one, ``due_at`` when it is due. ``until_at``: fires with a later fire time
    are another version's. ``weight``: for how many fires each of them counts.
    """

    __slots__ = ("due_at", "every_us", "minute_end", "next_at", "ready", "row", "until_at", "version", "weight")

    def __init__(self, version: JobVersion, row: DueRow, first_at: Instant) -> None:
        self.version = version
        self.row = row
        self.weight = weight_of(version.spec)
        self.next_at = first_at
        self.due_at = due_of(version, first_at)
        self.minute_end = (minute_of(self.due_at) + 1) * US_PER_MINUTE
        self.until_at: Instant = self.minute_end
        self.ready: Ready | None = None
        # The quick way is for whoever has neither ends nor jitter, and whose fires no calendar moves: nearly everybody.
        schedule, timing = version.spec.schedule, version.spec.timing
        is_plain = not (timing.jitter_us or timing.until_at or timing.from_at or timing.moves)
        self.every_us = schedule.every_us if isinstance(schedule, Every) and is_plain else 0

    @property
    def key(self) -> tuple[int, int]:
        """(minute, revision): one chain of a job for each."""
        return minute_of(self.due_at), self.version.revision

    @property
    def is_cut(self) -> bool:
        """Whether its next fire is no longer its own."""
        return self.next_at > self.until_at

    def advance(self) -> bool:
        """Go to the next fire; False when none is left in this minute."""
        if self.every_us:
            due_at = following = self.next_at + self.every_us
        else:
            found = next_of(self.version, self.next_at)
            if found is None:
                return False
            due_at, following = due_of(self.version, found), found
        if due_at >= self.minute_end or following > self.until_at:
            return False
        self.next_at, self.due_at = following, due_at
        return True


class Crowd:
    """Chains of one instant whose fires are made ready, and for how many fires these count."""

    __slots__ = ("chains", "weight")

    def __init__(self) -> None:
        self.chains: list[Chain] = []
        self.weight = 0

    def add(self, chain: Chain) -> None:
        self.chains.append(chain)
        self.weight += chain.weight


class Deferred:
    """One attempt that waits for its due time: its work record as it will go out. It belongs to its run, not to a
    version, so no command of its job ends it."""

    __slots__ = ("due_at", "entry", "job_id", "message", "revision", "tier")
    is_cut = False

    def __init__(self, due_at: Instant, tier: Tier, job_id: str, entry: str, revision: int, message: Outgoing) -> None:
        self.due_at = due_at
        self.tier = tier
        self.job_id = job_id
        self.entry = entry
        self.revision = revision
        """The number of the command that deferred it."""
        self.message = message

    @property
    def weight(self) -> int:
        """For how many fires it counts."""
        return 1 + len(self.message.value or b"") // FIRE_BYTES

    @property
    def position(self) -> Position:
        """Its place on the timeline."""
        return Position(self.due_at, self.tier, self.job_id, self.entry)


_Entry = tuple[Instant, Tier, str, str, int, Chain | Deferred]


class Timeline:
    """Every chain of the loaded window and every deferred attempt, next fire first."""

    def __init__(self) -> None:
        self._heap: list[_Entry] = []
        self._of_job: dict[str, dict[tuple[int, int], Chain]] = {}
        self._deferred: set[tuple[Instant, str, int]] = set()

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, chain: Chain) -> bool:
        """Add a chain; False where the job already has one for this minute and revision (its fires are the same)."""
        job_id = chain.version.job_id
        chains = self._of_job.setdefault(job_id, {})
        if chain.key in chains:
            return False
        chains[chain.key] = chain
        self._push(chain)
        return True

    def add_deferred(self, deferred: Deferred) -> bool:
        """Add a deferred attempt; False where it stands there already."""
        known = (deferred.due_at, deferred.entry, deferred.revision)
        if known in self._deferred:
            return False
        self._deferred.add(known)
        place = (deferred.due_at, deferred.tier, deferred.job_id, deferred.entry, deferred.revision)
        heapq.heappush(self._heap, (*place, deferred))
        return True

    def has(self, job_id: str, minute: int, revision: int) -> bool:
        """Whether a chain of this job stands for this minute and revision."""
        return (minute, revision) in self._of_job.get(job_id, ())

    def chains_of(self, job_id: str) -> Iterable[Chain]:
        """The chains of one job that have fires left."""
        return list(self._of_job.get(job_id, {}).values())

    def next_due_at(self) -> Instant | None:
        """When the next fire is due; None when nothing is loaded."""
        return self._heap[0][0] if self._heap else None

    def soon(self, until_at: Instant, limit: int) -> Iterator[Chain]:
        """Chains with a fire due at or before ``until_at``, in no order; looks at ``limit`` places of the heap at most.

        Nothing may be added or taken meanwhile. A place of the heap is never due before the one above it.
        """
        heap, below = self._heap, [0]
        for _ in range(limit):
            if not below:
                return
            place = below.pop()
            if place >= len(heap) or heap[place][0] > until_at:
                continue
            below += (2 * place + 1, 2 * place + 2)
            item = heap[place][5]
            if isinstance(item, Chain) and not item.is_cut and item.due_at == heap[place][0]:
                yield item

    def take(self, until_at: Instant, limit: int) -> Iterator[tuple[Instant, Instant, Chain | Deferred]]:
        """(due time, fire time, whose) of what is due at or before ``until_at``, in order, at most ``limit``.

        Each is gone once it is yielded. Fires that a chain lost since (cut short) are passed over and not counted.
        """
        heap = self._heap
        taken = 0
        while heap and taken < limit and heap[0][0] <= until_at:
            due_at, tier, job_id, entry, revision, item = heap[0]
            if item.due_at != due_at:
                heapq.heappop(heap)  # that fire was taken beside another one
                continue
            if item.is_cut:
                heapq.heappop(heap)
                self._forget(item, due_at)
                continue
            fire_at = item.next_at if isinstance(item, Chain) else due_at
            if isinstance(item, Chain) and item.advance():
                heapq.heapreplace(heap, (item.due_at, tier, job_id, entry, revision, item))
            else:
                heapq.heappop(heap)
                self._forget(item, due_at)
            taken += 1
            yield due_at, fire_at, item

    def take_beside(self, job_id: str, due_at: Instant) -> Iterator[tuple[Instant, Chain]]:
        """(fire time, whose) of the job's other fires that are due in the instant of one that was just taken.

        Each is gone once it is yielded. No version has two fires in one instant, and the versions of a job of which
        fires may be undecided are bounded (``known.REVISIONS_MAX``): so all of them go out in one round.
        """
        for chain in self.chains_of(job_id):
            if chain.due_at != due_at or chain.is_cut:
                continue
            fire_at = chain.next_at
            if chain.advance():
                self._push(chain)
            else:
                self._forget(chain, due_at)
                chain.due_at = chain.minute_end  # its entry in the heap is none any more
            yield fire_at, chain

    def _push(self, chain: Chain) -> None:
        version = chain.version
        heapq.heappush(self._heap, (chain.due_at, version.spec.tier, version.job_id, "", version.revision, chain))

    def _forget(self, chain: Chain | Deferred, due_at: Instant) -> None:
        if isinstance(chain, Deferred):
            self._deferred.discard((chain.due_at, chain.entry, chain.revision))
            return
        chains = self._of_job.get(chain.version.job_id)
        if chains is not None:
            chains.pop((minute_of(due_at), chain.version.revision), None)
            if not chains:
                del self._of_job[chain.version.job_id]
