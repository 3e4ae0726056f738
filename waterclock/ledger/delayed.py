"""Fixed delays in the ledger: what a job's chain has made and skipped, and whether it goes on. Pure.

A fire of a chain is owed by the end before it, so by the hour it is owed as it is made: what can be missing is the next
one. Told is a first run that was never made and a chain that stopped, each at the instant at which its fire was owed;
a fire within its own delay of the one before it, which only a second chain makes; and a fire from before its version.

What must hold: nothing is called missing while the run before it is open, or may be, nor once all runs are made that
``max_runs`` allows. Limits: a chain whose last run lies before what was read of the log is not judged; that a fire came
too late is not seen, once it has come; where an edit bounds a chain by runs that lie before what was read, its next
fire is called missing until the END has come.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from waterclock.model.delay_rules import count_of, next_after
from waterclock.model.events import Revised
from waterclock.model.ids import US_PER_MINUTE, Instant, make_run_id
from waterclock.model.job import Delay, JobStatus, JobVersion

from .duties import MAX_RUNS, PAUSED, REASONS
from .facts import HOUR_US, JobFacts, hour_of
from .sums import FaultKind, Span, Sums

LATE_US = US_PER_MINUTE
"""So long after it was owed, and before the chain's end, a fire must be decided."""


class _Part(NamedTuple):
    """Fires of one version from ``from_at`` to ``to_at``, a delay apart: one that ran, or some that were skipped."""

    from_at: Instant
    to_at: Instant
    version: JobVersion
    reason: str = ""


def delay_of(version: JobVersion) -> int:
    """The delay, in microseconds; 0: the version has no chain."""
    schedule = version.spec.schedule
    return schedule.delay_us if isinstance(schedule, Delay) and version.status is not JobStatus.DELETED else 0


def judge_chains(job_id: str, versions: Sequence[JobVersion], facts: JobFacts, span: Span, sums: Sums) -> JobFacts:
    """Add what the job's chains have done to ``sums``; answers the facts that are no chain's. ``versions``: oldest
    first."""
    if not any(isinstance(version.spec.schedule, Delay) for version in versions):
        return facts
    judge = _Judge(job_id, versions, facts, span, sums)
    judge.judge()
    revisions = judge.revisions
    return replace(
        facts,
        runs=[run for run in facts.runs if run[1] not in revisions],
        skipped=[fact for fact in facts.skipped if fact.skipped.revision not in revisions],
    )


