"""Runs of one shard that wait for one another: of each job with an overlap policy or a limit, who is open, who HELD.

Memory goes ahead of the log: what the owner decides counts at once, what it then reads of it changes nothing. Nobody
else makes a run, so an event of a run that is not known here is passed over, and a run is known from its decision to
its final event. What must hold: a state is moved by the one reducer alone, in the order of the log; an event below a
run's ``folded_to`` is in its state already. How it fails: a round that does not land drops the whole shard, and
what is committed is taken over (``takeover.py``): the records under ``flow/``, then run-events from the oldest
``folded_to`` to the high watermark.

Jobs whose failures are counted (``streak.py``), and fixed delays (``delays.py``), are followed alike: an end counts in
the round that forgets its run.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable

from waterclock.kept_runs import KEPT_AFTER_S
from waterclock.log.aged import Aged
from waterclock.model.concurrency import FREE, Concurrency, concurrency_from_json, concurrency_to_json
from waterclock.model.delay_rules import counted_end
from waterclock.model.errors import UndecodableRecord
from waterclock.model.events import EventKind, Origin, RunEvent, RunStatus
from waterclock.model.flow_state import JobFlow, RunFlow
from waterclock.model.ids import Instant, job_of_run, ordinal, parse_run_id, tenant_of_job
from waterclock.model.job import CommandKind, JobStatus, JobVersion
from waterclock.model.known_state import state_from_text, state_to_text
from waterclock.model.reduce import RunState, reduce
from waterclock.wire import codec
from waterclock.wire.messages import FLOW_PREFIX

from .dag_flow import DagFlow
from .delays import DelayChain
from .flow_runs import NEW, Held, Open
from .look_times import LookTimes
from .run_count import RunCount
from .streak import Streak

RUNS_MAX = 100_000
"""Runs of one shard that are held or open, about 1 KB each. Beyond it a fire is SKIPPED(overlap)."""

HELD_BYTES_MAX = 64 * 1024 * 1024
"""Payloads of triggers and work of redrives that are held, for one shard. A schedule's own runs share their version."""

_WAITS = RunState(RunStatus.PENDING, held=True)


class FlowJob:
    """One job. ``limits``: those of its newest version; ``held`` in the order in which they were decided."""

    __slots__ = ("by_group", "count", "delay", "ended", "held", "job_id", "limits", "open", "revision", "streak")

    def __init__(self, job_id: str, limits: Concurrency) -> None:
        self.job_id = job_id
        self.limits = limits
        self.streak = Streak()
        self.count = RunCount()
        self.delay = DelayChain()
        self.revision = 0
        """Its newest version, where anything is counted."""
        self.ended = False
        self.held: dict[str, Held] = {}
        self.open: dict[str, Open] = {}
        self.by_group: Counter[str] = Counter()
        """Open runs by concurrency group."""

    @property
    def is_followed(self) -> bool:
        """What becomes of its runs matters."""
        return not self.limits.is_free or self.streak.after > 0 or self.delay.delay_us > 0

    @property
    def is_free(self) -> bool:
        """Nothing that is to come has to be followed or counted."""
        return not self.is_followed and not self.count.most

    @property
    def wanted(self) -> CommandKind | None:
        """What has to become of the job by what became of its runs, unless it is paused."""
        if self.ended:
            return None
        if self.count.is_full:
            return CommandKind.END
        return CommandKind.PAUSE if self.streak.pause_for else None

    @property
    def kept(self) -> JobFlow:
        """What a successor has to know of it, its runs apart."""
        streak, count = self.streak, self.count
        failures = streak.after, streak.counts_from, streak.count, streak.failed_run, streak.pause_for
        made = count.most, count.made, count.since, self.ended
        kept = JobFlow(self.job_id, concurrency_to_json(self.limits), self.revision, *failures, *made)
        return kept if not self.delay.delay_us else self.delay.put_into(kept)

    def follow(self, version: JobVersion) -> None:
        """A command has made this version, the newest one: what it says counts from now on."""
        self.limits = FREE if version.status is JobStatus.DELETED else version.spec.concurrency
        self.streak.follow(version, from_end=self.ended)
        self.count.follow(version)
        is_counted = self.streak.after or self.count.most or version.spec.is_followed
        self.revision = version.revision if is_counted else 0
        self.ended = version.status is JobStatus.ENDED

    def has_room(self, limits: Concurrency, group: str) -> bool:
        """Whether one more run of this group may be open."""
        if limits.job_limit and len(self.open) >= limits.job_limit:
            return False
        return not (group and limits.key_limit and self.by_group[group] >= limits.key_limit)

    def next_released(self, *, paused: bool) -> Held | None:
        """The oldest run that waits and finds room now. A pause keeps what the schedule made."""
        if self.limits.job_limit and len(self.open) >= self.limits.job_limit:
            return None
        for held in self.held.values():
            if self._may_go(held, paused=paused) and self.has_room(self.limits, held.kept.group):
                return held
        return None

    def waits_before(self, limits: Concurrency, group: str, *, paused: bool) -> bool:
        """Whether somebody goes before a new run of this group: nobody overtakes."""
        if self.next_released(paused=paused) is not None:
            return True
        return any(self._may_go(held, paused=paused) for held in self.waiting(limits, group))

    def waiting(self, limits: Concurrency, group: str) -> list[Held]:
        """Those that wait in the same queue: of the same group, or all where the job has no key."""
        return [held for held in self.held.values() if not limits.key or held.kept.group == group]

    @staticmethod
    def _may_go(held: Held, *, paused: bool) -> bool:
        return not paused or held.kept.origin is not Origin.SCHEDULE


