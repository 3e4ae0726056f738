"""What leaves the dispatcher in one round, as records: runs, skips, revisions, rejects and state."""

from __future__ import annotations

from collections.abc import Sequence

from waterclock.log.port import Outgoing, Record
from waterclock.model.backfill import make_backfill_id
from waterclock.model.cause import NO_CAUSE, Cause
from waterclock.model.dag_events import DagStart
from waterclock.model.errors import RequestError
from waterclock.model.events import (
    Answered,
    EventKind,
    Origin,
    Pending,
    Reject,
    Revised,
    RunEvent,
    RunStatus,
    Skipped,
    SourceRecord,
    WorkRecord,
)
from waterclock.model.executor import executor_to_json
from waterclock.model.failure_policy import policy_to_json
from waterclock.model.flow_state import JobFlow, RunFlow
from waterclock.model.gathering import Gathering
from waterclock.model.ids import Instant, job_of_run, make_run_id
from waterclock.model.job import Command, Cron, JobStatus, JobVersion, Tier
from waterclock.model.job_state import JobState
from waterclock.model.known_state import state_to_text
from waterclock.model.reduce import RunState
from waterclock.model.role_state import KeyState, ShardState
from waterclock.model.triggers import JobTriggers
from waterclock.model.zones import TZDATA_VERSION
from waterclock.wire import messages
from waterclock.wire.names import Names
from waterclock.wire.template import PendingTemplate, WorkTemplate

from .envelope import size_of
from .misfire import SkipRange
from .run_orders import pending_of_redrive
from .shard import Decided
from .timeline import Ready

_ROLE = "dispatcher"
_GIVES_WAY = state_to_text(RunState(RunStatus.SKIPPED))
"""The state of a fire that has not run: skipped, or never decided, which comes to the same for a backfill."""


_TEMPLATES_MAX = 50_000
"""About 2 KB each and the payload. At the bound all are dropped: they are made again as they are needed."""

_CONSTANTS_KEPT_MAX = 2_048
"""Bytes of payload and executor up to which templates are kept: 50,000 times 64 KiB would be 3 GB."""


class Templates:
    """What is the same for every run of a job revision, made once (the hot path of a herd)."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self._made: dict[tuple[str, int], tuple[PendingTemplate, WorkTemplate | None]] = {}
        self._in_gap: tuple[tuple[str, int, Instant], tuple[PendingTemplate, WorkTemplate | None]] | None = None

    def of(self, version: JobVersion) -> tuple[PendingTemplate, WorkTemplate | None]:
        """The two templates of a version's scheduled runs; a DagRun has no work of its own."""
        key = (version.job_id, version.revision)
        made = self._made.get(key)
        if made is None and size_of(version.spec) > _CONSTANTS_KEPT_MAX:
            return _templates(self.names, version, Origin.SCHEDULE, None)
        if made is None:
            if len(self._made) >= _TEMPLATES_MAX:
                self._made.clear()
            made = self._made[key] = _templates(self.names, version, Origin.SCHEDULE, None)
        return made

    def warm(self, version: JobVersion) -> None:
        """Make those of a version that is soon wanted, where they are kept."""
        if (version.job_id, version.revision) not in self._made and size_of(version.spec) <= _CONSTANTS_KEPT_MAX:
            self.of(version)

    def in_gap(self, version: JobVersion, gap_to_at: Instant) -> tuple[PendingTemplate, WorkTemplate | None]:
        """The two templates of the runs that the catch-up of one gap makes of a version. The last ones are kept."""
        key = (version.job_id, version.revision, gap_to_at)
        if self._in_gap is None or self._in_gap[0] != key:
            made = _templates(self.names, version, Origin.SCHEDULE, None, gap_to_at)
            self._in_gap = key, made
        return self._in_gap[1]

    def last_of(self, version: JobVersion, gap_to_at: Instant = 0) -> tuple[PendingTemplate, WorkTemplate | None]:
        """Those of the last run that its schedule makes; ``gap_to_at``: where a catch-up makes it, the gap's end."""
        return _templates(self.names, version, Origin.SCHEDULE, None, gap_to_at, is_last=True)

    def ready(self, version: JobVersion, fire_at: Instant, due_at: Instant) -> Ready:
        """The records of a fire that is still to come, as they would be made at the very instant it is due."""
        run_id = make_run_id(version.job_id, fire_at)
        pending, work = self.of(version)
        encoded = None if work is None else work.work(run_id, fire_at, due_at)
        return Ready(fire_at, pending.pending(run_id, due_at, fire_at, due_at), encoded)


