"""Under which edge each version of a job was applied, and so which fires are none of its own (design §6). Pure.

A command that is applied late finds fires decided that were stamped before it and lie behind the edge. Its version owns
what is stamped after it, due beyond that edge, and decided by no older version; an older one decided what was due
between its own edge and the next one's. Without jitter a fire is due when it is stamped, and the newest version alone
would tell. With another jitter, or another schedule, one must know the edges of all of them.

Most edges say nothing: where no fire lies between a version's stamp and its edge, the stamp does as well. The others
are kept in the state topic (``JobState.edges``) until nothing that they speak of can be due, and of a paused job until
its pause is told: from where that counts follows from them.
"""

from __future__ import annotations

from collections.abc import Sequence

from waterclock.model.errors import Busy
from waterclock.model.ids import Instant
from waterclock.model.job import JobStatus, JobVersion, Once
from waterclock.model.job_state import Edge
from waterclock.model.timetable import due_of, fire_edge, last_of, next_of
from waterclock.model.timing import JITTER_US_MAX

from .position import Position

EDGES_MAX = 64
"""Kept of one job: so often may it be changed within half an hour across fires that are just being decided."""

Edges = tuple[Edge, ...]


def with_edge(
    edges: Edges, version: JobVersion, edge_at: Instant, older: Sequence[JobVersion], *, overtaken: bool = False
) -> Edges:
    """``edges`` and that of a new version, if it says anything. ``older``: newest first. Raises Busy at the bound."""
    if edges and edges[-1][1:] == (edge_at, overtaken):
        return edges
    is_new = edge_at > version.stamp_at and any(
        last_of(each, version.stamp_at, edge_at) is not None for each in (version, *older)
    )
    if not (is_new or overtaken or (edges and edges[-1].overtaken)):
        return edges
    if len(edges) >= EDGES_MAX:
        raise Busy(
            f"{version.job_id} was changed {EDGES_MAX} times within half an hour while its fires were being decided",
            hint="Send this change again in some minutes",
        )
    return (*edges, Edge(version.revision, edge_at, overtaken))


def still_needed(edges: Edges, undecided_from: Instant) -> Edges:
    """Those that may still say something, where all that is due before an instant is decided."""
    return tuple(each for each in edges if each.edge_at > undecided_from - JITTER_US_MAX)


def is_overtaken(version: JobVersion, edge_at: Instant, cursor: Position, edges: Edges) -> bool:
    """Whether the job's fire due where the cursor stands is undecided, and its place lies before the cursor.

    So it is where a shard was taken over inside a due time and a job gets a tier that comes earlier in it; and still,
    when the next version comes, whatever its tier and whether it owns that fire or not: until it is decided.
    """
    if edge_at != cursor.due_at - 1:
        return False
    if edges and edges[-1].overtaken and edges[-1].edge_at == edge_at:
        return True
    is_before = version.status is JobStatus.ACTIVE and version.stamp_at < cursor.due_at
    return is_before and cursor.covers(cursor.due_at, version.spec.tier, version.job_id)


def edge_of(edges: Edges, version: JobVersion) -> Instant:
    """Where the edge stood when the version was applied; its stamp where nothing is decided between the two."""
    return max([version.stamp_at, *(each.edge_at for each in edges if each.revision <= version.revision)])


def begins_after(version: JobVersion, older: Sequence[JobVersion], edges: Edges) -> Instant:
    """The fire time after which the version's own fires begin. ``older``: newest first.

    Behind the edge lie its fires that are due by then, and few more: a jitter is shorter than the gap between two
    fires, but for those that a clock change brings together. Those are its own that no older version has decided.
    """
    edge_at = edge_of(edges, version)
    if edge_at <= version.stamp_at:
        return version.stamp_at
    floor_at = max(version.stamp_at, fire_edge(version, edge_at))
    while (first_at := _next_by(version, floor_at, edge_at)) and is_decided(first_at, older, edges, edge_at):
        floor_at = first_at
    return floor_at


def _next_by(version: JobVersion, after: Instant, until: Instant) -> Instant | None:
    """The version's first fire in (after, until]."""
    found = next_of(version, after) if after < until else None
    return None if found is None or found > until else found


def is_decided(fire_at: Instant, versions: Sequence[JobVersion], edges: Edges, edge_at: Instant) -> bool:
    """Whether one of ``versions`` (newest first, all stamped before the fire) has decided it by ``edge_at``."""
    until_at = edge_at
    for version in versions:
        from_at = edge_of(edges, version)
        if _decides(version) and version.stamp_at < fire_at <= until_at:
            # Of a one-off what lay behind its edge was decided by the very command (``commands.py``).
            is_after = due_of(version, fire_at) > from_at or isinstance(version.spec.schedule, Once)
            if is_after and due_of(version, fire_at) <= until_at and last_of(version, fire_at - 1, fire_at) is not None:
                return True
        until_at = min(until_at, from_at)
    return False


def _decides(version: JobVersion) -> bool:
    """Whether what is due between its edge and the next one's is its own: run, or skipped for its pause.

    A paused one-off is left to the command that finds it behind (``commands.py``).
    """
    if version.status is JobStatus.PAUSED:
        return not isinstance(version.spec.schedule, Once)
    return version.status is JobStatus.ACTIVE
