"""What a dispatcher does about backfills in its rounds: read what has run, then make runs, behind all that is on time.

What must hold: only fires that the timeline has passed are touched, each once, in the order of time; no more of a
backfill's runs are open than it says; where the job has limits of its own, a fire waits until there is room, and
nobody is overtaken. How it fails: BackendDown while reading, and nothing has changed then.
"""

from __future__ import annotations

import structlog

from waterclock.clock import Clock
from waterclock.log.port import Log, TopicPartition
from waterclock.model.backfill import HISTORY_PROVES_US, BackfillStatus
from waterclock.model.concurrency import FREE
from waterclock.model.events import Origin
from waterclock.model.flow_state import RunFlow
from waterclock.model.ids import Instant, make_run_id
from waterclock.model.job import JobVersion
from waterclock.model.timetable import count_of, is_blocked, next_of
from waterclock.model.untellable import schedule_error
from waterclock.store.made_runs import recorded_to
from waterclock.store.shelves import JobIndex
from waterclock.wire.names import Names

from .admitting import is_full
from .backfill_reading import Found, Reading
from .backfills import HISTORY_GONE, REVISION_GONE, SCHEDULE_GONE, Backfill, finish, keep, open_count, tell_anew, turn
from .emit import Emitter
from .envelope import weight_of
from .holding import hand_out
from .lane_share import LaneShare
from .legible import newest_below
from .shard import Shard

LOOKS_MAX = 500
"""Fires of one backfill that are looked at in one round, run or not."""

TELL_EVERY_S = 5.0

_TURNS = 4

log_ = structlog.get_logger("dispatcher")