def _templates(
    names: Names,
    version: JobVersion,
    origin: Origin,
    payload: bytes | None,
    gap_to_at: Instant = 0,
    *,
    is_last: bool = False,
    cause: Cause = NO_CAUSE,
) -> tuple[PendingTemplate, WorkTemplate | None]:
    """``payload`` None: the job's own."""
    spec = version.spec
    pattern = pending_of_version(version, origin, payload, cause)._replace(gap_to_at=gap_to_at, is_last=is_last)
    pending = PendingTemplate(names, version.job_id, pattern)
    if spec.dag is not None:
        return pending, None
    work = WorkTemplate(
        names,
        job_id=version.job_id,
        revision=version.revision,
        tier=spec.tier,
        pool=spec.pool,
        handler=spec.handler,
        payload=spec.payload if payload is None else payload,
        executor=executor_to_json(spec.executor) if spec.executor else "",
        at_most_once=spec.at_most_once,
        policy=policy_to_json(spec.policy),
        triggered_by=cause.source,
    )
    return pending, work


def pending_of_version(
    version: JobVersion, origin: Origin, payload: bytes | None = None, cause: Cause = NO_CAUSE
) -> Pending:
    """What PENDING and HELD say of a version's runs; the instants of one run are still to be put in.

    ``payload``: of a DagRun, what its nodes are given in place of the job's. Its limits are its engine's affair.
    """
    spec = version.spec
    is_dag = spec.dag is not None
    return Pending(
        revision=version.revision,
        fire_at=0,
        due_at=None,
        tier=spec.tier,
        origin=origin,
        pool=spec.pool,
        handler=spec.label,
        zone=spec.schedule.zone if isinstance(spec.schedule, Cron) else "",
        tzdata=TZDATA_VERSION,
        queue_timeout_us=0 if is_dag else spec.policy.queue_timeout_us,
        run_timeout_us=0 if is_dag else spec.policy.run_timeout_us,
        dag=DagStart(payload) if is_dag else None,
        triggered_by=cause.source,
        hops=cause.hops,
    )


