"""Fires that are due: each becomes a run or a recorded skip, in timeline order. The cursor moves with them.

On time nothing here touches the store. Only a catch-up does: when a fire is later than the grace, the job's owed
fires up to now are decided at once (``misfire.py``), and the row of its next fire is written before the round commits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from waterclock.model.ids import Instant, minute_of
from waterclock.model.job import JobStatus, JobVersion, Once
from waterclock.model.timetable import due_of, fire_edge, is_blocked, next_of
from waterclock.model.timing import JITTER_US_MAX
from waterclock.store.port import DueRow, TimeIndex

from .admitting import admit_fire
from .blocked import skip_blocked
from .catch_up import decide_apart
from .emit import Emitter
from .misfire import Fire, decide
from .owed import stretches
from .position import Position
from .rows import advance_wts, rows_ahead
from .shard import Decided, Shard
from .telling import tell
from .timeline import Chain, Deferred

FORGOTTEN_MAX = 1_000
"""Decisions ahead that one round forgets: of a crowd that was resumed, or caught up, together the copied cursor passes
all in one step, and fires wait for the round."""


def decide_fires(
    shard: Shard, index: TimeIndex, out: Emitter, now: Instant, until_at: Instant, limit: int, grace_us: int
) -> int:
    """Decide the fires due at or before ``until_at`` (at most ``now``), at most ``limit``. Returns how many were taken.

    One with a large payload counts for several (``Chain.weight``), and goes out also where less than that is left. The
    runs of a catch-up count, too: the last one of a round may bring as many more as its policy allows. Raises
    BackendDown or WriteUnknown (catch-up alone): the shard must be dropped then, part of it has moved on.
    """
    until_at = min(until_at, now)
    rows: list[DueRow] = []
    taken = 0
    decided = shard.decided
    late_before = now - grace_us
    for due_at, fire_at, chain in shard.timeline.take(min(until_at, shard.horizon_at - 1), limit):
        taken += 1
        if isinstance(chain, Deferred):
            # Late or not, and whatever became of its job: a retry belongs to its run (design §6).
            out.hand_out(chain.message)
            shard.cursor = max(shard.cursor, chain.position)
            taken += chain.weight - 1
            if taken >= limit:
                break
            continue
        version = chain.version
        if version.job_id in decided and decided[version.job_id].covers(due_at, fire_at):
            continue
        if due_at < late_before:
            caught_up = _catch_up(shard, out, Fire(version, fire_at), due_at, now, until_at, grace_us)
            rows += caught_up.rows
            taken += max(0, caught_up.weight - 1)
        else:
            _decide_on_time(shard, out, chain, fire_at, due_at, now)
            taken += chain.weight - 1 + _decide_beside(shard, out, version, due_at, now)
        chain.ready = None
        shard.cursor = max(shard.cursor, Position(due_at, version.spec.tier, version.job_id))
        if version.job_id in decided and shard.edge_of(version) < due_at:
            _write_down(shard, out, version, due_at, now, grace_us)
        if taken >= limit:
            break
    if rows:
        shard.changes += 1
        index.write_due(rows)
    _forget_passed(shard, out)
    return taken


def _decide_on_time(
    shard: Shard, out: Emitter, chain: Chain, fire_at: Instant, due_at: Instant, now: Instant, *, in_order: bool = True
) -> None:
    version, ready = chain.version, chain.ready
    if version.spec.timing.calendars and is_blocked(version.spec, fire_at):
        skip_blocked(shard, out, chain, fire_at, due_at, now, in_order=in_order)
    elif in_order and ready is not None and ready.fire_at == fire_at:
        out.hand_out(*ready.messages)
    elif version.spec.is_admitted:
        admit_fire(shard, out, version, fire_at=fire_at, due_at=due_at, now=now, in_order=in_order)
    else:
        out.run(version, fire_at=fire_at, due_at=due_at, now=now, in_order=in_order)


def _decide_beside(shard: Shard, out: Emitter, first: JobVersion, due_at: Instant, now: Instant) -> int:
    """What other versions of the job have due in the same instant. Returns for how many fires that counts.

    The records of those of another tier name no due position: there the cursor is not, and one that is built anew from
    that would pass other jobs' fires.
    """
    taken = 0
    for fire_at, chain in shard.timeline.take_beside(first.job_id, due_at):
        decided = shard.decided.get(first.job_id)
        if decided is None or not decided.covers(due_at, fire_at):
            in_order = chain.version.spec.tier is first.spec.tier
            _decide_on_time(shard, out, chain, fire_at, due_at, now, in_order=in_order)
            taken += chain.weight
        chain.ready = None
    return taken


def _write_down(shard: Shard, out: Emitter, version: JobVersion, due_at: Instant, now: Instant, grace_us: int) -> None:
    """A job's tier was raised at a take-over inside a due time: the cursor, which never goes back, says nothing of what
    the job has due then (``Edge.overtaken``). Its record says that it is decided, and with it goes what is owed in
    gaps."""
    job_id = version.job_id
    gaps = shard.owed_in_gaps(job_id, shard.lately.get(job_id) or [version])
    decide_apart(shard, out, job_id, gaps, now, grace_us)
    out.job_decided(shard.partition, job_id, shard.decide_ahead(job_id, Decided(due_at, paused=False)))


class _CaughtUp(NamedTuple):
    """What a catch-up came to: for how many fires its runs and skips count, and the rows of what comes after."""

    weight: int
    rows: list[DueRow]


def _catch_up(
    shard: Shard, out: Emitter, late: Fire, due_at: Instant, now: Instant, until_at: Instant, grace_us: int
) -> _CaughtUp:
    """Decide all that the job of ``late``, its first misfire, due at ``due_at``, owes up to ``until_at``.

    The record of that very fire alone names its due position, for there the cursor is: a record of another version may
    name another tier with it, and a cursor that is built anew from that would pass fires that nobody has decided. With
    it goes what the job still owes in gaps: what is decided ahead is decided in gaps too (``gap_owed.py``).
    """
    job_id = late.version.job_id
    versions = shard.lately.get(job_id) or [late.version]
    owed = [stretch for each in shard.owed_in_gaps(job_id, versions) for stretch in each.owed]
    decided_to = shard.fires_decided_to(job_id)
    owed += stretches(versions, due_at - 1, until_at, fires_after=decided_to, edges=shard.edges_of(job_id))
    decision = decide(owed, now, grace_us)
    tell(
        shard,
        out,
        job_id,
        decision,
        now,
        place_of_run=lambda fire: due_at if late.is_at(*fire) else None,
        place_of_skip=lambda skipped: due_at if late.is_at(skipped.version, skipped.from_at) else 0,
    )
    kept = shard.decide_ahead(job_id, Decided(until_at, paused=False))
    out.job_decided(shard.partition, job_id, kept)
    return _CaughtUp(decision.weight + len(decision.skipped), _rows_after(shard, versions, until_at))


def _rows_after(shard: Shard, versions: Sequence[JobVersion], decided_at: Instant) -> list[DueRow]:
    """The rows of what is due after ``decided_at``: of the newest version, and of older ones that still owe something.

    There are such where the broker's clock, which stamps commands, is ahead of ours, and where a fire of an older
    version is still due because of its jitter.
    """
    rows: list[DueRow] = []
    ends_at: Instant | None = None
    for version in versions:
        begins = shard.begins_after(version)
        after = max(begins, fire_edge(version, decided_at), shard.fires_decided_to(version.job_id))
        rows += _rows_between(shard, version, after, ends_at)
        ends_at = version.stamp_at
        if ends_at <= decided_at - JITTER_US_MAX:
            break
    return rows


def _rows_between(shard: Shard, version: JobVersion, after: Instant, ends_at: Instant | None) -> list[DueRow]:
    """The rows of the version's fires in (``after``, ``ends_at``], as far as they are written ahead."""
    if version.status is not JobStatus.ACTIVE or isinstance(version.spec.schedule, Once):
        return []
    first_at = next_of(version, after)
    if first_at is None or (ends_at is not None and first_at > ends_at):
        return []
    if shard.timeline.has(version.job_id, minute_of(due_of(version, first_at)), version.revision):
        return []
    ahead = rows_ahead(
        version, first_at, advance_wts(after, version), lambda minute: shard.is_loaded(version.job_id, minute)
    )
    if ends_at is None:
        kept, chains = ahead.rows, ahead.chains
    else:
        kept = [row for row in ahead.rows if row.fire_at <= ends_at]
        chains = [chain for chain in ahead.chains if chain.next_at <= ends_at]
        for chain in chains:
            chain.until_at = min(chain.until_at, ends_at)
    for chain in chains:
        shard.timeline.add(chain)
    return kept


def _forget_passed(shard: Shard, out: Emitter) -> None:
    """What was decided ahead is needed no more once the copied cursor has passed it; a pause is kept until it ends."""
    for job_id in shard.passed_ahead(FORGOTTEN_MAX):
        out.job_decided(shard.partition, job_id, None)
