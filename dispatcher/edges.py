"""Under which edge each version of a job was applied, and so which fires are none of its own (design §6). Pure.

A command that is applied late finds fires decided that were stamped before it and lie behind the edge. Its version owns
what is stamped after it, due beyond that edge, and decided by no older version; an older one decided what was due
between its own edge and the next one's. Without jitter a fire is due when it is stamped, and the newest version alone
would tell. With another jitter, or another schedule, one must know the edges of all of them.

Where the new version has a fire due behind its edge which the one before still held back, by a wider jitter, none of
this would give it to either. It is *moved up*: decided at once by the command, as a one-off is that lies behind. While
the job is paused the pause covers it.

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
from waterclock.model.time_text import format_rfc3339
from waterclock.model.timetable import due_of, fire_edge, last_of, next_of
from waterclock.model.timing import JITTER_US_MAX

from .position import Position

EDGES_MAX = 64
"""Kept of one job: so often may it be changed within half an hour across fires that are just being decided."""

MOVED_UP_MAX = 64
"""Fires that one command looks at to move them up: a jitter is shorter than the gap between two fires, but for those
that calendars or a clock change bring together."""

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
    A paused one-off is its own wherever the edge lies: it is decided by the command that ends the pause.
    """
    edge_at = edge_of(edges, version)
    if edge_at <= version.stamp_at:
        return version.stamp_at
    if _waits(version):
        at = _next_by(version, version.stamp_at, edge_at)
        return at if at is not None and is_decided(at, older, edges, edge_at) else version.stamp_at
    floor_at = max(version.stamp_at, fire_edge(version, edge_at))
    while (first_at := _next_by(version, floor_at, edge_at)) and is_decided(first_at, older, edges, edge_at):
        floor_at = first_at
    return floor_at


def check_floor(version: JobVersion, older: Sequence[JobVersion], edges: Edges) -> None:
    """Refuse a version of which a fire would be its own, and a later one decided by an older version: no floor tells
    these apart. Only a clock change brings two fires together within a jitter. Raises Busy."""
    edge_at, at = edge_of(edges, version), begins_after(version, older, edges)
    for _ in range(MOVED_UP_MAX):
        following = _next_by(version, at, edge_at)
        if following is None:
            return
        at = following
        if is_decided(at, older, edges, edge_at):
            raise Busy(
                f"{version.job_id} would fire twice at {format_rfc3339(at)}: a clock change brings its fires together",
                hint="Send this change again in some minutes",
            )


def _next_by(version: JobVersion, after: Instant, until: Instant) -> Instant | None:
    """The version's first fire in (after, until]."""
    found = next_of(version, after) if after < until else None
    return None if found is None or found > until else found


def moved_up(version: JobVersion, older: Sequence[JobVersion], edge_at: Instant, edges: Edges) -> list[Instant]:
    """The fires, oldest first, that the version's command finds undecided and behind the edge: see above.

    ``older``: newest first; ``edges``: with the version's own, if that says anything. Raises Busy at the bound.
    """
    if not older or not _may_move_up(version, older[0]):
        return []
    before, until_at = older[0], fire_edge(version, edge_at)
    at = max(version.stamp_at, begins_after(before, older[1:], edges))
    at = at if _waits(before) else max(at, fire_edge(before, edge_at))
    found: list[Instant] = []
    for _ in range(MOVED_UP_MAX):
        following = _next_by(before, at, until_at)
        if following is None:
            return found
        at = following
        found += [at] if _is_moved_up(version, before, at, edge_at) else []
    raise Busy(
        f"{version.job_id} has {MOVED_UP_MAX} fires or more that only its jitter holds back, and this change would not",
        hint="Send this change again in some minutes",
    )


def is_decided(fire_at: Instant, versions: Sequence[JobVersion], edges: Edges, edge_at: Instant) -> bool:
    """Whether one of ``versions`` (newest first, all stamped before the fire) has decided it by ``edge_at``."""
    until_at, newer = edge_at, None
    for version in versions:
        from_at = edge_of(edges, version)
        if version.stamp_at < fire_at <= until_at and last_of(version, fire_at - 1, fire_at) is not None:
            # Of a one-off what lay behind its edge was decided by the very command (``commands.py``).
            is_after = due_of(version, fire_at) > from_at or isinstance(version.spec.schedule, Once)
            if _decides(version) and is_after and due_of(version, fire_at) <= until_at:
                return True
            if newer and _may_move_up(newer, version) and _is_moved_up(newer, version, fire_at, until_at):
                return True
        until_at, newer = min(until_at, from_at), version
    return False


def _decides(version: JobVersion) -> bool:
    """Whether what is due between its edge and the next one's is its own: run, or skipped for its pause."""
    return version.status in (JobStatus.ACTIVE, JobStatus.PAUSED) and not _waits(version)


def _waits(version: JobVersion) -> bool:
    """Whether it is a paused one-off: left to the command that finds it behind, or ends the pause (``commands.py``)."""
    return version.status is JobStatus.PAUSED and isinstance(version.spec.schedule, Once)


def _may_move_up(version: JobVersion, before: JobVersion) -> bool:
    """Whether a version may have fires that it moves up. A one-off needs none: it is decided where it lies behind."""
    is_going_on = version.status is before.status and version.status in (JobStatus.ACTIVE, JobStatus.PAUSED)
    return is_going_on and not isinstance(version.spec.schedule, Once)


def _is_moved_up(version: JobVersion, before: JobVersion, fire_at: Instant, edge_at: Instant) -> bool:
    """Whether a fire of ``before`` that it owns lies behind the edge under ``version``, stamped after it, and did not
    under its own jitter."""
    if fire_at <= version.stamp_at or last_of(version, fire_at - 1, fire_at) is None:
        return False
    is_undecided = _waits(before) or due_of(before, fire_at) > edge_at
    return is_undecided and due_of(version, fire_at) <= edge_at