class BackfillLanes:
    """Of one dispatcher. Its share and its rate are those of the catch-up: it is worked on only where no gap is."""

    def __init__(self, clock: Clock, log: Log, index: JobIndex, names: Names, share: LaneShare) -> None:
        self._clock = clock
        self._log = log
        self._index = index
        self._names = names
        self._share = share

    @staticmethod
    def let_go(shard: Shard | None) -> None:
        """The shard is dropped: nothing more is read for it."""
        if shard is not None:
            shard.backfills.close()

    # ---- make

    def work_off(self, shard: Shard, out: Emitter, now: Instant, used: tuple[int, int], *, on_time_waits: bool) -> bool:
        """Make runs of what may be run now, first of who has waited longest. ``used``: (all of the round, taken).

        Large payloads end a round sooner, and cost no more of the rate, which is one of runs. True where there is more.
        """
        if shard.gaps or shard.jump is not None:
            return False
        now_s = self._clock.monotonic_s()
        limit, taken = used
        allowed = self._share.allowed(shard.backfills, limit, taken, on_time_waits=on_time_waits, now_s=now_s)
        left, more, room = allowed, False, limit
        for backfill in sorted(shard.backfills.active(), key=lambda each: each.served):
            if _may_decide(shard, backfill):
                weight = 1 if backfill.version is None else weight_of(backfill.version.spec)
                made, has_more = _work(shard, out, backfill, now, min(left, -(-max(0, room) // weight)))
                left, more, room = left - made, more or has_more, room - made * weight
                if made:
                    shard.backfills.serve(backfill)
        self._share.spend(shard.backfills, allowed - left, on_time_waits=on_time_waits)
        shard.served = self._share.spent_count if left < allowed else shard.served
        self._tell_progress(shard, out, now, now_s)
        return more and left > 0

    @staticmethod
    def _tell_progress(shard: Shard, out: Emitter, now: Instant, now_s: float) -> None:
        for backfill in shard.backfills:
            if backfill.is_untold and now_s - backfill.told_s >= TELL_EVERY_S:
                backfill.told_s = now_s
                tell_anew(shard, out, backfill, now)

    # ---- read

    def read(self, shard: Shard, *, hungry: bool) -> bool:
        """One slice of what has to be read before a backfill begins, behind the window: where that is never satisfied
        (``hungry``), one in four of the shard's turns. True while there is more of it. Raises BackendDown."""
        if not shard.backfills or not shard.may_decide or shard.gaps or shard.jump is not None:
            return False
        shard.backfills.turns += 1
        if hungry and shard.backfills.turns % _TURNS:
            return False
        for backfill in shard.backfills.active():
            if backfill.lost or backfill.is_illegible or not _has_passed(shard, backfill):
                continue
            if backfill.version is None:
                self._read_version(backfill)
                return True
            if backfill.existing is None:
                return self._read_existing(shard, backfill, backfill.version)
        return False

    def _read_version(self, backfill: Backfill) -> None:
        revision = backfill.told.revision
        (found,), illegible = newest_below(self._index, [(backfill.job_id, revision + 1)])
        if illegible:
            backfill.is_illegible = True
            return
        if found is None or found.revision != revision:
            log_.error("a backfill cannot go on: its revision is gone", backfill=backfill.backfill_id)
            backfill.lost = REVISION_GONE
            return
        if error := schedule_error(found.spec.schedule):
            log_.error("a backfill cannot go on", backfill=backfill.backfill_id, cause=error)
            backfill.lost = SCHEDULE_GONE
            return
        backfill.version = found

    def _read_existing(self, shard: Shard, backfill: Backfill, version: JobVersion) -> bool:
        if backfill.reading is None:
            events = TopicPartition(self._names.run_events, shard.partition)
            recorded, low = recorded_to(self._index, shard.partition, shard.generation), self._log.low_watermark(events)
            if recorded < low:
                # What lies between the two is in neither, yet: a recorder that works will be past it soon.
                if not backfill.waits_for_history:
                    log_.warning("a backfill waits for history: is the recorder away?", backfill=backfill.backfill_id,
                                 written_to=recorded, kept_from=low)  # fmt: skip
                backfill.waits_for_history = True
                return False
            end, told = self._log.high_watermark(events), backfill.told
            backfill.reading = Reading(
                version, told.position_at + 1, told.to_at, events, recorded, end, self._clock.now()
            )
        found = backfill.reading.go_on(self._log, self._index)
        if found is not None:
            backfill.existing, backfill.reading = found, None
        return True


def _has_passed(shard: Shard, backfill: Backfill) -> bool:
    """Whether the timeline has decided every fire of its range: those of a pause are, once the pause has ended."""
    told = backfill.told
    if shard.is_paused(backfill.job_id):
        pause = shard.decided[backfill.job_id]
        if told.ready_at > pause.at and told.to_at > pause.fires_to_at + 1:
            return False
    return shard.cursor.due_at > told.ready_at


def may_make(shard: Shard) -> bool:
    """Whether any of the shard's backfills goes on now: not one that is paused, waits for its time, or for an owner who
    can read it."""
    return bool(shard.backfills) and any(
        each.lost or (not each.is_illegible and _has_passed(shard, each)) for each in shard.backfills.active()
    )


def _may_decide(shard: Shard, backfill: Backfill) -> bool:
    is_known = backfill.version is not None and backfill.existing is not None
    return bool(backfill.lost) or (is_known and _has_passed(shard, backfill))


def _work(shard: Shard, out: Emitter, backfill: Backfill, now: Instant, limit: int) -> tuple[int, bool]:
    """Decide its next fires, at most ``limit`` runs; returns how many were made, and whether more could be now."""
    lost = backfill.lost or (HISTORY_GONE if _is_unproven(backfill, now) else "")
    if lost:
        turn(shard, out, backfill, BackfillStatus.CANCELLED, now, lost)
        return 0, False
    version, existing = backfill.version, backfill.existing
    assert version is not None
    assert existing is not None
    if backfill.told.status is BackfillStatus.WAITING:
        turn(shard, out, backfill, BackfillStatus.RUNNING, now)
    before = told = backfill.told
    open_now, made, is_full = open_count(shard, backfill), 0, False
    for _ in range(LOOKS_MAX):
        fire_at = next_of(version, told.position_at)
        if fire_at is None or fire_at >= told.to_at:
            told = told._replace(position_at=told.to_at - 1)
            break
        if is_blocked(version.spec, fire_at):
            told = told._replace(blocked_count=told.blocked_count + 1)
        elif fire_at in existing.held:
            # It waits for others of its job: whether it runs in the end is not decided yet.
            is_full = True
            if not _is_held(shard, version.job_id, fire_at):
                backfill.ask_about(fire_at)
            break
        elif fire_at in existing.fires:
            told = told._replace(left_count=told.left_count + 1)
        else:
            is_full = open_now >= told.concurrency or not _has_room(shard, version)
            if is_full or made >= limit:
                break
            _make(shard, out, backfill, version, existing, fire_at, now)
            made, open_now = made + 1, open_now + 1
            told = told._replace(made_count=told.made_count + 1)
        told = told._replace(position_at=fire_at)
    if told != before:
        backfill.told, backfill.is_untold = told._replace(began_at=told.began_at or now), True
        keep(shard, out, backfill, now)
    finish(shard, out, backfill, now)
    return made, not (is_full or backfill.all_decided)


def _is_unproven(backfill: Backfill, now: Instant) -> bool:
    """Whether it has waited for so long that history no longer tells what has run of what is left."""
    version, told = backfill.version, backfill.told
    assert version is not None
    begins_at, ends_at = max(told.position_at, version.created_at - 1), min(told.to_at, now - HISTORY_PROVES_US)
    return begins_at < ends_at - 1 and count_of(version, begins_at, ends_at - 1) > 0


def _has_room(shard: Shard, version: JobVersion) -> bool:
    """Whether one more run of the job may be open, by its newest limits, and nobody waits who goes first."""
    if is_full(shard.flow, version.job_id):
        return False
    job = shard.flow.jobs.get(version.job_id)
    if job is None or job.limits.is_free:
        return True
    limits, group = job.limits, job.limits.group(version.spec.payload)
    paused = shard.is_paused(version.job_id)
    return job.has_room(limits, group) and not job.waits_before(limits, group, paused=paused)


def _is_held(shard: Shard, job_id: str, fire_at: Instant) -> bool:
    job = shard.flow.jobs.get(job_id)
    return job is not None and make_run_id(job_id, fire_at) in job.held


def _make(
    shard: Shard,
    out: Emitter,
    backfill: Backfill,
    version: JobVersion,
    existing: Found,
    fire_at: Instant,
    now: Instant,
) -> None:
    told, job = backfill.told, shard.flow.job(version.job_id, FREE)
    out.run_of_backfill(
        version,
        fire_at,
        tier=told.tier,
        number=told.number,
        now=now,
        known_to=max(existing.known_to, shard.flow.position),
    )
    group = "" if job.limits.is_free else job.limits.group(version.spec.payload)
    run_id = make_run_id(version.job_id, fire_at)
    run = RunFlow(run_id, "", fire_at, version.revision, told.tier, Origin.BACKFILL, group, backfill=told.number)
    hand_out(shard, out, run)
