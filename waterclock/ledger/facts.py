"""What run-events says of the fires of one shard, job by job, within a span and a bound. Pure.

Only what the timeline makes is kept: PENDING and HELD of a schedule's own fires, SKIPPED, and REVISED. Runs of triggers
and redrives (their ids carry a series), retries and nodes are no fires.

What must hold: a fact of the span is never dropped in silence. Over ``facts_max`` the newest hour is given up and the
span ends before it (``until_at``): whoever collects reads that part in another pass. How it fails: Busy, where a single
hour holds more.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from waterclock.model.backfill import Backfilled as Told
from waterclock.model.errors import Busy, RequestError
from waterclock.model.events import EventKind, Origin, Pending, Revised, RunEvent, Skipped
from waterclock.model.ids import US_PER_S, Instant, parse_run_id

from .chain_facts import ChainRun, begun_by

HOUR_US = 3_600 * US_PER_S
FACTS_MAX = 1_000_000
"""Facts of one shard in memory, about 200 bytes each."""


def hour_of(at: Instant) -> int:
    """Hours since the epoch."""
    return at // HOUR_US


class SkipFact(NamedTuple):
    """A SKIPPED, with its reason."""

    skipped: Skipped
    reason: str


class RevisedFact(NamedTuple):
    """A REVISED, and the record time at which it stands."""

    revised: Revised
    at: Instant


class Backfilled(NamedTuple):
    """A run of a backfill: its fire, the revision that it is made of, and which backfill made it."""

    fire_at: Instant
    revision: int
    number: int


@dataclass(slots=True)
class JobFacts:
    """What was decided for one job. ``runs``: (fire time, revision) of each PENDING; ``held``: fire times.

    ``backfilled``: what backfills made; ``backfills``: by number, what was told last of each. ``chain``: the newest run
    that a fixed delay may have made, whenever it fires.
    """

    runs: list[tuple[Instant, int]] = field(default_factory=list)
    held: list[Instant] = field(default_factory=list)
    skipped: list[SkipFact] = field(default_factory=list)
    revised: list[RevisedFact] = field(default_factory=list)
    backfilled: list[Backfilled] = field(default_factory=list)
    backfills: dict[int, Told] = field(default_factory=dict)
    chain: ChainRun | None = None


class Facts:
    """The facts of one shard about fires in [``from_at``, ``until_at``), taken in the order of the log."""

    def __init__(self, from_at: Instant, until_at: Instant, facts_max: int = FACTS_MAX) -> None:
        self.from_at = from_at
        self.until_at = until_at
        self.jobs: dict[str, JobFacts] = {}
        self.tzdata: set[str] = set()
        """Versions of zone data that runs of zoned schedules were made with."""
        self.unreadable = 0
        """Events whose run id is none."""
        self._facts_max = facts_max
        self._by_hour: Counter[int] = Counter()
        self._kept = 0

    def take(self, event: RunEvent, at: Instant, token: int = 0) -> None:
        """One event, with its record time; ``token``: its offset as a fencing token. Raises Busy at the bound."""
        kind = event.kind
        known = self.jobs.get(event.job_id)
        if known is not None and known.chain is not None and known.chain.run_id == event.run_id:
            known.chain.take(event, at, token)
        if kind is EventKind.PENDING or kind is EventKind.HELD:
            if "~" not in event.run_id and "/" not in event.run_id:
                self._take_run(event)
        elif kind is EventKind.SKIPPED:
            self._take_skip(event)
        elif kind is EventKind.BACKFILL and isinstance(event.detail, Told):
            if event.detail.from_at < self.until_at and event.detail.to_at > self.from_at:
                self._of(event).backfills[event.detail.number] = event.detail
        elif kind is EventKind.REVISED and isinstance(event.detail, Revised):
            self._of(event).revised.append(RevisedFact(event.detail, at))

    def _take_run(self, event: RunEvent) -> None:
        detail = event.detail
        try:
            fire_at = parse_run_id(event.run_id).fire_at
        except RequestError:
            self.unreadable += 1
            return
        begun = begun_by(event)
        if begun is not None and (self._of(event).chain is None or fire_at > self._chain_at(event)):
            self._of(event).chain = begun
        if not self.from_at <= fire_at < self.until_at:
            return
        if event.kind is EventKind.HELD or not isinstance(detail, Pending):
            self._of(event).held.append(fire_at)
        elif detail.origin is Origin.BACKFILL:
            self._of(event).backfilled.append(Backfilled(fire_at, detail.revision, detail.backfill))
        else:
            self._of(event).runs.append((fire_at, detail.revision))
            if detail.zone and detail.tzdata:
                self.tzdata.add(detail.tzdata)
        self._count(fire_at)

    def _chain_at(self, event: RunEvent) -> Instant:
        chain = self._of(event).chain
        return chain.fire_at if chain else 0

    def _take_skip(self, event: RunEvent) -> None:
        skipped = event.detail
        if "~" in event.run_id:
            return  # a trigger's run that was dropped is no fire
        if isinstance(skipped, Skipped) and skipped.from_at < self.until_at and skipped.to_at >= self.from_at:
            self._of(event).skipped.append(SkipFact(skipped, event.reason))
            self._count(max(skipped.from_at, self.from_at))

    def _of(self, event: RunEvent) -> JobFacts:
        known = self.jobs.get(event.job_id)
        if known is None:
            known = self.jobs[event.job_id] = JobFacts()
        return known

    def _count(self, at: Instant) -> None:
        self._by_hour[hour_of(at)] += 1
        self._kept += 1
        if self._kept > self._facts_max:
            self._give_up_newest()

    def _give_up_newest(self) -> None:
        newest = max(self._by_hour)
        if newest == hour_of(self.from_at):
            raise Busy(
                f"one hour of a shard has more than {self._facts_max} facts",
                hint="Judge fewer jobs at once: --job",
            )
        self.until_at = newest * HOUR_US
        self._kept -= self._by_hour.pop(newest)
        for job in self.jobs.values():
            job.runs = [run for run in job.runs if run[0] < self.until_at]
            job.held = [fire_at for fire_at in job.held if fire_at < self.until_at]
            job.backfilled = [each for each in job.backfilled if each.fire_at < self.until_at]
            job.skipped = [each for each in job.skipped if each.skipped.from_at < self.until_at]
