"""Fires whose time has passed: what a job owes is decided together, by its policy (time.md §10). Pure.

Once a fire of a job is due longer ago than the grace, all that the job owes by now is one decision. The timing of the
version that owes the newest of these fires says how: a revision changes what becomes of missed work, too. First what is
older than the catch-up window is SKIPPED(expired), then what a calendar blocks is SKIPPED(calendar); the policy chooses
among the rest. Without a misfire every fire that is not blocked runs, and nobody asks here.

What must hold: each owed fire is in the decision once. What does not run is told in ranges and counted by arithmetic;
what runs is at most ``RUNS_MAX``.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from waterclock.model.ids import Instant
from waterclock.model.job import JobStatus, JobVersion
from waterclock.model.timetable import blocked_parts, count_of, due_of, fire_edge, is_blocked, last_of, next_of
from waterclock.model.timing import CatchUpOrder, Misfire, Timing

from .envelope import weight_of
from .owed import Stretch

COALESCED = "coalesced"
MISFIRE = "misfire"
CAP = "cap"
EXPIRED = "expired"
CALENDAR = "calendar"
PAUSED = "paused"
DELETED = "deleted"
ENDED = "ended"
"""Why a fire is skipped that was still undecided when its job came to its end."""

REASONS = {JobStatus.PAUSED: PAUSED, JobStatus.DELETED: DELETED, JobStatus.ENDED: ENDED}
"""With which reason a command skips what is undecided when it comes, by what it makes of the job."""

RUNS_MAX = 1_000
"""Runs of one decision: they go out in one round."""


class SkipRange(NamedTuple):
    """Fires of one version that make no run: from ``from_at`` to ``to_at``, both included."""

    version: JobVersion
    from_at: Instant
    to_at: Instant
    fire_count: int


class Fire(NamedTuple):
    """One fire of one version."""

    version: JobVersion
    fire_at: Instant

    def is_at(self, version: JobVersion, fire_at: Instant) -> bool:
        """Whether this is the fire of that version at that time."""
        return fire_at == self.fire_at and version.revision == self.version.revision


class Decision(NamedTuple):
    """``runs``, in the order in which they are handed out, and what is skipped, with the reason.

    ``newest``: the newest fire that runs; it stands for those that are coalesced.
    """

    runs: tuple[Fire, ...]
    skipped: tuple[tuple[SkipRange, str], ...]

    @property
    def newest(self) -> Fire | None:
        return max(self.runs, key=lambda fire: fire.fire_at, default=None)

    @property
    def weight(self) -> int:
        """For how many fires its runs count in a round."""
        versions = {fire.version.revision: fire.version for fire in self.runs}
        weights = {revision: weight_of(version.spec) for revision, version in versions.items()}
        return sum(weights[fire.version.revision] for fire in self.runs)


def decide(owed: Sequence[Stretch], now: Instant, grace_us: int) -> Decision:
    """Decide what a job owes. ``owed``: its stretches up to now, oldest first, of which one fire is a misfire."""
    timing = _timing_of(owed)
    if timing is None:
        return Decision((), ())
    expired, rest = _split(owed, now - timing.catch_up_window_us)
    blocked, rest = _by_calendar(rest)
    missed: Sequence[Stretch] = ()
    if timing.misfire is Misfire.SKIP:
        missed, rest = _split(rest, now - grace_us)
    most, reason = _MOST.get(timing.misfire, (min(timing.catch_up_max, RUNS_MAX), CAP))
    runs, over = _newest(rest, most)
    if timing.catch_up_order is CatchUpOrder.OLDEST:
        runs.reverse()
    skipped = (
        *_skipped(expired, EXPIRED),
        *_skipped(blocked, CALENDAR),
        *_skipped(missed, MISFIRE),
        *_skipped(over, reason),
    )
    return Decision(tuple(runs), skipped)


def decide_together(owed: Sequence[Stretch], first_due_at: Instant, now: Instant, grace_us: int) -> Decision:
    """Decide what a job owes where its first fire, due at ``first_due_at``, may be within the grace.

    Then all run that no calendar blocks, at most ``RUNS_MAX``, for they go out in one round: a longer grace with a fire
    each second has more.
    """
    if first_due_at < now - grace_us:
        return decide(owed, now, grace_us)
    blocked, rest = _by_calendar(owed)
    runs, over = _newest(rest, RUNS_MAX)
    runs.reverse()
    return Decision(tuple(runs), (*_skipped(blocked, CALENDAR), *_skipped(over, CAP)))


_MOST = {Misfire.LATEST: (1, COALESCED), Misfire.SKIP: (RUNS_MAX, CAP)}


def decide_one(version: JobVersion, fire_at: Instant, at: Instant, grace_us: int) -> str:
    """Why one fire, decided apart from the timeline as of ``at``, makes no run: a reason; "" where it runs."""
    if due_of(version, fire_at) >= at - grace_us:
        return CALENDAR if is_blocked(version.spec, fire_at) else ""
    decision = decide([Stretch(version, fire_at - 1, fire_at)], at, grace_us)
    return decision.skipped[0][1] if decision.skipped else ""


def skip_all(stretch: Stretch) -> SkipRange | None:
    """All fires of a stretch as one range; None where it has none. Counts by arithmetic, never fire by fire."""
    version = stretch.version
    first = next_of(version, stretch.after)
    if first is None or first > stretch.until:
        return None
    newest = last_of(version, stretch.after, stretch.until)
    assert newest is not None  # `first` lies in the stretch
    return SkipRange(version, first, newest, count_of(version, stretch.after, stretch.until))


def parts_between(skipped: SkipRange, borders: Sequence[Instant]) -> list[SkipRange]:
    """The range without these instants, which rise: what of it lies before the first, between two, behind the last."""
    if not borders:
        return [skipped]
    version, edges = skipped.version, [skipped.from_at - 1, *borders, skipped.to_at + 1]
    parts = (skip_all(Stretch(version, after, until - 1)) for after, until in pairwise(edges) if after < until - 1)
    return [part for part in parts if part is not None]


def _timing_of(owed: Sequence[Stretch]) -> Timing | None:
    """That of the newest owed fire; None where nothing is owed."""
    for stretch in reversed(owed):
        if last_of(*stretch) is not None:
            return stretch.version.spec.timing
    return None


def _split(owed: Sequence[Stretch], at: Instant) -> tuple[list[Stretch], list[Stretch]]:
    """What is due before ``at``, and the rest."""
    before: list[Stretch] = []
    rest: list[Stretch] = []
    for version, after, until in owed:
        border = min(max(fire_edge(version, at - 1), after), until)
        before += [Stretch(version, after, border)] if after < border else []
        rest += [Stretch(version, border, until)] if border < until else []
    return before, rest


def _by_calendar(owed: Sequence[Stretch]) -> tuple[list[Stretch], list[Stretch]]:
    """What the jobs' calendars block, and the rest. At most as many parts as the calendars have within the window."""
    blocked: list[Stretch] = []
    rest: list[Stretch] = []
    for version, after, until in owed:
        at = after
        for start, end in blocked_parts(version.spec, after, until):
            rest += [Stretch(version, at, start)] if at < start else []
            blocked.append(Stretch(version, start, end))
            at = end
        rest += [Stretch(version, at, until)] if at < until else []
    return blocked, rest


def _newest(owed: Sequence[Stretch], most: int) -> tuple[list[Fire], list[Stretch]]:
    """The newest fires, newest first, at most so many; and the stretches of those that are older."""
    runs: list[Fire] = []
    older: list[Stretch] = []
    for version, after, until in reversed(owed):
        while len(runs) < most:
            newest = last_of(version, after, until)
            if newest is None:
                break
            runs.append(Fire(version, newest))
            until = newest - 1  # noqa: PLW2901 - what is left of the stretch
        older += [Stretch(version, after, until)] if after < until else []
    return runs, older[::-1]


def _skipped(owed: Sequence[Stretch], reason: str) -> list[tuple[SkipRange, str]]:
    ranges = (skip_all(stretch) for stretch in owed)
    return [(skipped, reason) for skipped in ranges if skipped is not None]
