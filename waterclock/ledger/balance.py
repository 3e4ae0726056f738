"""Owed against decided, for one job and one span: what is missing, doubled or wrong. Pure.

Every decided fire is shown to be owed, and as what it was decided; no two of them are the same; and by the hour there
are as many of them as are owed. Then the two sets are equal, though nobody visited the fires that were skipped: those
are counted by the schedule's arithmetic. Only the hours in which a number is short are gone through fire by fire.

What must hold: every fact of the span is either shown to be owed or counted as a fault. A fire that is wrong may show
twice: as what it is, and as missing where something else was owed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TypeAlias

from waterclock.model.events import Revised
from waterclock.model.ids import US_PER_MINUTE, Instant, make_run_id
from waterclock.model.job import JobVersion
from waterclock.model.timetable import count_blocked, count_of, is_blocked, next_of

from .backfilled import BackfillJudge
from .delayed import judge_chains
from .duties import CALENDAR, EXPIRED, MAX_RUNS, PAUSED, REASONS, Stretch, stretches_of
from .facts import HOUR_US, JobFacts, RevisedFact, SkipFact, hour_of
from .sums import FaultKind, Span, Sums

EDGE_AHEAD_US = 10 * US_PER_MINUTE
"""An edge so far ahead of its own record would excuse fires that nobody decided; no clock is that wrong for long."""

_FIRES_OF_HOUR = 3_600
"""No schedule fires more often than once a second."""

_Covered: TypeAlias = tuple[Instant, Instant, JobVersion, str]
"""Fires of this version in (first, second] were skipped, as they had to be, for this reason."""


def judge_job(
    job_id: str, versions: Sequence[JobVersion], facts: JobFacts, span: Span, sums: Sums, *, is_whole: bool = True
) -> None:
    """Add one job to ``sums``. ``versions``: those in force, oldest first; ``is_whole``: none older is left out."""
    facts = judge_chains(job_id, versions, facts, span, sums)
    _Judge(job_id, versions, facts, span, sums, is_whole=is_whole).judge()


class _Judge:
    """One job. ``_made`` and ``_covered`` are what was found to be decided as it was owed."""

    def __init__(
        self,
        job_id: str,
        versions: Sequence[JobVersion],
        facts: JobFacts,
        span: Span,
        sums: Sums,
        *,
        is_whole: bool,
    ) -> None:
        self._job_id = job_id
        self._facts = facts
        self._span = span
        self._sums = sums
        self._versions = {version.revision: version for version in versions}
        revised = self._revised(facts.revised)
        until = max(span.until_at, span.decided_to) - 1
        self._stretches = [
            part
            for stretch in stretches_of(versions, revised, until, is_whole=is_whole)
            for part in stretch.parted(span.due_before, span.decided_to - 1, span.open_gaps)
        ]
        self._starts = [each.after for each in self._stretches]
        self._made: list[Instant] = []
        self._covered: list[_Covered] = []
        self._cover_starts: list[Instant] = []

    def judge(self) -> None:
        self._unrevised()
        self._take_skips()
        # In the order of time, and they never overlap: from here on they are looked up.
        self._covered.sort(key=lambda each: each[:2])
        self._cover_starts = [after for after, *_ in self._covered]
        self._take_runs()
        self._made.sort()
        for stretch in self._stretches:
            self._count_owed(stretch)
        facts, span = self._facts, self._span
        if facts.backfilled or facts.backfills:
            judge = BackfillJudge(
                self._job_id, self._versions, facts, span, self._sums, reason_of=self._reason_of, owes=self._owes
            )
            judge.judge()

    # What is said -------------------------------------------------------------------------------------------------

    def _revised(self, said: Iterable[RevisedFact]) -> Mapping[int, Revised]:
        found: dict[int, Revised] = {}
        for revised, at in said:
            version = self._versions.get(revised.revision)
            if revised.revision in found:
                self._wrong_record(FaultKind.DOUBLED, revised, "REVISED was written twice")
            elif version is None:
                self._wrong_record(FaultKind.WRONG, revised, "REVISED of a revision that the store does not have")
            elif version.stamp_at != revised.stamp_at:
                self._wrong_record(FaultKind.WRONG, revised, "REVISED names another stamp than the store")
            elif revised.edge_at > max(at, revised.stamp_at) + EDGE_AHEAD_US:
                self._wrong_record(FaultKind.WRONG, revised, "REVISED names an edge ahead of its own time")
            found.setdefault(revised.revision, revised)
        return found

    def _wrong_record(self, kind: FaultKind, revised: Revised, why: str) -> None:
        if self._span.from_at <= revised.stamp_at < self._span.decided_to:
            self._sums.fault(kind, revised.stamp_at, self._job_id, f"{why} ({revised.revision})")

    def _unrevised(self) -> None:
        """Without its REVISED nobody knows from where a version counts."""
        said = {fact.revised.revision for fact in self._facts.revised}
        for version in self._versions.values():
            is_ours = self._span.from_at <= version.stamp_at < self._span.decided_to
            if is_ours and version.revision not in said:
                why = f"revision {version.revision} counts, and no REVISED says from where"
                self._sums.fault(FaultKind.MISSING, version.stamp_at, self._job_id, why)

    # What was decided ---------------------------------------------------------------------------------------------

    def _take_skips(self) -> None:
        facts = sorted(self._facts.skipped, key=lambda fact: (fact.skipped.from_at, fact.skipped.to_at))
        covered_to: dict[int, Instant] = {}
        for fact in facts:
            skipped = fact.skipped
            version = self._versions.get(skipped.revision)
            at = self._cut(skipped.from_at)
            if version is None:
                why = f"skipped as of revision {skipped.revision}, which the store does not have"
                self._fault(FaultKind.WRONG, at, skipped.from_at, why)
                continue
            self._check_range(fact, version)
            twice_to = min(covered_to.get(skipped.revision, skipped.from_at - 1), skipped.to_at)
            twice = self._inside(version, skipped.from_at - 1, twice_to)
            if twice:
                why = f"{twice} fires skipped twice, the second time as {fact.reason}"
                self._fault(FaultKind.DOUBLED, at, skipped.from_at, why, twice)
            begin = max(skipped.from_at - 1, twice_to)
            covered_to[skipped.revision] = max(twice_to, skipped.to_at)
            self._cover(fact, version, begin)

    def _check_range(self, fact: SkipFact, version: JobVersion) -> None:
        """What a range says of itself, by the arithmetic of the schedule that it names."""
        skipped = fact.skipped
        count = count_of(version, skipped.from_at - 1, skipped.to_at)
        ends = skipped.from_at <= skipped.to_at and _fires(version, skipped.from_at) and _fires(version, skipped.to_at)
        if count != skipped.fire_count or not ends:
            why = f"SKIPPED ({fact.reason}) says {skipped.fire_count} fires up to {skipped.to_at}, there are {count}"
            self._fault(FaultKind.WRONG, self._cut(skipped.from_at), skipped.from_at, why)

    def _cover(self, fact: SkipFact, version: JobVersion, begin: Instant) -> None:
        """The fires of a range in (begin, to] that were to be skipped for its reason."""
        skipped = fact.skipped
        right = 0
        for stretch in self._stretches:
            if stretch.version is version and _may_skip(stretch, fact.reason):
                after, until = self._clip(max(begin, stretch.after), min(skipped.to_at, stretch.until))
                count = _count_for(version, after, until, fact.reason) if after < until else 0
                right += count
                if count and not stretch.not_yet:
                    self._covered.append((after, until, version, fact.reason))
                    self._sum_skipped(stretch, after, until, fact.reason)
        wrong = self._inside(version, begin, skipped.to_at) - right
        if wrong > 0:
            why = f"{wrong} fires skipped ({fact.reason}) as of revision {version.revision}, which was not owed"
            self._fault(FaultKind.WRONG, self._cut(skipped.from_at), skipped.from_at, why, wrong)

    def _take_runs(self) -> None:
        made = set[Instant]()
        for fire_at, revision in self._facts.runs:
            self._take_run(fire_at, revision, made)
        for fire_at in self._facts.held:  # what was released has a PENDING; what was skipped in the end is a skip
            stretch = self._stretch_at(fire_at)
            if fire_at not in made and stretch and not self._is_covered(fire_at):
                self._take_run(fire_at, stretch.version.revision, made)

    def _take_run(self, fire_at: Instant, revision: int, made: set[Instant]) -> None:
        if not self._span.from_at <= fire_at < self._span.decided_to:
            return
        if fire_at in made:
            self._fault(FaultKind.DOUBLED, fire_at, fire_at, "PENDING was written twice")
            return
        made.add(fire_at)
        stretch = self._stretch_at(fire_at)
        if stretch is not None and stretch.not_yet:
            return  # the log went on after the cursor was asked for
        wrong = self._wrong_run(fire_at, revision)
        if wrong:
            self._fault(FaultKind.WRONG, fire_at, fire_at, wrong)
            # As a fire that had to run it is there, be it of the wrong revision; a fire that had to be skipped is not.
            if stretch is None or stretch.reason or not _fires(stretch.version, fire_at):
                return
            if is_blocked(stretch.version.spec, fire_at):
                return
        if self._is_covered(fire_at):
            self._fault(FaultKind.DOUBLED, fire_at, fire_at, "run, and skipped as well")
            return
        self._made.append(fire_at)
        self._sums.at(fire_at).runs += 1

    def _wrong_run(self, fire_at: Instant, revision: int) -> str:
        """What is wrong with a run of this fire; "" where nothing is."""
        stretch = self._stretch_at(fire_at)
        if stretch is None:
            return "a run, and no version of the job owed it"
        if stretch.version.revision != revision:
            return f"made of revision {revision}, owed by {stretch.version.revision}"
        if not _fires(stretch.version, fire_at):
            return "a run, and no fire of its schedule"
        if is_blocked(stretch.version.spec, fire_at):
            return "a run, and its calendars block that time"
        return f"a run, owed was a skip ({stretch.reason})" if stretch.reason else ""

    # What was owed ------------------------------------------------------------------------------------------------

    def _count_owed(self, stretch: Stretch) -> None:
        """By the hour, passing over those without a fire."""
        at = max(stretch.after, self._span.from_at - 1)
        until = stretch.until
        while at < until:  # ends: every turn goes at least to the end of an hour
            found = next_of(stretch.version, at)
            if found is None or found > until:
                return
            end = min(until, (hour_of(found) + 1) * HOUR_US - 1)
            self._count_hour(stretch, found - 1, end)
            at = end

    def _count_hour(self, stretch: Stretch, after: Instant, until: Instant) -> None:
        count = stretch.fires_in(after, until)
        hour = self._sums.at(until)
        if stretch.not_yet:
            hour.not_yet += count
            return
        hour.owed += count
        if stretch.standing:
            hour.skipped[PAUSED] += count  # one SKIPPED will say so when the pause ends
            return
        found = bisect_right(self._made, until) - bisect_right(self._made, after)
        found += sum(stretch.fires_in(begin, end) for begin, end in self._covers(stretch, after, until))
        if found < count:
            self._name_missing(stretch, after, until, count - found)

    def _name_missing(self, stretch: Stretch, after: Instant, until: Instant, count: int) -> None:
        made = set(self._made[bisect_right(self._made, after) : bisect_right(self._made, until)])
        why = f"owed as a skip ({stretch.reason})" if stretch.reason else "neither a run nor a skip"
        named = 0
        for fire_at in islice(_walk(stretch.version, after, until), _FIRES_OF_HOUR):
            if fire_at not in made and not self._is_covered(fire_at):
                self._fault(FaultKind.MISSING, fire_at, fire_at, why)
                named += 1
        if named < count:  # a schedule of more than one fire a second
            self._fault(FaultKind.MISSING, until, until, why, count - named)

    # Places -------------------------------------------------------------------------------------------------------

    def _fault(self, kind: FaultKind, at: Instant, fire_at: Instant, why: str, count: int = 1) -> None:
        self._sums.fault(kind, at, make_run_id(self._job_id, fire_at), why, count)

    def _stretch_at(self, fire_at: Instant) -> Stretch | None:
        number = bisect_right(self._starts, fire_at - 1) - 1
        if number < 0 or self._stretches[number].until < fire_at:
            return None
        return self._stretches[number]

    def _covers(self, stretch: Stretch, after: Instant, until: Instant) -> Iterator[tuple[Instant, Instant]]:
        """The parts of (after, until] in which fires of the stretch's version were skipped."""
        number = max(bisect_right(self._cover_starts, after) - 1, 0)
        for begin, end, version, _ in islice(self._covered, number, None):
            if begin >= until:
                return
            if version is stretch.version:
                yield max(after, begin), min(until, end)

    def _is_covered(self, fire_at: Instant) -> bool:
        """Whether it was skipped."""
        return bool(self._reason_of(fire_at))

    def _reason_of(self, fire_at: Instant) -> str:
        """Why it was skipped; "" where it was not."""
        number = bisect_right(self._cover_starts, fire_at - 1) - 1
        if number < 0 or self._covered[number][1] < fire_at:
            return ""
        return self._covered[number][3] if _fires(self._covered[number][2], fire_at) else ""

    def _owes(self, fire_at: Instant) -> bool:
        """Whether the schedule owed it, be it as a run or as a skip."""
        stretch = self._stretch_at(fire_at)
        return stretch is not None and _fires(stretch.version, fire_at)

    def _clip(self, after: Instant, until: Instant) -> tuple[Instant, Instant]:
        """The part of (after, until] that is judged."""
        return max(after, self._span.from_at - 1), min(until, self._span.decided_to - 1)

    def _cut(self, at: Instant) -> Instant:
        return max(at, self._span.from_at)

    def _inside(self, version: JobVersion, after: Instant, until: Instant) -> int:
        after, until = self._clip(after, until)
        return count_of(version, after, until) if after < until else 0

    def _sum_skipped(self, stretch: Stretch, after: Instant, until: Instant, reason: str) -> None:
        at = after
        while at < until:  # ends: every turn goes at least to the end of an hour
            found = next_of(stretch.version, at)
            if found is None or found > until:
                return
            end = min(until, (hour_of(found) + 1) * HOUR_US - 1)
            self._sums.at(found).skipped[reason] += count_of(stretch.version, found - 1, end)
            at = end


def _may_skip(stretch: Stretch, reason: str) -> bool:
    """A pause, a delete or an end skips with its own reason; where fires were to run, any other may."""
    if stretch.standing:
        return False
    if stretch.reason:
        return reason == stretch.reason
    is_bounded = stretch.version.spec.timing.max_runs > 0
    return reason not in REASONS.values() and (reason != MAX_RUNS or is_bounded)


def _count_for(version: JobVersion, after: Instant, until: Instant, reason: str) -> int:
    """How many of the fires in (after, until] may be skipped for this reason: what a calendar blocks, by no policy."""
    if not version.spec.timing.calendars or reason in {*REASONS.values(), EXPIRED}:
        return 0 if reason == CALENDAR else count_of(version, after, until)
    blocked = count_blocked(version, after, until)
    return blocked if reason == CALENDAR else count_of(version, after, until) - blocked


def _walk(version: JobVersion, after: Instant, until: Instant) -> Iterator[Instant]:
    """The fires in (after, until]."""
    while (found := next_of(version, after)) is not None and found <= until:
        yield found
        after = found


def _fires(version: JobVersion, at: Instant) -> bool:
    """Whether the schedule has a fire at this very instant."""
    return next_of(version, at - 1) == at