class Flow:
    """All such jobs of a shard. ``position``: run-events below it are in the states here, as far as they matter."""

    def __init__(self, generation: int = 1) -> None:
        self.jobs: dict[str, FlowJob] = {}
        self.followed: dict[bytes, FlowJob] = {}
        """Jobs with open runs, by the key of their events."""
        self.position = 0
        self.ready_at = 0
        self.changed: dict[str, None] = {}
        """Jobs of which a run may have found room, in the order in which that was noticed."""
        self.ended: list[str] = []
        """Runs whose end was read and whose record is still to be forgotten."""
        self.counted: dict[str, None] = {}
        """Jobs whose counts have changed in this round, and whose record is still to be written in it."""
        self.closing = LookTimes()
        """Jobs that may have failed too often, or made all their runs, and when to ask (again) for what follows."""
        self.resumed = LookTimes()
        """Jobs whose pause is about to end, and when: what waits may go then."""
        self.due = LookTimes()
        """Jobs with a fixed delay, and when the next fire of each is due."""
        self.unread: dict[str, None] = {}
        """Of these, those whose version was not read yet."""
        self.backfill_ends: list[tuple[str, int, RunStatus]] = []
        """Of these, those of backfills: job, number, status. Counted in the round that forgets them."""
        self.run_count = 0
        self.run_count_of: Counter[str] = Counter()
        """By tenant."""
        self.held_bytes = 0
        self.held_bytes_of: Counter[str] = Counter()
        self.unreadable: set[str] = set()
        """Jobs whose record a later release wrote: it stays for that one, until something new is known of the job."""
        self.unreadable_held: dict[str, RunFlow] = {}
        """Runs that wait for the later release that wrote their work; a cancel or a delete ends them here, too."""
        self.quiet_from_s = -1.0
        """Since when no run is open (monotonic seconds); the tail's own."""
        self.aged = Aged(KEPT_AFTER_S)
        self._generation = generation
        self._is_settled = True

    @property
    def ready(self) -> bool:
        """Whether run-events were read to where they ended at take-over: before that nothing of it is decided."""
        return self.position >= self.ready_at or not self.followed

    def job(self, job_id: str, limits: Concurrency) -> FlowJob:
        """The job, new with these limits where it is not known."""
        known = self.jobs.get(job_id)
        if known is None:
            known = self.jobs[job_id] = FlowJob(job_id, limits)
        return known

    def follow(self, job: FlowJob, version: JobVersion) -> bool:
        """A command has made this version. True where that changes what a successor has to know."""
        before = job.kept
        job.follow(version)
        if job.wanted is None:
            self.closing.forget(job.job_id)
        else:
            self.closing.put(job.job_id, 0)
        return job.kept != before

    def note_count(self, job: FlowJob) -> None:
        """A count of this job has changed."""
        self.counted[job.job_id] = None
        if job.wanted is not None:
            self.closing.put_new(job.job_id)

    def note_delay(self, job: FlowJob) -> None:
        """The chain of this job has changed."""
        self.note_count(job)
        self.look_at_delay(job)

    def look_at_delay(self, job: FlowJob) -> None:
        """Look at the chain of this job when its next fire is due."""
        next_at = job.delay.next_at
        if next_at is None:
            self.due.forget(job.job_id)
        else:
            self.due.put(job.job_id, next_at)

    def forget_job(self, job_id: str) -> None:
        """Nothing of it waits or is open, and nothing new is limited."""
        del self.jobs[job_id]
        self.changed.pop(job_id, None)
        self.closing.forget(job_id)
        self.due.forget(job_id)

    def hold(self, job: FlowJob, held: Held) -> None:
        """Put a run behind all that wait."""
        job.held[held.kept.run_id] = held
        self._count_run(job, 1, held.size)

    def unhold(self, job: FlowJob, run_id: str) -> Held:
        """It waits no longer."""
        held = job.held.pop(run_id)
        self._count_run(job, -1, -held.size)
        return held

    def opened(self, job: FlowJob, run: Open) -> None:
        """It was handed out."""
        job.open[run.kept.run_id] = run
        job.by_group[run.kept.group] += 1
        self._count_run(job, 1)
        self.followed[job.job_id.encode()] = job

    def apply(self, job: FlowJob, event: RunEvent, offset: int, stamped_at: Instant, now: Instant) -> None:
        """An event of a job with open runs, at its offset; ``stamped_at``: by the log."""
        run = job.open.get(event.run_id.partition("/")[0])
        if run is None:
            self._apply_to_held(job, event, offset)
            return
        if offset < run.kept.folded_to:
            return
        run.follow(event, offset, self._generation)
        if run.state.final:
            self._ended(job, run, counted_end(event.at, stamped_at, run.kept.fire_at, now))

    def kept_now(self, run: Open) -> RunFlow:
        """What a successor has to know of an open run as of ``position``."""
        nodes = () if run.dag is None else run.dag.open_nodes or ()
        state = state_to_text(run.state) if run.is_read else ""
        run.kept = run.kept._replace(state=state, folded_to=self.position, nodes=nodes)
        return run.kept

    def old_news(self, below: int, limit: int) -> list[Open]:
        """Open runs, at most ``limit``, because of which a successor would read from below this offset.

        Those of which it would read the most: so each has its turn, where the partition moves on faster than they.
        """
        old = (
            run
            for job in self.followed.values()
            for run in job.open.values()
            if run.kept.folded_to < below and (run.dag is None or run.dag.open_nodes is not None)
        )
        return heapq.nsmallest(limit, old, key=lambda run: run.kept.folded_to)

    def settle_held(self) -> None:
        """All that stood in the log at the take-over was read: what a predecessor held was held before that."""
        if self._is_settled or self.position < self.ready_at:
            return
        self._is_settled = True
        for job in self.jobs.values():
            for run_id, held in list(job.held.items()):
                if held.is_restored:
                    held.is_read = True
                    if held.early_end:
                        self._end_held(job, run_id)

    def restore(self, records: Iterable[tuple[str, bytes]], end: int, low: int) -> list[str]:
        """Begin with what the state topic holds, oldest first; run-events are then to be read from ``position`` to
        ``end``. ``low``: the first event that is still there. Returns the keys of records that cannot be read."""
        strange: list[str] = []
        starts: list[int] = []
        for key, value in records:
            try:
                self._restore_one(key.removeprefix(FLOW_PREFIX), value, starts, low)
            except (UndecodableRecord, ValueError):
                strange.append(key)
        self.unreadable = {key.removeprefix(FLOW_PREFIX) for key in strange if "@" not in key}
        self.position = max(low, min(starts, default=end))
        self.ready_at = end
        self._is_settled = False
        for job_id, job in self.jobs.items():
            if job.wanted is not None:
                self.closing.put_new(job_id)
            if job.delay.delay_us:
                self._restore_chain(job)
            strange += [FLOW_PREFIX + run_id for run_id, held in job.held.items() if not held.regroup(job.limits)]
        self.changed |= dict.fromkeys(job_id for job_id, job in self.jobs.items() if job.held or job.is_free)
        return strange

    def _count_run(self, job: FlowJob, change: int, held_bytes: int = 0) -> None:
        tenant = tenant_of_job(job.job_id)
        self.run_count += change
        self.run_count_of[tenant] += change
        self.held_bytes += held_bytes
        self.held_bytes_of[tenant] += held_bytes
        if not self.run_count_of[tenant]:
            del self.run_count_of[tenant], self.held_bytes_of[tenant]

    def _restore_chain(self, job: FlowJob) -> None:
        """Go on with a chain. One whose run cannot be read any more goes on as if that had ended at once."""
        run_id = job.delay.run_id
        if run_id and run_id not in job.open:
            job.delay.ended(run_id, parse_run_id(run_id).fire_at)
        self.unread[job.job_id] = None
        self.note_delay(job)

    def _restore_one(self, name: str, value: bytes, starts: list[int], low: int) -> None:
        if "@" not in name:
            kept_job = codec.decode_flow_job(value)
            job = self.job(kept_job.job_id, FREE)
            job.limits, job.streak = concurrency_from_json(kept_job.concurrency), Streak.of(kept_job)
            job.count, job.revision, job.ended = RunCount.of(kept_job), kept_job.revision, kept_job.ended
            job.delay = DelayChain.of(kept_job)
            return
        kept = codec.decode_flow_run(value)
        job = self.job(job_of_run(kept.run_id), FREE)
        if kept.held:
            if kept.work is not None:
                self.unreadable_held[kept.run_id] = kept
                codec.decode_work(kept.work)  # of a later release: it waits for that one, and nobody else for it
                del self.unreadable_held[kept.run_id]
            self.hold(job, Held(kept, None, is_restored=True))
            return
        state = state_from_text(kept.state)
        if state is None and kept.folded_to < low:
            state = NEW  # its PENDING may have stood below, and is never read then
        run = Open(kept, state)
        if run.state.is_dag:
            run.dag = DagFlow(kept.run_id, self._generation)
            run.dag.restore(run.state, kept.nodes)
        self.opened(job, run)
        starts.append(kept.folded_to)

    def _apply_to_held(self, job: FlowJob, event: RunEvent, offset: int) -> None:
        """Its release is ours and went before; anything else that the reducer takes ends it."""
        held = job.held.get(event.run_id)
        if held is None or event.kind is EventKind.PENDING:
            return
        if event.kind is EventKind.HELD:
            held.is_read, held.early_end = True, False
            return
        verdict = reduce(_WAITS, event, ordinal(self._generation, offset))
        if not (verdict.accepted and verdict.state is not None and verdict.state.final):
            return
        if held.is_read:
            self._end_held(job, event.run_id)
        elif held.is_restored:
            held.early_end = True

    def _end_held(self, job: FlowJob, run_id: str) -> None:
        self.unhold(job, run_id)
        self.ended.append(run_id)
        self.changed[job.job_id] = None

    def _ended(self, job: FlowJob, run: Open, ended_at: Instant) -> None:
        del job.open[run.kept.run_id]
        job.by_group[run.kept.group] -= 1
        if not job.by_group[run.kept.group]:
            del job.by_group[run.kept.group]
        self._count_run(job, -1)
        if not job.open:
            del self.followed[job.job_id.encode()]
        self.ended.append(run.kept.run_id)
        if run.kept.backfill:
            self.backfill_ends.append((job.job_id, run.kept.backfill, run.state.status))
        self.changed[job.job_id] = None
        if job.delay.ended(run.kept.run_id, ended_at):
            self.note_delay(job)
        if job.streak.note(run.kept, run.state.status):
            self.note_count(job)