class Emitter:
    """Collects the records of one round."""

    def __init__(self, templates: Templates) -> None:
        self._names = templates.names
        self._templates = templates
        self.ahead: list[Outgoing] = []
        """What must stand in the log before ``messages``."""
        self.messages: list[Outgoing] = []

    @property
    def names(self) -> Names:
        return self._names

    def hand_out(self, *ready: Outgoing) -> None:
        """Records that were made before: of a command about a run, or of a deferred attempt."""
        self.messages += ready

    def run(
        self,
        version: JobVersion,
        *,
        fire_at: Instant,
        due_at: Instant,
        now: Instant,
        in_order: bool = True,
        gap_to_at: Instant = 0,
        is_last: bool = False,
    ) -> str:
        """Make a scheduled run: PENDING and its work record. Not ``in_order``: its PENDING names no due position.
        ``is_last``: its schedule makes no more.

        ``gap_to_at``: the end of the gap whose catch-up makes it, else 0. Never make one long before ``due_at``: a
        worker that reads a run back begins there (``Attempt.begun_at``).
        """
        run_id = make_run_id(version.job_id, fire_at)
        if is_last:
            pending, work = self._templates.last_of(version, gap_to_at)
        else:
            pending, work = self._templates.in_gap(version, gap_to_at) if gap_to_at else self._templates.of(version)
        # Stamped max(now, due): it may be decided just before its instant, and never shows an earlier one.
        self.messages.append(pending.pending(run_id, max(now, due_at), fire_at, due_at if in_order else None))
        if work is not None:
            self.messages.append(work.work(run_id, fire_at, due_at))
        return run_id

    def trigger(
        self,
        version: JobVersion,
        fire_at: Instant,
        series: int,
        payload: bytes | None,
        now: Instant,
        cause: Cause = NO_CAUSE,
    ) -> str:
        """Make the run of a trigger command: ``series`` is the command's revision number."""
        run_id = make_run_id(version.job_id, fire_at, series)
        pending, work = _templates(self._names, version, Origin.TRIGGER, payload, cause=cause)
        self.messages.append(pending.pending(run_id, max(now, fire_at), fire_at, None))
        if work is not None:
            self.messages.append(work.work(run_id, fire_at, fire_at))
        return run_id

    def rerun(self, run: RunFlow, pending: Pending, now: Instant) -> None:
        """Make a DagRun that runs an older one again."""
        event = RunEvent(EventKind.PENDING, job_of_run(run.run_id), run.run_id, max(now, run.fire_at), detail=pending)
        self.messages.append(messages.event_message(self._names, event))

    def release(self, version: JobVersion, run: RunFlow, now: Instant) -> None:
        """Make a run that was HELD: due now, and its times count from now."""
        at = max(now, run.fire_at)
        if run.payload is None and run.origin is Origin.SCHEDULE:
            pending, work = self._templates.last_of(version) if run.is_last else self._templates.of(version)
        else:
            cause = Cause(run.triggered_by, run.hops)
            pending, work = _templates(self._names, version, run.origin, run.payload, cause=cause)
        self.messages.append(pending.pending(run.run_id, at, run.fire_at, None))
        if work is not None:
            self.messages.append(work.work(run.run_id, run.fire_at, at))

    def run_of_backfill(
        self, version: JobVersion, fire_at: Instant, *, tier: Tier, number: int, now: Instant, known_to: int
    ) -> None:
        """Make a run of a past fire: PENDING, which SKIPPED gives way to, and its work, which says whose it is.

        ``known_to``: the run-events offset up to which nobody has run it: its claimer reads on from there.
        """
        run_id, spec = make_run_id(version.job_id, fire_at), version.spec
        pending = pending_of_version(version, Origin.BACKFILL)
        pending = pending._replace(fire_at=fire_at, tier=tier, backfill=number)
        work = WorkRecord(
            run_id=run_id,
            fire_at=fire_at,
            due_at=now,
            attempt=1,
            job_id=version.job_id,
            revision=version.revision,
            tier=tier,
            pool=spec.pool,
            handler=spec.handler,
            payload=spec.payload,
            executor=executor_to_json(spec.executor) if spec.executor else "",
            at_most_once=spec.at_most_once,
            policy=policy_to_json(spec.policy),
            verify_from=known_to,
            verify_state=_GIVES_WAY,
            backfill=make_backfill_id(version.job_id, number),
        )
        event = RunEvent(EventKind.PENDING, version.job_id, run_id, now, detail=pending)
        self.messages += (messages.event_message(self._names, event), messages.work_message(self._names, work))

    def backfill(self, event: RunEvent) -> None:
        """Say how a backfill stands."""
        self.messages.append(messages.event_message(self._names, event))

    def backfill_kept(self, partition: int, event: RunEvent) -> None:
        """Keep a backfill as it stands."""
        self.messages.append(messages.backfill_state_message(self._names, _ROLE, partition, event))

    def release_redrive(self, work: WorkRecord, linked_run: str, now: Instant) -> None:
        """Hand out the work of a redrive that was HELD."""
        detail = pending_of_redrive(work, linked_run)
        event = RunEvent(EventKind.PENDING, work.job_id, work.run_id, now, detail=detail)
        self.messages.append(messages.event_message(self._names, event))
        self.messages.append(messages.work_message(self._names, work._replace(due_at=now)))

    def skip(
        self,
        skipped: SkipRange,
        reason: str,
        *,
        now: Instant,
        due_at: Instant = 0,
        instead: str = "",
        gap_to_at: Instant = 0,
    ) -> None:
        """Record fires that make no run. ``due_at`` 0: the timeline's order did not decide them."""
        version = skipped.version
        detail = Skipped(
            revision=version.revision,
            from_at=skipped.from_at,
            to_at=skipped.to_at,
            fire_count=skipped.fire_count,
            tier=version.spec.tier,
            due_at=due_at,
            run_instead=instead,
            gap_to_at=gap_to_at,
        )
        run_id = make_run_id(version.job_id, skipped.from_at)
        event = RunEvent(EventKind.SKIPPED, version.job_id, run_id, now, reason=reason, detail=detail)
        self.messages.append(messages.event_message(self._names, event))

    def revised(
        self, version: JobVersion, action: str, edge_at: Instant, gaps: Sequence[tuple[Instant, Instant]], now: Instant
    ) -> None:
        """Say from where a revision counts (design §6). ``gaps``: (from, to), in which the job is not decided."""
        detail = Revised(version.revision, version.stamp_at, edge_at, action, tuple(gaps))
        event = RunEvent(EventKind.REVISED, version.job_id, "", now, detail=detail)
        self.messages.append(messages.event_message(self._names, event))

    def listens(self, version: JobVersion) -> None:
        """Say what starts a job from now on; where nothing does any more, that is forgotten."""
        on = None if version.status is JobStatus.DELETED else version.spec.on
        if on is None:
            self.messages.append(messages.triggers_tombstone(self._names, version.job_id))
            return
        standing = JobTriggers(version.job_id, version.revision, version.stamp_at, on)
        self.messages.append(messages.job_triggers_message(self._names, standing))

    def gathered(self, partition: int, gathering: Gathering) -> None:
        """Keep what has come of what a job waits for."""
        self.messages.append(messages.gathering_message(self._names, _ROLE, partition, gathering))

    def answered(self, job_id: str, answer: Answered, now: Instant) -> None:
        """Say what became of a command."""
        event = RunEvent(EventKind.ANSWERED, job_id, "", now, detail=answer)
        self.messages.append(messages.event_message(self._names, event))

    def order(self, command: Command) -> None:
        """A command of the owner's own, which comes back to it in the order of its shard."""
        self.messages.append(messages.command_message(self._names, command))

    def key_served(self, partition: int, state: KeyState) -> bytes:
        """Keep an intention that was served; returns what the state topic holds of it."""
        message = messages.key_state_message(self._names, _ROLE, partition, state)
        self.messages.append(message)
        return message.value or b""

    def state_forgotten(self, partition: int, key: str) -> None:
        """Forget what the state topic holds under ``key``."""
        self.messages.append(messages.state_tombstone(self._names, _ROLE, partition, key))

    def reject(self, record: Record, error: RequestError, now: Instant) -> None:
        """Forward a command that cannot be read, or is refused, with its bytes and the reason."""
        self.messages.append(rejection(self._names, record, error, now))

    def job_decided(self, partition: int, job_id: str, decided: Decided | None) -> None:
        """Keep, or with None forget, up to where a job's fires are decided."""
        if decided is None:
            self.state_forgotten(partition, job_id)
            return
        state = JobState(job_id, *decided)
        self.messages.append(messages.job_state_message(self._names, _ROLE, partition, state))

    def job_flow(self, partition: int, flow: JobFlow) -> None:
        """Keep the limits of a job."""
        self.messages.append(messages.flow_job_message(self._names, _ROLE, partition, flow))

    def run_flow(self, partition: int, flow: RunFlow) -> None:
        """Keep a run that is HELD or open."""
        self.messages.append(messages.flow_run_message(self._names, _ROLE, partition, flow))

    def cursor_copy(self, partition: int, state: ShardState) -> None:
        """Keep a copy of what rides in the offset metadata."""
        self.messages.append(messages.shard_state_message(self._names, _ROLE, partition, state))


def rejection(names: Names, record: Record, error: RequestError, now: Instant) -> Outgoing:
    """A record for ``rejects``."""
    source = SourceRecord(record.topic, record.partition, record.offset, record.key, record.value, record.headers)
    return messages.reject_message(names, Reject(_ROLE, error.message, error.pointer, error.hint, now, source))
