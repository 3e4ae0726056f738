"""What the dispatcher holds for one shard: the slots of one partition of ``commands``.

All of it can be dropped at any time and rebuilt from what is committed (``takeover.py``): cursor and gaps, the commands
position, what was decided ahead of the cursor, and the loaded window of the time index.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from waterclock.log.port import Record
from waterclock.model.ids import US_PER_MINUTE, US_PER_S, Instant, minute_of, ordinal, slot_of, slots_of_partition
from waterclock.model.job import JobStatus, JobVersion, Tier
from waterclock.model.timing import JITTER_US_MAX

from .backfills import Backfills
from .edges import Edges, begins_after
from .flow import Flow
from .gap_owed import OwedInGap, owed_in
from .gaps import Gap, Progress
from .gathering import Gatherings
from .keys import Keys
from .look_times import LookTimes
from .owed import first_tier, in_force
from .pauses import lead_us
from .position import Position
from .timeline import Chain, Crowd, Timeline

if TYPE_CHECKING:
    from .catch_up import Lane
    from .jump import Jump

LOOK_AHEAD_S_MAX = 600
"""The longest that settings allow."""

_ROWS_AHEAD_US_MAX = (LOOK_AHEAD_S_MAX + 60 + 60) * US_PER_S
"""Beyond a cursor, in whole minutes, with a minute in which that was not committed any more."""


class Decided(NamedTuple):
    """Every fire of a job due at or before ``at`` is decided, in gaps too. ``paused``: kept until a command ends it.

    So is every fire with a fire time at or before ``fires_to_at``, whenever it would be due. ``resume_at``: when the
    pause of ``revision`` ends by itself; both 0: it does not. Not ``paused``: when a pause ends of which the resume is
    applied already. ``edges``: under which late versions were applied. Fields in the order of ``JobState``.
    """

    at: Instant
    paused: bool
    fires_to_at: Instant = 0
    resume_at: Instant = 0
    revision: int = 0
    edges: Edges = ()

    @classmethod
    def of(
        cls, version: JobVersion, at: Instant, fires_to_at: Instant, edges: Edges, resumed_at: Instant = 0
    ) -> Decided:
        """That ``version`` has decided all that is due by ``at``, and all fire times up to ``fires_to_at``.

        ``resumed_at``: of a resume at the end of a pause, when that is.
        """
        resume_at = version.pause.resume_at if version.pause else 0
        is_paused = version.status is JobStatus.PAUSED
        return cls(at, is_paused, fires_to_at, resume_at or resumed_at, version.revision if resume_at else 0, edges)

    @property
    def passed_at(self) -> Instant:
        """Behind this instant nothing that it speaks of is due any more."""
        speaks_of = max(self.fires_to_at, self.edges[-1].edge_at if self.edges else 0)
        return max(self.at, speaks_of + JITTER_US_MAX if speaks_of else 0)

    def covers(self, due_at: Instant, fire_at: Instant) -> bool:
        return due_at <= self.at or fire_at <= self.fires_to_at


def undecided_gaps(
    gaps: Sequence[Gap], job_id: str, versions: Sequence[JobVersion], decided: Decided | None
) -> list[OwedInGap]:
    """What a job still owes in each of the gaps, oldest first."""
    if not gaps or not versions:
        return []
    known = (decided.at, decided.fires_to_at, decided.edges) if decided else (0, 0, ())
    found = (owed_in(gap, job_id, versions, *known) for gap in gaps)
    return [owed for owed in found if owed is not None]


def edge_for(cursor: Position, tier: int, job_id: str, decided: Decided | None) -> Instant:
    """The newest instant by which all fires of a job are decided: by the cursor, or ahead of it. ``tier``: the one that
    places its fire that is due where the cursor stands."""
    edge_at = cursor.edge_for(tier, job_id)
    if decided is None:
        return edge_at
    last = decided.edges[-1] if decided.edges else None
    if last is not None and last.overtaken and last.edge_at == cursor.due_at - 1:
        edge_at = last.edge_at
    return max(edge_at, decided.at)


class Shard:
    """One owned shard. ``next_offset``: the first command not yet applied; up to ``caught_up_at`` before any fire."""

    def __init__(
        self,
        partition: int,
        partitions: int,
        generation: int,
        cursor: Position,
        next_offset: int,
        gaps: tuple[Gap, ...] = (),
    ) -> None:
        self.partition = partition
        self.slots = slots_of_partition(partition, partitions)
        self.generation = generation
        self.cursor = cursor
        self.gaps = gaps
        """Oldest first."""
        self.lane: Lane | None = None
        """Of the oldest gap, once it is worked on."""
        self.gap_turns = 0
        """How often it might have been read for, behind the window."""
        self.served = 0
        """Its number in the order in which lanes took something last (``lane_share.py``); 0: its never did."""
        self.jump: Jump | None = None
        """While the on-time edge is about to jump: nothing is fired then."""
        self.next_offset = next_offset
        self.caught_up_at = next_offset
        self.inbox: deque[Record] = deque()
        self.decided: dict[str, Decided] = {}
        self._ahead: list[tuple[Instant, str, Decided]] = []
        """A heap, earliest first: a catch-up of many jobs must not be walked through in every round."""
        self.resumes = LookTimes()
        """Jobs whose pauses end by themselves, and when to ask for the end of each."""
        self.resumes_asked: dict[str, tuple[int, int]] = {}
        """Of these, for which revision that was asked, and how long it is waited for since."""
        self.illegible: set[str] = set()
        """Jobs revised lately in a way that this release cannot read: no row of theirs is believed."""
        self.lately: dict[str, list[JobVersion]] = {}
        """Versions, newest first, of the jobs revised within the last hour: what ghosts are told by."""
        self.unread: dict[str, Instant] = {}
        """Jobs revised within the hour before the take-over, of which nothing is in ``lately`` yet (``lately.py``), and
        when that was."""
        self.unread_back_to: Instant = 0
        """As far back their versions are read."""
        self.keys = Keys()
        self.flow = Flow(generation)
        """Runs that wait for one another (``flow.py``)."""
        self.backfills = Backfills()
        self.gatherings = Gatherings()
        self.changes = 0
        """Counts what an errand does not know of: rows that are written beside it, decisions made ahead."""
        self.begin_window()
        self.disposed_minute = minute_of(self.progress.undecided_from) - 60
        self.copied: Progress | None = None
        """What the state topic has."""
        self.events_end = 0
        """From where run-events are to be read on, should the copy be needed."""
        self.unproven = False
        """Whether a command was applied of which nothing in the log tells that it was (``cursor_copy.py``)."""
        self.committed_offset = next_offset
        self.committed = self.progress

    def begin_window(self) -> None:
        """Nothing of what lies beyond the cursor is loaded."""
        self.timeline = Timeline()
        self.loaded_minute = minute_of(self.cursor.due_at)
        """The first minute that is not wholly loaded."""
        self.loaded_slots = 0
        """How many of ``slots``, in order, are loaded of that minute."""
        self.slice_slots = self.urgent_slots = 1
        """How many slots the next slice of the window takes: the first ones find out how full they are."""
        self.ready_until_at: Instant = 0
        """What is due up to then was made ready or stands in ``to_encode``, but for what came later (``ready.py``)."""
        self.to_encode: list[Chain] = []
        self.crowds: dict[Instant, Crowd] = {}
        """By instant: the chains of those with many, as far as their fires are made ready."""

    @property
    def mark(self) -> tuple[object, ...]:
        """As long as it is the same, an errand (``errands.py``) may go on with what it has read."""
        return self.changes, self.next_offset, self.jump, self.timeline

    @property
    def progress(self) -> Progress:
        """How far it has come, as it is committed."""
        return Progress(self.cursor, self.gaps)

    @property
    def caught_up(self) -> bool:
        """Whether the commands that stood at take-over are applied: before that no fire is decided."""
        return self.next_offset >= self.caught_up_at

    @property
    def may_decide(self) -> bool:
        """Whether all that stood at take-over is known: commands are applied, and open runs that others wait for are
        followed to where run-events ended."""
        return self.caught_up and self.flow.ready

    @property
    def revision_limit(self) -> int:
        """Revisions at or above it come from commands that this owner has not applied."""
        return ordinal(self.generation, self.next_offset)

    @property
    def horizon_at(self) -> Instant:
        """Fires before it are all in the timeline."""
        return self.loaded_minute * US_PER_MINUTE

    def rows_end(self, now: Instant) -> Instant:
        """No owner has written rows ahead beyond a job's first fire that is due after this.

        An owner looks ahead from its own clock, as far as it was told to: neither is ours. Its cursor followed its
        clock, and was committed shortly before it went.
        """
        return max(now, self.cursor.due_at, self.horizon_at) + _ROWS_AHEAD_US_MAX

    @property
    def inside_due_time(self) -> bool:
        """Whether fires due at the very instant of the cursor may still be undecided."""
        due_at = self.cursor.due_at
        return self.timeline.next_due_at() == due_at or (self.cursor.job_id != "" and self.horizon_at <= due_at)

    def is_loaded(self, job_id: str, minute: int) -> bool:
        """Whether the window has taken this job's bucket for that minute already."""
        if minute == self.loaded_minute:
            return self.slots.index(slot_of(job_id)) < self.loaded_slots
        return minute < self.loaded_minute

    def edge_of(self, version: JobVersion, versions: Sequence[JobVersion] = ()) -> Instant:
        """The on-time edge of a version's job: its fires due by then are decided (by the cursor, or ahead of it).

        ``versions``: the job's, newest first, where the caller knows more than those revised lately.
        """
        return self.edge_by(self.first_tier_of(version.job_id, versions), version)

    def first_tier_of(self, job_id: str, versions: Sequence[JobVersion] = ()) -> Tier | None:
        """The tier that places what the job has due where the cursor stands (``owed.first_tier``). Walks through all
        of its versions: who asks for the edge of each of them finds this out once."""
        known = versions or self.lately.get(job_id, ())
        if not self.cursor.job_id or len(known) <= 1:
            return None
        decided = self.decided.get(job_id)
        fires_after, edges = (decided.fires_to_at, decided.edges) if decided else (0, ())
        return first_tier(known, self.cursor.due_at, fires_after, edges)

    def edge_by(self, first: Tier | None, version: JobVersion) -> Instant:
        """The edge of a version's job, where ``first`` is what :meth:`first_tier_of` says of it."""
        tier = version.spec.tier if first is None else first
        return edge_for(self.cursor, tier, version.job_id, self.decided.get(version.job_id))

    def decide_ahead(self, job_id: str, decided: Decided) -> Decided:
        """Note that all fires of a job up to an instant are decided, whatever the cursor says. Returns what is kept.

        What was known of fire times, and of edges, holds on: nobody takes a decision back.
        """
        before = self.decided.get(job_id)
        if before is not None:
            fires_to_at = max(before.fires_to_at, decided.fires_to_at)
            decided = decided._replace(fires_to_at=fires_to_at, edges=decided.edges or before.edges)
            if not (before.paused or decided.paused):
                decided = decided._replace(resume_at=max(before.resume_at, decided.resume_at))
        self.decided[job_id] = decided
        self.changes += 1
        if not decided.paused:
            heapq.heappush(self._ahead, (decided.passed_at, job_id, decided))
            if decided.resume_at:
                self.flow.resumed.put(job_id, decided.resume_at)
        if decided.paused and decided.resume_at:
            self.resumes.put(job_id, decided.resume_at - lead_us(len(self.resumes)))
        else:
            self.resumes.forget(job_id)
            self.resumes_asked.pop(job_id, None)
        return decided

    def is_paused(self, job_id: str) -> bool:
        """Whether the job is paused, as far as its commands are applied."""
        decided = self.decided.get(job_id)
        return decided is not None and decided.paused

    def keeps_waiting(self, job_id: str, now: Instant) -> bool:
        """Whether runs of its schedule that wait have to wait on, whatever room there is: it is paused, or its pause
        has an end for which the resume is applied already, and that is still to come."""
        decided = self.decided.get(job_id)
        return decided is not None and (decided.paused or now < decided.resume_at)

    def fires_decided_to(self, job_id: str) -> Instant:
        """The fire time up to which a job's fires are decided, whenever they are due; 0: none beside the edge's."""
        decided = self.decided.get(job_id)
        return decided.fires_to_at if decided else 0

    def edges_of(self, job_id: str) -> Edges:
        """Under which edges the job's late versions were applied."""
        decided = self.decided.get(job_id)
        return decided.edges if decided else ()

    def begins_after(self, version: JobVersion) -> Instant:
        """The fire time after which the version's own fires begin (``edges.py``)."""
        edges = self.edges_of(version.job_id)
        if not edges:
            return version.stamp_at
        older = [each for each in self.lately.get(version.job_id, ()) if each.revision < version.revision]
        return begins_after(version, older, edges)

    def owed_in_gaps(self, job_id: str, versions: Sequence[JobVersion]) -> list[OwedInGap]:
        """What a job still owes in each gap, oldest first. ``versions``: newest first, as far back as the gaps."""
        return undecided_gaps(self.gaps, job_id, versions, self.decided.get(job_id))

    def passed_ahead(self, most: int) -> list[str]:
        """Forget, and name, jobs whose decisions the copied cursor has passed, ``most`` at a time; those of paused
        jobs are kept.

        So are those that may speak of an open gap: who has forgotten one would decide its fires again. And so are
        those that only the cursor itself has passed: it may be lost, and no event tells that the edge jumped, or that
        it walked on where nothing was owed. What is rebuilt never stands behind the copy.
        """
        passed: list[str] = []
        begins_at = self.copied.begins_at if self._ahead and self.copied is not None else 0
        for _ in range(most):
            if not self._ahead or self._ahead[0][0] >= begins_at:
                break
            _, job_id, decided = heapq.heappop(self._ahead)
            if self.decided.get(job_id) == decided:  # else another decision has replaced this one
                del self.decided[job_id]
                passed.append(job_id)
        return passed

    def remember(self, version: JobVersion, before: Sequence[JobVersion]) -> None:
        """Put a version on top of those known of its job, which stands on ``before``.

        Not that of a job that was only made: no row of an older one is about. A flood of new jobs costs no memory here.
        """
        if not before and version.status is JobStatus.ACTIVE:
            return
        known = self.lately.setdefault(version.job_id, list(before))
        if not known or known[0].revision < version.revision:
            known.insert(0, version)

    def has_older(self, version: JobVersion) -> bool:
        """Whether older versions may still matter of which this one does not tell. One that was made where a deleted
        job stood looks as if it was the first: but then its job is known here as revised lately."""
        is_first = version.stamp_at == version.created_at
        return not is_first or version.job_id in self.lately or version.job_id in self.unread

    def trusts(self, job_id: str, revision: int, fire_at: Instant) -> bool:
        """Whether a row of this revision is no ghost: its version is the newest one, stamped before its fire time.

        Only versions below our own position in ``commands`` count: a zombie may have run ahead. A job of which nothing
        is known, once ``lately.py`` has looked, was not revised lately, and its rows are trusted.
        """
        if revision >= self.revision_limit or job_id in self.illegible:
            return False
        versions = self.lately.get(job_id)
        if versions is None:
            return True
        version = in_force([known for known in versions if known.revision < self.revision_limit], fire_at)
        return version is not None and version.revision == revision and version.status is JobStatus.ACTIVE

    def ends_at(self, job_id: str, revision: int) -> Instant | None:
        """The stamp at which a newer version takes over from this one; None while none is known."""
        newer = [known for known in self.lately.get(job_id, ()) if revision < known.revision < self.revision_limit]
        return newer[-1].stamp_at if newer else None

    def forget_before(self, at: Instant) -> None:
        """Drop what only told ghosts of an hour ago. The newest version of each job is dropped with the rest.

        Of a job that is revised again and again the newest one from before then stays: it was in force at that time.
        """
        stale = [job_id for job_id, known in self.lately.items() if known[0].stamp_at < at]
        for job_id in stale:
            del self.lately[job_id]
        for known in self.lately.values():
            while len(known) > 1 and known[-2].stamp_at < at:
                known.pop()
        for job_id in [job_id for job_id, revised_at in self.unread.items() if revised_at < at]:
            del self.unread[job_id]
