"""Fires that are due: each becomes a run or a recorded skip, in timeline order. The cursor moves with them.

On time nothing here touches the store. Only a catch-up does: when a fire is later than the grace, the job's owed
fires up to now are decided at once (``misfire.py``), and the row of its next fire is written before the round commits.
"""

from __future__ import annotations

from collections.abc import Sequence

from waterclock.model.ids import Instant, minute_of
from waterclock.model.job import JobStatus, JobVersion, Once
from waterclock.model.schedule import next_fire
from waterclock.store.port import DueRow, TimeIndex

from .emit import Emitter
from .misfire import COALESCED, latest
from .owed import stretches
from .position import Position
from .rows import advance_wts, rows_ahead
from .shard import Decided, Shard
from .timeline import Chain, Deferred


def decide_fires(
    shard: Shard, index: TimeIndex, out: Emitter, now: Instant, until_at: Instant, limit: int, grace_us: int
) -> int:
    """Decide the fires due at or before ``until_at`` (at most ``now``), at most ``limit``. Returns how many were taken.

    Raises BackendDown or WriteUnknown (catch-up alone): the shard must be dropped then, part of it has moved on.
    """
    until_at = min(until_at, now)
    rows: list[DueRow] = []
    taken = 0
    decided = shard.decided
    late_before = now - grace_us
    for due_at, chain in shard.timeline.take(min(until_at, shard.horizon_at - 1), limit):
        taken += 1
        if isinstance(chain, Deferred):
            # Late or not, and whatever became of its job: a retry belongs to its run (design §6).
            out.hand_out(chain.message)
            shard.cursor = max(shard.cursor, chain.position)
            continue
        version = chain.version
        if version.job_id in decided and due_at <= decided[version.job_id].at:
            continue
        if due_at < late_before:
            rows += _catch_up(shard, out, chain, due_at, now, until_at)
        elif chain.ready is not None and chain.ready.fire_at == due_at:
            out.hand_out(chain.ready.pending, chain.ready.work)
        else:
            out.run(version, fire_at=due_at, due_at=due_at, now=now)
        chain.ready = None
        # Never back: a job whose tier was raised at a take-over inside a due time may stand before the cursor.
        shard.cursor = max(shard.cursor, Position(due_at, version.spec.tier, version.job_id))
    if rows:
        index.write_due(rows)
    _forget_passed(shard, out)
    return taken


def _catch_up(
    shard: Shard, out: Emitter, chain: Chain, due_at: Instant, now: Instant, until_at: Instant
) -> list[DueRow]:
    """Decide all that the job owes up to ``until_at``; returns the rows of what comes after."""
    job_id = chain.version.job_id
    versions = shard.lately.get(job_id) or [chain.version]
    decision = latest(stretches(versions, due_at - 1, until_at))
    instead = ""
    if decision.run is not None:
        version, fire_at = decision.run
        instead = out.run(version, fire_at=fire_at, due_at=due_at if fire_at == due_at else None, now=now)
    for skipped in decision.skipped:
        out.skip(skipped, COALESCED, now=now, due_at=due_at, instead=instead)
    shard.decide_ahead(job_id, Decided(until_at, paused=False))
    out.job_decided(shard.partition, job_id, shard.decided[job_id])
    return _rows_after(shard, versions, until_at)


def _rows_after(shard: Shard, versions: Sequence[JobVersion], decided_at: Instant) -> list[DueRow]:
    """The rows of what comes after: of the newest version, and of older ones that are in force beyond ``decided_at``.

    There is one where the broker's clock, which stamps commands, is ahead of ours.
    """
    rows: list[DueRow] = []
    ends_at: Instant | None = None
    for version in versions:
        rows += _rows_between(shard, version, max(decided_at, version.stamp_at), ends_at)
        ends_at = version.stamp_at
        if ends_at <= decided_at:
            break
    return rows


def _rows_between(shard: Shard, version: JobVersion, after: Instant, ends_at: Instant | None) -> list[DueRow]:
    if version.status is not JobStatus.ACTIVE or isinstance(version.spec.schedule, Once):
        return []
    first_at = next_fire(version.spec.schedule, version.anchor_at, after)
    if first_at is None or (ends_at is not None and first_at > ends_at):
        return []
    if shard.timeline.has(version.job_id, minute_of(first_at), version.revision):
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
    """What was decided ahead is no longer needed once the cursor has passed it; a pause is kept until it ends."""
    for job_id in shard.passed_ahead():
        out.job_decided(shard.partition, job_id, None)