class _Judge:
    def __init__(self, job_id: str, versions: Sequence[JobVersion], facts: JobFacts, span: Span, sums: Sums) -> None:
        self._job_id = job_id
        self._versions = versions
        self._facts = facts
        self._span = span
        self._sums = sums
        by_revision = {each.revision: each for each in versions if isinstance(each.spec.schedule, Delay)}
        self.revisions = frozenset(by_revision)
        self._parts = sorted(self._parts_of(by_revision), key=lambda part: part[:2])

    def judge(self) -> None:
        before: _Part | None = None
        for part in self._parts:
            self._count(part)
            if part.from_at <= part.version.stamp_at:
                self._fault(FaultKind.WRONG, part.from_at, "fires before its own version")
            if before is not None and self._is_too_soon(before, part):
                self._fault(FaultKind.DOUBLED, part.from_at, "fires within its delay of the fire before it")
            before = part
        self._look_at_end()

    def _parts_of(self, by_revision: Mapping[int, JobVersion]) -> list[_Part]:
        found = [_Part(at, at, by_revision[revision]) for at, revision in self._facts.runs if revision in by_revision]
        for skipped, reason in self._facts.skipped:
            version = by_revision.get(skipped.revision)
            if version is None:
                continue
            found.append(_Part(skipped.from_at, skipped.to_at, version, reason))
            if skipped.fire_count != count_of(skipped.from_at, skipped.to_at, _delay(version)):
                why = f"SKIPPED ({reason}) says {skipped.fire_count} fires up to {skipped.to_at}"
                self._fault(FaultKind.WRONG, skipped.from_at, why)
        return found

    def _count(self, part: _Part) -> None:
        """By the hour, as far as it lies in the span."""
        delay_us = _delay(part.version)
        at = part.from_at
        if at < self._span.from_at:
            at += -(-(self._span.from_at - at) // delay_us) * delay_us
        until = min(part.to_at, self._span.decided_to - 1)
        while at <= until:  # ends: every turn goes at least to the end of an hour
            end = min(until, (hour_of(at) + 1) * HOUR_US - 1)
            count = count_of(at, end, delay_us)
            hour = self._sums.at(at)
            hour.owed += count
            if part.reason:
                hour.skipped[part.reason] += count
            else:
                hour.runs += count
            at += count * delay_us

    def _is_too_soon(self, before: _Part, part: _Part) -> bool:
        if part.from_at >= before.to_at + _delay(part.version):
            return False
        low, high = sorted((before.version.revision, part.version.revision))
        between = [version for version in self._versions if low < version.revision <= high]
        return all(delay_of(version) for version in between)

    # Whether it goes on -------------------------------------------------------------------------------------------

    def _look_at_end(self) -> None:
        """Of the newest chain: while a version of it stood ACTIVE last, was its next fire decided?"""
        chain = self._newest_chain()
        active = next((each for each in reversed(chain) if each.status is JobStatus.ACTIVE), None)
        if active is None:
            return
        after = next((each for each in self._versions if each.revision > active.revision), None)
        counts_from = self._counts_from(chain)
        if counts_from is None or self._is_full(active, after):
            return
        fire_at = next_after(counts_from, _delay(active), self._floor_of(active))
        until = self._span.decided_to if after is None else min(after.stamp_at, self._span.decided_to)
        ends_at = active.spec.timing.until_at
        run = self._facts.chain
        known_at = max(fire_at, run.known_at if run else 0)  # an end may be told long after it was
        if not self._is_closed(active) and not 0 < ends_at <= fire_at and known_at <= until - LATE_US:
            self._sums.at(max(fire_at, self._span.from_at)).owed += 1
            self._fault(FaultKind.MISSING, fire_at, "neither a run nor a skip: its chain has stopped")
        newest = self._versions[-1]
        if newest.status is JobStatus.PAUSED and newest is after:
            first = next_after(counts_from, _delay(newest), self._floor_of(newest))
            last = min(self._span.decided_to, ends_at or self._span.decided_to) - 1
            if first <= last:  # one SKIPPED will say so when the pause ends
                self._count(_Part(first, last, newest, PAUSED))

    def _newest_chain(self) -> list[JobVersion]:
        """The versions of the last chain, oldest first; none where that has ended otherwise than by a pause."""
        found: list[JobVersion] = []
        for version in reversed(self._versions):
            if not delay_of(version):
                break
            found.append(version)
        return found[::-1]

    def _is_full(self, active: JobVersion, after: JobVersion | None) -> bool:
        """Whether all runs are made that ``max_runs`` allows.

        The END behind it says so, for only the shard's owner gives that. An edit may bound a chain by what it has made
        already, so that no run is marked as the last one; and the END may wait for an owner.
        """
        if after is not None and after.status is JobStatus.ENDED:
            return True
        most = active.spec.timing.max_runs
        since = self._counted_since(active)
        return 0 < most <= sum(revision >= since for _, revision in self._facts.runs)

    def _counted_since(self, active: JobVersion) -> int:
        """The revision from which on its runs count: the first of those in a row that have a ``max_runs``."""
        since = active.revision
        for version in reversed([each for each in self._versions if each.revision <= active.revision]):
            if version.status is JobStatus.DELETED or not version.spec.timing.max_runs:
                break
            since = version.revision
        return since

    def _is_closed(self, active: JobVersion) -> bool:
        """Whether a command has skipped what the version still owed."""
        return any(part.version is active and part.reason in REASONS.values() for part in self._parts)

    def _counts_from(self, chain: Sequence[JobVersion]) -> Instant | None:
        """What its next fire counts from, 0: it is the first; None where a run is open, or nothing is known."""
        begins = chain[0].revision
        own = [part for part in self._parts if part.version.revision >= begins]
        run = self._facts.chain
        if run is not None and run.revision < begins:
            run = None
        last = own[-1] if own else None
        if last is not None and last.reason == MAX_RUNS:
            return None
        if last is not None and last.reason and (run is None or last.to_at > run.fire_at):
            return last.to_at
        if run is not None:
            if not run.ended_at or run.is_last or (last is not None and last.to_at > run.fire_at):
                return None
            return run.ended_at
        is_seen = chain[0].stamp_at >= self._span.from_at and self._is_whole(chain[0])
        return 0 if last is None and is_seen else None

    def _is_whole(self, first: JobVersion) -> bool:
        """Whether the log was read from before this version on: it says what that has counted from."""
        return first.revision in {fact.revised.revision for fact in self._facts.revised}

    def _floor_of(self, version: JobVersion) -> Instant:
        said: Revised | None = next(
            (fact.revised for fact in self._facts.revised if fact.revised.revision == version.revision), None
        )
        edge_at = said.edge_at if said else version.stamp_at
        return max(version.stamp_at + 1, edge_at + 1, version.spec.timing.from_at)

    def _fault(self, kind: FaultKind, fire_at: Instant, why: str) -> None:
        if fire_at < self._span.decided_to:
            at = max(fire_at, self._span.from_at)
            self._sums.fault(kind, at, make_run_id(self._job_id, fire_at), why)


def _delay(version: JobVersion) -> int:
    schedule = version.spec.schedule
    assert isinstance(schedule, Delay)
    return schedule.delay_us
