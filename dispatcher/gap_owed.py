"""What a job still owes in the gaps of its shard (design §6). Pure.

A job's fires in one gap are decided together, at its *place*: that of the first of them. So whether a job is through
with a gap follows from the gap's position alone, for whoever takes over as well. A job's place never moves while a gap
is open: only a command stamped inside the gap could move it, and such a one decides the job's gaps at once
(``applying.py``). What was decided ahead, by a pause, a delete or a catch-up in order, is decided in gaps too.

One fire has its place behind its own tier: where a shard was taken over inside a due time, and a late command put an
undecided fire of it before the cursor (``Edge.overtaken``), before the edge jumped from there. It comes last in it, and
its job's record says that it is decided.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from waterclock.model.ids import Instant
from waterclock.model.job import JobVersion, Tier
from waterclock.model.timetable import due_of, next_of

from .edges import Edges
from .gaps import Gap
from .misfire import Fire
from .owed import Stretch, stretches
from .position import Position

_BEHIND_ALL_TIERS = max(Tier) + 1


class OwedInGap(NamedTuple):
    """What a job owes in a gap: from ``from_at`` to the gap's end nothing of it is decided, in terms of due times.

    ``place``: of the fire that is due first, which is the first of its stretch.
    """

    gap: Gap
    from_at: Instant
    place: Position
    owed: tuple[Stretch, ...]

    @property
    def is_behind_all_tiers(self) -> bool:
        """Whether its place is not that of its tier."""
        return self.place.tier == _BEHIND_ALL_TIERS


def owed_in(
    gap: Gap,
    job_id: str,
    versions: Sequence[JobVersion],
    decided_at: Instant,
    fires_after: Instant,
    edges: Edges = (),
) -> OwedInGap | None:
    """What the job owes in the gap; None where that is nothing, or decided.

    ``versions``: newest first, as far back as the widest jitter before the gap. ``decided_at``: all that is due by then
    is decided; ``fires_after``: and every fire up to this fire time. ``edges``: under which late versions were applied.
    """
    edge_at = max(gap.start.due_at - 1, decided_at)
    for _ in range(2):
        owed = stretches(versions, edge_at, gap.to_at - 1, fires_after=fires_after, edges=edges)
        place = _place_of(job_id, owed)
        if place is None:
            return None
        if place.due_at == gap.start.due_at and place <= gap.start and _was_overtaken(gap, edges):
            place = place._replace(tier=_BEHIND_ALL_TIERS)
        if place > gap.start:
            return OwedInGap(gap, edge_at + 1, place, tuple(owed)) if place > gap.position else None
        edge_at = place.due_at  # it was decided on time, at the very instant at which the gap begins
    return None


def first_fire(owed: OwedInGap) -> Fire:
    """The fire at the job's place: the first one of its stretch. Of another tier's, due in the same instant, no record
    may name a due position: that lies beyond the place."""
    for version, after, until in owed.owed:
        fire_at = next_of(version, after)
        if fire_at is None or fire_at > until or due_of(version, fire_at) != owed.place.due_at:
            continue
        if owed.is_behind_all_tiers or version.spec.tier == owed.place.tier:
            return Fire(version, fire_at)
    raise AssertionError("a place is that of a fire")


def _was_overtaken(gap: Gap, edges: Edges) -> bool:
    """Whether the job's fire that is due where the gap begins lies before that place, and is undecided all the same."""
    return any(each.overtaken and each.edge_at == gap.start.due_at - 1 for each in edges)


def _place_of(job_id: str, owed: Sequence[Stretch]) -> Position | None:
    """Of the fire that is due first: with another jitter a newer version's may be due before an older one's."""
    places: list[Position] = []
    for version, after, until in owed:
        fire_at = next_of(version, after)
        if fire_at is not None and fire_at <= until:
            places.append(Position(due_of(version, fire_at), version.spec.tier, job_id))
    return min(places, default=None)
