"""The catch-up lane: a gap is worked off behind what is on time, in the order of the timeline (design §6).

A lane reads the buckets of the oldest gap again, from its position on, and decides what each job owes in the gap at the
job's place, in one round with the position that passes it. So whoever takes over goes on exactly where the committed
work ends. A deferred attempt of the gap is handed out at its own place.

What must hold: a job is decided once in a gap, whatever its rows say. Its place follows from versions and from what was
decided ahead, so a row that comes late, or a second one, decides nothing. How it fails: BackendDown while reading:
nothing has changed then.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from itertools import count

import structlog

from waterclock.model.errors import RequestError
from waterclock.model.ids import US_PER_MINUTE, Instant
from waterclock.model.job import JobVersion
from waterclock.store.port import DueRow, TimeIndex
from waterclock.wire.names import Names

from .bucket_walk import BucketWalk
from .emit import Emitter
from .gap_owed import OwedInGap, first_fire
from .gaps import Gap
from .misfire import Decision, decide_together
from .position import Position
from .run_orders import deferred_of
from .shard import Decided, Shard
from .telling import tell
from .timeline import Deferred
from .trusted import trusted_rows, version_of

log_ = structlog.get_logger("dispatcher")

READY_MAX = 1_000
"""Rows that wait in memory before no more are read; a full minute has what it has."""

_EMPTY_US = 10 * US_PER_MINUTE
"""After so much of nothing the position moves on all the same: whoever takes over need not read that again."""


class Lane:
    """What is loaded of one gap. ``credit``: rows that it may take although work that is on time waits."""

    def __init__(self, gap: Gap, slots: Sequence[int]) -> None:
        self.gap_to_at = gap.to_at
        self.walk = BucketWalk(slots, gap.position.due_at, gap.to_at - 1)
        self.credit = 0.0
        self._heap: list[tuple[Position, int, JobVersion | Deferred]] = []
        self._jobs: set[str] = set()
        self._number = count()

    def __len__(self) -> int:
        return len(self._heap)

    @property
    def wants_more(self) -> bool:
        """Whether more of the gap is to be read now."""
        return not self.walk.is_over and (len(self._heap) < READY_MAX or not self.has_ready)

    @property
    def has_ready(self) -> bool:
        """Whether something can be taken: nothing that comes before it is still to be read."""
        return bool(self._heap) and (self.walk.is_over or self._heap[0][0].due_at < self.walk.horizon_at)

    @property
    def is_over(self) -> bool:
        return self.walk.is_over and not self._heap

    def knows(self, job_id: str) -> bool:
        """Whether the job waits for its place."""
        return job_id in self._jobs

    def add(self, place: Position, item: JobVersion | Deferred) -> None:
        heapq.heappush(self._heap, (place, next(self._number), item))
        if isinstance(item, JobVersion):
            self._jobs.add(item.job_id)

    def pop(self) -> tuple[Position, JobVersion | Deferred]:
        place, _, item = heapq.heappop(self._heap)
        if isinstance(item, JobVersion):
            self._jobs.discard(item.job_id)
        return place, item


def read_on(shard: Shard, index: TimeIndex, names: Names) -> None:
    """Read the next buckets of the oldest gap. Raises BackendDown: nothing has changed then."""
    gap = shard.gaps[0]
    if shard.lane is None:
        shard.lane = Lane(gap, shard.slots)
    lane = shard.lane
    if not lane.wants_more:
        return
    found = lane.walk.read(index)
    rows = trusted_rows(shard, index, found)
    versions = {row.job_id: version for row, version in readable(rows, index) if not lane.knows(row.job_id)}
    for job_id, version in versions.items():
        owed = _owed(shard, gap, job_id, version)
        if owed is not None:
            lane.add(owed.place, version)
    for deferred in deferred_in(shard, names, gap, found):
        lane.add(deferred.position, deferred)
    lane.walk.go_on(len(found))
    if not lane and lane.walk.horizon_at - gap.position.due_at >= _EMPTY_US and not lane.walk.is_over:
        _move(shard, Position(lane.walk.horizon_at), 0)


def work_off(shard: Shard, out: Emitter, now: Instant, limit: int, grace_us: int) -> int:
    """Decide what comes next in the oldest gap, at most ``limit``; returns how much that was, in rows or runs.

    The last job of a round may bring as many runs more as its policy allows. Large payloads end a round sooner: by
    their ``weight``, but not in what is returned, for the lane's rate is one of runs.
    """
    lane, taken, weight = shard.lane, 0, 0
    while lane is not None and max(taken, weight) < limit and lane.has_ready:
        place, item = lane.pop()
        if isinstance(item, Deferred):
            out.hand_out(item.message)
            weight += item.weight
        else:
            owed = _owed(shard, shard.gaps[0], item.job_id, item)
            if owed is not None:
                decision = _decide(shard, out, item.job_id, owed, now, grace_us)
                taken += max(0, len(decision.runs) - 1)
                weight += decision.weight
        taken += 1
        _move(shard, place, 1)
    return taken


def close_gap(shard: Shard) -> Gap | None:
    """Take the oldest gap away if nothing of it is left; returns it."""
    if shard.lane is None or not shard.lane.is_over:
        return None
    closed, shard.gaps, shard.lane = shard.gaps[0], shard.gaps[1:], None
    return closed


def decide_apart(
    shard: Shard, out: Emitter, job_id: str, gaps: Sequence[OwedInGap], now: Instant, grace_us: int
) -> None:
    """Decide what a job owes in each of these gaps, beside the lane and its order: its command allows no later."""
    for owed in gaps:
        decision = decide_together(owed.owed, owed.place.due_at, now, grace_us)
        to_at = owed.gap.to_at
        tell(shard, out, job_id, decision, now, place_of_run=lambda _: None, place_of_skip=lambda _: 0, gap_to_at=to_at)


def readable(rows: Iterable[DueRow], index: TimeIndex) -> list[tuple[DueRow, JobVersion]]:
    """Rows with the versions that they stand for, and whose fires can be told. Raises BackendDown."""
    found: list[tuple[DueRow, JobVersion]] = []
    for row in rows:
        try:
            found.append((row, version_of(row, index)))
        except RequestError as error:
            # One bad row must not stop the shard; this line names the job whose fires are missing.
            log_.error("due row cannot be served", job_id=row.job_id, due_at=row.due_at, cause=str(error))
    return found


def deferred_in(shard: Shard, names: Names, gap: Gap, rows: Iterable[DueRow]) -> list[Deferred]:
    """The deferred attempts among these rows that are still to be handed out in the gap.

    One whose command is still before us comes with that command.
    """
    found: list[Deferred] = []
    for row in rows:
        place = Position(row.due_at, row.tier, row.job_id, row.entry)
        if not row.entry or row.revision >= shard.revision_limit:
            continue
        if place <= gap.position or row.due_at >= gap.to_at:
            continue
        try:
            found.append(deferred_of(names, row))
        except RequestError as error:
            log_.error("deferred work cannot be read", entry=row.entry, due_at=row.due_at, cause=str(error))
    return found


def _owed(shard: Shard, gap: Gap, job_id: str, version: JobVersion) -> OwedInGap | None:
    versions = shard.lately.get(job_id) or [version]
    found = [owed for owed in shard.owed_in_gaps(job_id, versions) if owed.gap == gap]
    return found[0] if found else None


def _decide(shard: Shard, out: Emitter, job_id: str, owed: OwedInGap, now: Instant, grace_us: int) -> Decision:
    """One decision, of all that the job owes in the gap.

    The record of the fire that is due first names the job's place: by it a lost position is built anew. Where that
    place is behind its own tier no event can name it, and the job's record says that it is decided.
    """
    due_at = owed.place.due_at
    decision = decide_together(owed.owed, due_at, now, grace_us)
    first = first_fire(owed)
    tell(
        shard,
        out,
        job_id,
        decision,
        now,
        place_of_run=lambda fire: due_at if first.is_at(*fire) else None,
        place_of_skip=lambda skipped: due_at if first.is_at(skipped.version, skipped.from_at) else 0,
        gap_to_at=owed.gap.to_at,
    )
    if owed.is_behind_all_tiers:
        kept = shard.decide_ahead(job_id, Decided(owed.gap.to_at - 1, paused=False))
        out.job_decided(shard.partition, job_id, kept)
    return decision


def _move(shard: Shard, place: Position, rows: int) -> None:
    gap = shard.gaps[0]
    moved = gap._replace(position=max(gap.position, place), row_count=max(0, gap.row_count - rows))
    shard.gaps = (moved, *shard.gaps[1:])
