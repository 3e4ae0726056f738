"""Which version of a job owes which fires, and as what (design §6). Pure.

A fire belongs to the newest version stamped before it, as far as the shard's owner could know: what was decided when a
command was applied stays with the older version. REVISED says where that edge was. So the time line of a job falls into
stretches of one version each, and what is owed in them can be counted without visiting a fire.

What must hold: stretches never overlap. Limit: a version whose REVISED is not at hand counts from its own stamp on,
which is right for every version stamped before the span that is judged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from waterclock.model.events import Revised
from waterclock.model.ids import Instant
from waterclock.model.job import JobStatus, JobVersion, Once
from waterclock.model.schedule import count_fires

PAUSED = "paused"
DELETED = "deleted"

_Range: TypeAlias = tuple[Instant, Instant]
"""The instants in (first, second]."""


class Stretch(NamedTuple):
    """The fires of ``version`` in (``after``, ``until``].

    ``reason``: "" where each is to run (or to be skipped for a reason that is the schedule's own: coalesced, overlap);
    else the only reason for which it may be skipped. ``standing``: a pause that has not ended: nothing is recorded yet.
    ``settled``: a pause or delete has ended what was undecided in it.
    """

    version: JobVersion
    after: Instant
    until: Instant
    reason: str = ""
    standing: bool = False
    settled: bool = False

    def fires_in(self, after: Instant, until: Instant) -> int:
        """How many of its fires lie in (after, until]."""
        after, until = max(after, self.after), min(until, self.until)
        return fire_count(self.version, after, until) if after < until else 0


def fire_count(version: JobVersion, after: Instant, until: Instant) -> int:
    """How many fires the schedule of ``version`` has in (after, until]."""
    return count_fires(version.spec.schedule, version.anchor_at, after, until, job_id=version.job_id)


def stretches_of(
    versions: Sequence[JobVersion], revised: Mapping[int, Revised], until_at: Instant, *, is_whole: bool = True
) -> list[Stretch]:
    """What a job owes up to ``until_at``, in the order of time.

    ``versions``: oldest first. ``revised``: by revision. ``is_whole``: the first of ``versions`` is the job's first.
    """
    found: list[Stretch] = []
    decided_to: Instant = 0
    for number, version in enumerate(versions):
        said = revised.get(version.revision)
        edge_at = version.stamp_at if said is None else said.edge_at
        gaps = () if said is None else said.gaps
        found = [_closed(each, version.stamp_at) for each in found]
        if version.status is not JobStatus.ACTIVE:
            found = _settle(found, version, edge_at, gaps)
        claims = _claims(found, version, edge_at, gaps, until_at, decided_to)
        before = found
        found = [rest for each in found for rest in _without(each, claims)]
        found += _owed_by(version, claims, before, max(edge_at, version.stamp_at), first=is_whole and number == 0)
        decided_to = max(decided_to, edge_at)
    last = versions[-1].revision if versions else 0
    found = [
        each._replace(standing=each.version.revision == last and each.version.status is JobStatus.PAUSED)
        for each in found
        if each.after < each.until
    ]
    return sorted(found, key=lambda each: each.after)


def _closed(stretch: Stretch, stamp_at: Instant) -> Stretch:
    """A pause ends with the next command of the job, also where the edge lies beyond its stamp."""
    if stretch.version.status is not JobStatus.PAUSED:
        return stretch
    return stretch._replace(until=min(stretch.until, stamp_at))


def _settle(found: Iterable[Stretch], version: JobVersion, edge_at: Instant, gaps: Sequence[_Range]) -> list[Stretch]:
    """What older versions still owed undecided when a pause or delete came is skipped with that reason, once."""
    reason = PAUSED if version.status is JobStatus.PAUSED else DELETED
    undecided = [(edge_at, version.stamp_at), *_in_gaps(gaps, 0, min(edge_at, version.stamp_at))]
    settled: list[Stretch] = []
    for each in found:
        if each.settled or each.version.status is not JobStatus.ACTIVE:
            settled.append(each)
            continue
        settled += [rest._replace(settled=True) for rest in _without(each, undecided)]
        for after, until in undecided:
            part = each._replace(after=max(after, each.after), until=min(until, each.until), reason=reason)
            if part.after < part.until:
                settled.append(part._replace(settled=True))
    return settled


def _claims(
    found: Iterable[Stretch],
    version: JobVersion,
    edge_at: Instant,
    gaps: Sequence[_Range],
    until_at: Instant,
    decided_to: Instant,
) -> list[_Range]:
    """Where ``version`` takes over: after its stamp, beyond the edge or in a gap.

    An edge behind an older one is that of a lost cursor, made anew from the log: it knows nothing of a time in which
    nothing was due. Where an older version has a fire there, that was decided and stays so.
    """
    floor = max(edge_at, version.stamp_at)
    claims = [(floor, until_at)] if floor < until_at else []
    claims += _in_gaps(gaps, version.stamp_at, edge_at)
    kept = [
        (max(floor, each.after), min(decided_to, each.until))
        for each in found
        if each.version.status is JobStatus.ACTIVE and each.fires_in(floor, decided_to)
    ]
    return [rest for claim in claims for rest in _minus(claim, kept)]


def _in_gaps(gaps: Iterable[_Range], after: Instant, until: Instant) -> list[_Range]:
    """The parts of the gaps [from, to) in (after, until]."""
    parts = [(max(after, start - 1), min(until, end - 1)) for start, end in gaps]
    return [part for part in parts if part[0] < part[1]]


def _owed_by(
    version: JobVersion, claims: Sequence[_Range], before: Sequence[Stretch], floor: Instant, *, first: bool
) -> list[Stretch]:
    if version.status is JobStatus.DELETED:
        return []
    if version.status is JobStatus.PAUSED:
        return [Stretch(version, after, until, PAUSED) for after, until in claims]
    schedule = version.spec.schedule
    brings_spec = version.spec_revision == version.revision
    if isinstance(schedule, Once) and brings_spec and schedule.at <= floor:
        # It lies behind: decided at once, unless an older version decided that very instant (design §6).
        is_new = first or schedule.at > version.stamp_at
        is_taken = any(each.fires_in(schedule.at - 1, schedule.at) for each in before)
        return [Stretch(version, schedule.at - 1, schedule.at, settled=True)] if is_new and not is_taken else []
    return [Stretch(version, after, until) for after, until in claims]


def _without(stretch: Stretch, ranges: Iterable[_Range]) -> list[Stretch]:
    parts = _minus((stretch.after, stretch.until), ranges)
    return [stretch._replace(after=after, until=until) for after, until in parts]


def _minus(whole: _Range, ranges: Iterable[_Range]) -> list[_Range]:
    rest = [whole]
    for after, until in ranges:
        if after < until:
            rest = [
                part
                for start, end in rest
                for part in ((start, min(end, after)), (max(start, until), end))
                if part[0] < part[1]
            ]
    return rest
