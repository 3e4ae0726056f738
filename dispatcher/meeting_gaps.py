"""What a command finds of its job in gaps, and what becomes of that (design §6). Pure.

An edit leaves the gaps' fires to the versions of their time, and REVISED tells in which gaps there are such. A pause or
a delete skips them. Where neither can be, what the job owes in gaps is decided at once, in the round of the command:
where it is stamped inside a gap, and would have a part in what is owed there, and where it says up to where the job is
decided, for that is said of gaps, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from waterclock.model.ids import Instant
from waterclock.model.job import Command, JobStatus, JobVersion

from .commands import Applied, Place
from .gap_owed import OwedInGap
from .known import Known
from .owed import Stretch
from .pauses import stamp_of
from .shard import Shard


class Settled(NamedTuple):
    """``left``: what stays owed in gaps, or was until this pause or delete. ``at_once``: what is decided now."""

    left: tuple[OwedInGap, ...] = ()
    at_once: tuple[OwedInGap, ...] = ()

    @property
    def told(self) -> list[tuple[Instant, Instant]]:
        """As REVISED tells it."""
        return [(owed.from_at, owed.gap.to_at) for owed in self.left]


class Met(NamedTuple):
    """What the job owes in gaps when its command comes. ``is_inside``: the command is stamped inside an open gap."""

    owed: tuple[OwedInGap, ...]
    is_inside: bool

    @property
    def to_be_skipped(self) -> list[Stretch]:
        """What a pause or a delete ends: all of it lies before its stamp."""
        return [] if self.is_inside else [stretch for owed in self.owed for stretch in owed.owed]

    def decided(self, shard: Shard, applied: Applied, edge_at: Instant) -> Applied:
        """With what the command has to say about the edge, where fires that are decided would look undecided.

        So it is, too, where the shard was taken over inside a due time: by the new version's tier.
        """
        is_hidden = self.is_inside or (shard.cursor.job_id != "" and edge_at == shard.cursor.due_at)
        if applied.version is None or applied.decided_at is not None or not is_hidden:
            return applied
        return applied._replace(decided_at=edge_at)

    def settled(self, applied: Applied) -> Settled:
        """What becomes of it by a command that decided so."""
        if applied.version is None:
            return Settled()
        is_ended = not self.is_inside and applied.version.status is not JobStatus.ACTIVE
        is_left = applied.decided_at is None or is_ended
        return Settled(left=self.owed) if is_left else Settled(at_once=self.owed)


def meet(shard: Shard, known: Known, command: Command, place: Place, versions: Sequence[JobVersion]) -> Met:
    """What a command meets. ``versions``: as ``Known`` has them below it. Raises RequestError, as applying it would."""
    stamp_at = stamp_of(command, place.appended_at, versions[0] if versions else None)
    is_inside = any(stamp_at < gap.to_at for gap in shard.gaps)
    return Met(tuple(known.owed_in_gaps(command.job_id, versions)), is_inside)
