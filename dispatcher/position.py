"""Positions on a shard's timeline, and their text form, which rides in the offset metadata.

The timeline is ordered by (due time, tier, job id, entry). The *cursor* is such a position: every fire at or below it
is decided. Its text is on-disk format: another release must be able to read it.
"""

from __future__ import annotations

from typing import NamedTuple

from waterclock.model.errors import UndecodableRecord
from waterclock.model.ids import Instant

_FORMAT = "1"


class Position(NamedTuple):
    """A place on the timeline. ``entry`` is "" for a schedule's own fire. Tuple order is timeline order."""

    due_at: Instant
    tier: int = 0
    job_id: str = ""
    entry: str = ""

    def covers(self, due_at: Instant, tier: int, job_id: str) -> bool:
        """Whether the schedule fire of ``job_id`` due at ``due_at`` lies at or below this position."""
        return (due_at, tier, job_id, "") <= self

    def edge_for(self, tier: int, job_id: str) -> Instant:
        """The newest instant by which every fire of this job is decided.

        Inside a due time the cursor may stand before or behind the job: then its fire at that very instant is not
        yet decided.
        """
        return self.due_at if (tier, job_id, "") <= (self.tier, self.job_id, self.entry) else self.due_at - 1

    def after_due_time(self) -> Position:
        """Past everything due at this very instant, whatever its tier and job. Only where all of it is decided."""
        return Position(self.due_at + 1) if self.job_id else self


def encode_cursor(cursor: Position) -> str:
    """The text for the offset metadata: ``1|<due_at>|<tier>|<job id>|<entry>`` (no part may hold a ``|``)."""
    return f"{_FORMAT}|{cursor.due_at}|{cursor.tier}|{cursor.job_id}|{cursor.entry}"


def decode_cursor(text: str) -> Position:
    """The inverse of :func:`encode_cursor`. Raises UndecodableRecord: a cursor is never guessed."""
    parts = text.rstrip("\0").split("|")
    if len(parts) != 5 or parts[0] != _FORMAT:
        raise UndecodableRecord(f"{text[:200]!r} is not a cursor of this release")
    try:
        return Position(int(parts[1]), int(parts[2]), parts[3], parts[4])
    except ValueError:
        raise UndecodableRecord(f"{text[:200]!r} is not a cursor of this release") from None
