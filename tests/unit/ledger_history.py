"""A job's history in plain steps, as a dispatcher would leave it: facts, and the verdict on them.

The fires are found by going through every second, the owner of one by looking at the stamps, and its due time by the
oracle: nothing of the ledger's arithmetic is used to make what it is to judge.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.oracle import policies
from waterclock.ledger.balance import judge_job
from waterclock.ledger.facts import Facts, JobFacts
from waterclock.ledger.sums import FaultKind, HourSum, Span, Sums
from waterclock.model.events import EventKind, Origin, Pending, Revised, RunEvent, Skipped
from waterclock.model.ids import US_PER_S, Instant, make_run_id
from waterclock.model.job import Cron, Dates, Every, JobSpec, JobStatus, JobVersion, Once, Tier
from waterclock.model.timing import PLAIN, Timing, timing_to_json

JOB = "t:job"
START_S = 1_795_003_200  # a whole hour
HOUR_S = 3_600


def spec(schedule: Cron | Every | Once | Dates, timing: Timing = PLAIN) -> JobSpec:
    return JobSpec("demo.noop", schedule, timing=timing)


def every(seconds: int, timing: Timing = PLAIN) -> JobSpec:
    return spec(Every(seconds * US_PER_S), timing)


def second_cron(step: int, timing: Timing = PLAIN) -> JobSpec:
    return spec(Cron(f"*/{step} * * * * *", seconds=True), timing)


def jitter(seconds: int, *, per_fire: bool = False) -> Timing:
    return Timing(jitter_us=seconds * US_PER_S, jitter_per_fire=per_fire)


def due_at(version: JobVersion, fire_at: Instant) -> Instant:
    due: Instant = policies.due(version.job_id, {"timing": timing_to_json(version.spec.timing)}, fire_at)
    return due


def fires_at(version: JobVersion, second: int) -> bool:
    """Whether this schedule fires in this very second, by what it says of itself."""
    schedule, timing = version.spec.schedule, version.spec.timing
    if second * US_PER_S < timing.from_at or 0 < timing.until_at <= second * US_PER_S:
        return False
    if isinstance(schedule, Dates):
        return second * US_PER_S in schedule.times
    if isinstance(schedule, Every):
        anchor_s = version.anchor_at // US_PER_S
        return second > anchor_s and (second - anchor_s) % (schedule.every_us // US_PER_S) == 0
    if isinstance(schedule, Once):
        return schedule.at == second * US_PER_S
    step = int(schedule.text.partition(" ")[0].removeprefix("*/"))
    return second % 60 % step == 0


@dataclass
class History:
    """Times in seconds since ``START_S``. ``edge_s``: what is due by then, the job's owner has decided."""

    versions: list[JobVersion] = field(default_factory=list)
    events: list[RunEvent] = field(default_factory=list)
    edge_s: int = 0
    decided: set[int] = field(default_factory=set)
    """Fire times, whenever they are due: nobody decides them again."""

    # What happens -------------------------------------------------------------------------------------------------

    def command(self, stamp_s: int, status: JobStatus = JobStatus.ACTIVE, spec: JobSpec | None = None) -> None:
        """A command that is applied now: the edge is where the job stands."""
        before = self.versions[-1] if self.versions else None
        revision = len(self.versions) + 1
        wanted = spec or (before.spec if before else every(60))
        is_new = spec is not None or before is None
        stamp_at = self.at(stamp_s)
        anchor_at = before.anchor_at if before else 0
        if before is None or before.status is JobStatus.DELETED or before.spec.schedule != wanted.schedule:
            anchor_at = stamp_at if isinstance(wanted.schedule, Every) else 0
        version = JobVersion(JOB, revision, wanted, status, "test", stamp_at, anchor_at,
                             revision if is_new or before is None else before.spec_revision, self.at(0))  # fmt: skip
        if before is not None and before.status is JobStatus.PAUSED:
            self._skip_all(before, self._paused_s, stamp_s, "paused", self.edge_s)
            decided_s = max(self.edge_s, stamp_s)
        elif status is not JobStatus.ACTIVE:
            reason = {JobStatus.PAUSED: "paused", JobStatus.ENDED: "ended"}.get(status, "deleted")
            for each in self.versions:
                if each.status is JobStatus.ACTIVE:
                    self._skip_all(each, self.edge_s, stamp_s, reason)
            decided_s = max(self.edge_s, stamp_s)
        else:
            decided_s = self.edge_s
        self.revised(version, self.edge_s)
        self.versions.append(version)
        self._paused_s = self.edge_s
        self.edge_s = decided_s

    _paused_s = 0

    def fire(self, until_s: int, coalesced: tuple[int, int] = (0, 0)) -> None:
        """Decide what is due up to then; the fires in [first, second) of ``coalesced`` are skipped together."""
        waiting: list[tuple[JobVersion, int]] = []
        for second in range(self.edge_s - 2 * HOUR_S, until_s + 1):
            owner = self.owner(second)
            if owner is None or owner.status is not JobStatus.ACTIVE or not self._owes(owner, second):
                continue
            if not self.at(self.edge_s) < due_at(owner, self.at(second)) <= self.at(until_s):
                continue
            self.decided.add(second)
            if coalesced[0] <= second < coalesced[1]:
                waiting.append((owner, second))
            else:
                self.run(owner.revision, second)
        for version in self.versions:
            ours = [second for owner, second in waiting if owner is version]
            if ours:
                self.skip(version.revision, ours[0], ours[-1], len(ours), "coalesced")
        self.edge_s = max(self.edge_s, until_s)

    def owner(self, second: int) -> JobVersion | None:
        """The newest version stamped before it."""
        return next((each for each in reversed(self.versions) if each.stamp_at < self.at(second)), None)

    def _owes(self, version: JobVersion, second: int) -> bool:
        return second not in self.decided and fires_at(version, START_S + second)

    def _skip_all(self, version: JobVersion, edge_s: int, until_s: int, reason: str, due_until_s: int = 0) -> None:
        """What has a fire time up to ``until_s``, or is due by ``due_until_s``, and was not due by ``edge_s``."""
        ours = [
            second
            for second in range(edge_s - 2 * HOUR_S, max(until_s, due_until_s) + 1)
            if self.owner(second) is version and self._owes(version, second)
            if due_at(version, self.at(second)) > self.at(edge_s)
            if second <= until_s or due_at(version, self.at(second)) <= self.at(due_until_s)
        ]
        self.decided.update(ours)
        if ours:
            self.skip(version.revision, ours[0], ours[-1], len(ours), reason)

    # What is written ----------------------------------------------------------------------------------------------

    @staticmethod
    def at(second: int) -> Instant:
        return (START_S + second) * US_PER_S

    def run(self, revision: int, second: int, series: int = 0) -> None:
        at = self.at(second)
        detail = Pending(revision, at, at, Tier.MEDIUM, Origin.TRIGGER if series else Origin.SCHEDULE)
        self._write(RunEvent(EventKind.PENDING, JOB, make_run_id(JOB, at, series), at, detail=detail))

    def skip(self, revision: int, first_s: int, last_s: int, count: int, reason: str) -> None:
        first, last = self.at(first_s), self.at(last_s)
        detail = Skipped(revision, first, last, count, Tier.MEDIUM, 0)
        self._write(RunEvent(EventKind.SKIPPED, JOB, make_run_id(JOB, first), last, reason=reason, detail=detail))

    def revised(self, version: JobVersion, edge_s: int) -> None:
        detail = Revised(version.revision, version.stamp_at, self.at(edge_s), "UPDATE")
        self._write(RunEvent(EventKind.REVISED, JOB, "", version.stamp_at, detail=detail))

    def _write(self, event: RunEvent) -> None:
        self.events.append(event)

    # What is said of it -------------------------------------------------------------------------------------------

    def judged(self, from_s: int = 0, decided_s: int = HOUR_S, until_s: int = 0) -> Sums:
        """The verdict on the fires in [from, decided), by a cursor that has passed the second before ``decided``."""
        span = Span(self.at(from_s), self.at(decided_s), self.at(until_s or decided_s), self.at(decided_s - 1) + 1)
        return judged(self.versions, self.events, span)


def judged(versions: list[JobVersion], events: list[RunEvent], span: Span) -> Sums:
    facts = Facts(span.from_at, span.decided_to)
    for event in events:
        facts.take(event, event.at)
    sums = Sums(3)
    judge_job(JOB, versions, facts.jobs.get(JOB, JobFacts()), span, sums)
    return sums


def total(sums: Sums) -> HourSum:
    """All hours in one."""
    whole = HourSum()
    for hour in sums.hours.values():
        whole.owed += hour.owed
        whole.runs += hour.runs
        whole.not_yet += hour.not_yet
        whole.skipped += hour.skipped
        whole.faults += hour.faults
        whole.named += hour.named
    return whole


def kinds(sums: Sums) -> dict[FaultKind, int]:
    return dict(total(sums).faults)
