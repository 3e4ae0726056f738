"""Which version of a job owes which fires, and as what (design §6). Pure.

A fire belongs to the newest version stamped before it, as far as the shard's owner could know: what was decided when a
command was applied stays with the older version. REVISED says where that edge was: a *due* time, so each version has
the edge at a fire time of its own (``timetable.fire_edge``). So the time line of a job falls into stretches of one
version each, and what is owed in them can be counted without visiting a fire.

Where two versions have another jitter, an edge lies at two fire times, and between these both may owe: the older one
what it had decided by then, the newer one what is due beyond. A fire time that an older version has decided is nobody
else's. In there, and only there, the newer version's fires are gone through, each cut out of the older one's stretch.

Where the newer jitter is the narrower one, there is no such overlap but a hole: due behind the edge by the newer
version and beyond it by the older. A fire in there that both have is *moved up*: the newer one's, decided by its
command; while the job is paused the older one's, as what that pause covers.

What must hold: stretches never overlap. Limit: a version whose REVISED is not at hand counts from its own stamp on,
which is right for every version stamped before the span that is judged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from waterclock.model.events import Revised
from waterclock.model.ids import Instant
from waterclock.model.job import JobStatus, JobVersion, Once
from waterclock.model.timetable import count_of, due_of, fire_edge, next_of

PAUSED = "paused"
DELETED = "deleted"
EXPIRED = "expired"
CALENDAR = "calendar"
ENDED = "ended"
MAX_RUNS = "max_runs"
"""Of a fire that came when its schedule had made all its runs; only where they are bounded."""

REASONS = {JobStatus.PAUSED: PAUSED, JobStatus.DELETED: DELETED, JobStatus.ENDED: ENDED}
"""With which reason a command skips what is undecided when it comes, by what it makes of the job."""

SHARED_MAX = 10_000
"""Fires of a newer version that are gone through where an older one owes as well; the rest is left to the older. By
jitter alone there is one, for a window is at most half a gap; after a lost cursor as many as it went back."""

_Range: TypeAlias = tuple[Instant, Instant]
"""The instants in (first, second]."""


class Stretch(NamedTuple):
    """The fires of ``version`` in (``after``, ``until``].

    ``reason``: "" where each is to run (or to be skipped for a reason that is the schedule's own: coalesced, overlap);
    else the only reason for which it may be skipped. ``standing``: a pause that has not ended: nothing is recorded yet.
    ``apart``: decided by a command, whenever it is due. ``not_yet``: beyond the cursor.
    """

    version: JobVersion
    after: Instant
    until: Instant
    reason: str = ""
    standing: bool = False
    apart: bool = False
    not_yet: bool = False

    def fires_in(self, after: Instant, until: Instant) -> int:
        """How many of its fires lie in (after, until]."""
        after, until = max(after, self.after), min(until, self.until)
        return count_of(self.version, after, until) if after < until else 0

    def parted(
        self, due_before: Instant, decided_until: Instant, open_gaps: Sequence[_Range] = ()
    ) -> Iterator[Stretch]:
        """What is decided of it, where all that is due before the one instant is, with fires up to the other; the rest.

        But for what is due in ``open_gaps``, [from, to): nobody knows yet. A pause or a delete, and a command, decide
        without waiting for the due time. In the order of time.
        """
        border = decided_until
        waits = [(decided_until, self.until)]
        if not (self.reason or self.apart):
            border = min(border, fire_edge(self.version, due_before - 1))
            in_gaps = [
                (fire_edge(self.version, start - 1), fire_edge(self.version, end - 1)) for start, end in open_gaps
            ]
            waits = [*in_gaps, (border, self.until)]
        decided = _minus([(self.after, self.until)], waits)
        parts = [self._replace(after=after, until=until) for after, until in decided]
        if not self.reason:
            rest = _minus([(self.after, self.until)], decided)
            parts += [self._replace(after=after, until=until, not_yet=True) for after, until in rest]
        yield from sorted(parts, key=lambda part: part.after)


class _Edge(NamedTuple):
    """From where a command counts: what was stamped after ``stamp_at``, due after ``at`` or in a gap [from, to)."""

    stamp_at: Instant
    at: Instant
    gaps: tuple[_Range, ...]

    def undecided(self, version: JobVersion, until_at: Instant) -> list[_Range]:
        """Where the version's fires lie that nobody had decided when the command came."""
        parts = [(fire_edge(version, start - 1), fire_edge(version, end - 1)) for start, end in self.gaps]
        parts = [(after, min(until, fire_edge(version, self.at))) for after, until in parts]
        parts.append((fire_edge(version, self.at), until_at))
        return [(after, min(until, until_at)) for after, until in parts if after < min(until, until_at)]

    def claims(self, version: JobVersion, until_at: Instant) -> list[_Range]:
        """Where the version's fires lie that are, from this command on, no longer an older version's."""
        parts = [(max(after, self.stamp_at), until) for after, until in self.undecided(version, until_at)]
        return [part for part in parts if part[0] < part[1]]


def stretches_of(
    versions: Sequence[JobVersion], revised: Mapping[int, Revised], until_at: Instant, *, is_whole: bool = True
) -> list[Stretch]:
    """What a job owes up to ``until_at``, in the order of time.

    ``versions``: oldest first. ``revised``: by revision. ``is_whole``: the first of ``versions`` is the job's first.
    """
    edges = [_edge_of(version, revised.get(version.revision)) for version in versions]
    found: list[Stretch] = []
    for number, version in enumerate(versions):
        following = (versions[number + 1], edges[number + 1]) if number + 1 < len(edges) else None
        duties: list[Stretch] = []
        if version.status is JobStatus.ACTIVE:
            behind_at = _behind_at(version, edges[number])
            if behind_at is None:
                ended = _ended_by(versions, edges, number)
                duties = _of_active(version, edges[number], following, ended, until_at)
            elif (is_whole and number == 0) or behind_at > version.stamp_at:
                duties = [Stretch(version, behind_at - 1, behind_at, apart=True)]
        elif version.status is JobStatus.PAUSED:
            duties = _of_paused(version, edges[number], following, until_at)
        if following is not None:
            duties += _moved_up(version, edges[number], *following)
        for duty in duties:
            found = _beside(found, duty)
    return sorted((each for each in found if each.after < each.until), key=lambda each: each.after)


def _edge_of(version: JobVersion, said: Revised | None) -> _Edge:
    if said is None:
        return _Edge(version.stamp_at, version.stamp_at, ())
    return _Edge(version.stamp_at, said.edge_at, tuple(said.gaps))


def _behind_at(version: JobVersion, edge: _Edge) -> Instant | None:
    """The instant of a one-off that lies behind: decided at once by the command that finds it so (design §6)."""
    if not isinstance(version.spec.schedule, Once):
        return None
    at = next_of(version, -1)  # where its calendars move it
    if at is None:
        return None
    return at if at <= version.stamp_at or due_of(version, at) <= edge.at else None


def _ended_by(versions: Sequence[JobVersion], edges: Sequence[_Edge], number: int) -> tuple[str, _Edge] | None:
    """The first pause, delete or end after this version: what is undecided then is skipped with that reason, once."""
    for version, edge in zip(versions[number + 1 :], edges[number + 1 :], strict=True):
        if version.status is not JobStatus.ACTIVE:
            return REASONS[version.status], edge
    return None


_Following: TypeAlias = tuple[JobVersion, _Edge]


def _of_active(
    version: JobVersion, edge: _Edge, following: _Following | None, ended: tuple[str, _Edge] | None, until_at: Instant
) -> list[Stretch]:
    own = edge.claims(version, until_at)
    if following is not None:
        own = _minus(own, following[1].claims(version, until_at))
    if ended is None:
        return [Stretch(version, after, until) for after, until in own]
    reason, end = ended
    skipped = end.undecided(version, min(end.stamp_at, until_at))
    running = _minus(own, skipped)
    return [
        *(Stretch(version, after, until) for after, until in running),
        *(Stretch(version, after, until, reason) for after, until in _minus(own, running)),
    ]


def _of_paused(version: JobVersion, edge: _Edge, following: _Following | None, until_at: Instant) -> list[Stretch]:
    """A pause ends with the next command of the job; what came until that was applied is skipped for it, too.

    But of a one-off, wherever the edges lie, what comes between its stamp and the next: one behind that is left to the
    command that finds it behind, or to the pause that goes on.
    """
    if isinstance(version.spec.schedule, Once):
        own = [(version.stamp_at, until_at if following is None else min(following[1].stamp_at, until_at))]
    else:
        own = edge.claims(version, until_at)
        if following is not None:
            own = _minus(own, following[1].claims(version, until_at))
    return [Stretch(version, after, until, PAUSED, standing=following is None) for after, until in own]


def _moved_up(version: JobVersion, edge: _Edge, following: JobVersion, its_edge: _Edge) -> list[Stretch]:
    """The version's fires that the following one's command found undecided, and behind the edge by its own jitter."""
    is_going_on = version.status is following.status and version.status in (JobStatus.ACTIVE, JobStatus.PAUSED)
    if not is_going_on or isinstance(following.spec.schedule, Once):
        return []
    is_paused = version.status is JobStatus.PAUSED
    waits = is_paused and isinstance(version.spec.schedule, Once)
    own = [(version.stamp_at, its_edge.at)] if waits else edge.claims(version, its_edge.at)
    after = its_edge.stamp_at if waits else max(its_edge.stamp_at, fire_edge(version, its_edge.at))
    found: list[Stretch] = []
    for start, until in _minus(own, [(0, after), (fire_edge(following, its_edge.at), its_edge.at)]):
        at = start
        while (next_at := next_of(version, at)) is not None and next_at <= until and len(found) < SHARED_MAX:
            at = next_at
            if count_of(following, at - 1, at):
                owner = version if is_paused else following
                found.append(Stretch(owner, at - 1, at, PAUSED if is_paused else "", apart=not is_paused))
    return found


def _beside(found: Iterable[Stretch], duty: Stretch) -> list[Stretch]:
    """``duty`` beside what older versions owe: where they overlap it has the fires that are not theirs."""
    kept: list[Stretch] = []
    free = [(duty.after, duty.until)]
    for older in found:
        after, until = max(older.after, duty.after), min(older.until, duty.until)
        if after >= until:
            kept.append(older)
            continue
        mine = list(_others(older, duty, after, until))
        kept += [older._replace(after=start, until=end) for start, end in _minus([(older.after, older.until)], mine)]
        free = _minus(free, _minus([(after, until)], mine))
    return [*kept, *(duty._replace(after=after, until=until) for after, until in free)]


def _others(older: Stretch, duty: Stretch, after: Instant, until: Instant) -> Iterator[_Range]:
    """The parts of (after, until] in which ``duty`` has fires that are none of the older one's."""
    if not older.fires_in(after, until):
        yield after, until
        return
    at = after
    for _ in range(SHARED_MAX):
        found = next_of(duty.version, at)
        if found is None or found > until:
            return
        if not older.fires_in(found - 1, found):
            yield found - 1, found
        at = found


def _minus(whole: Iterable[_Range], ranges: Iterable[_Range]) -> list[_Range]:
    rest = list(whole)
    for after, until in ranges:
        if after < until:
            rest = [
                part
                for start, end in rest
                for part in ((start, min(end, after)), (max(start, until), end))
                if part[0] < part[1]
            ]
    return rest
