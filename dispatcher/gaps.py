"""Gaps beside the cursor: stretches of the timeline that are still to be caught up (design §6). Pure.

After a long absence the on-time edge jumps to now, and what lies between becomes a *gap* with a position of its own:
fires that are due go out at once, and the gap is worked off behind them. A shard has at most ``GAPS_MAX``, and only the
oldest one is worked on: the others have no position yet.

Cursor and gaps ride together in the offset metadata, whose end is at 4,095 characters: ``has_room`` keeps below 4,000
for whatever positions cursor and gap may come to. Its text is on-disk format (``waterclock/model/cursor_text.py``);
without a gap it is the cursor's as it always was, so a release that knows no gaps can read it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from waterclock.model.cursor_text import GAP_FIELDS
from waterclock.model.errors import UndecodableRecord
from waterclock.model.ids import Instant

from .position import Position, decode_cursor, encode_cursor

GAPS_MAX = 8

TEXT_MAX = 4_000
"""Characters. The broker refuses a commit with 4,096 (kafka.md), and with it the round."""

POSITION_MAX = 640
"""Characters of a position: a due time, a tier, a job id (192 at most), an entry (a run id and the attempt)."""

_FORMAT = "2"
_UNTOUCHED = "|||"


class Gap(NamedTuple):
    """What is due after ``start`` and before ``to_at``; what lies at or below ``position`` is decided or was nothing.

    A job's owed fires in it are decided together, at the place of the first of them. ``row_count``: about how many
    due rows are still to come, for whoever waits for the end.
    """

    start: Position
    to_at: Instant
    position: Position
    row_count: int = 0

    @property
    def is_begun(self) -> bool:
        return self.position != self.start


class Progress(NamedTuple):
    """How far a shard has come: its cursor, and its gaps, oldest first."""

    cursor: Position
    gaps: tuple[Gap, ...] = ()

    @property
    def undecided_from(self) -> Instant:
        """Everything due before it is decided."""
        return min(self.cursor.due_at, self.gaps[0].position.due_at) if self.gaps else self.cursor.due_at

    @property
    def begins_at(self) -> Instant:
        """Of what was due before it nobody needs to know anything any more who knows this progress."""
        return min(self.cursor.due_at, self.gaps[0].start.due_at) if self.gaps else self.cursor.due_at

    def has_room(self, start: Position) -> bool:
        """Whether one more gap that begins at ``start`` may be opened, wherever cursor and position go."""
        if len(self.gaps) >= GAPS_MAX:
            return False
        gap = Gap(start, start.due_at, start, 10**9)
        fixed = sum(len(_gap_text(each._replace(position=each.start))) for each in (*self.gaps, gap))
        return fixed + 2 * POSITION_MAX <= TEXT_MAX


def encode_progress(progress: Progress) -> str:
    """The text for the offset metadata, of at most ``TEXT_MAX`` characters."""
    cursor = encode_cursor(progress.cursor)
    if not progress.gaps:
        return cursor
    return _FORMAT + cursor[1:] + "".join(map(_gap_text, progress.gaps))


def decode_progress(text: str) -> Progress:
    """The inverse of :func:`encode_progress`. Raises UndecodableRecord: nothing of it is ever guessed."""
    parts = text.rstrip("\0").split("|")
    if parts[0] != _FORMAT:
        return Progress(decode_cursor(text))
    cursor = decode_cursor("|".join(["1", *parts[1:5]]))
    rest = parts[5:]
    if not rest or len(rest) % GAP_FIELDS or len(rest) > GAPS_MAX * GAP_FIELDS:
        raise UndecodableRecord(f"{text[:200]!r} is not a cursor of this release")
    try:
        gaps = [_gap(rest[place : place + GAP_FIELDS]) for place in range(0, len(rest), GAP_FIELDS)]
    except ValueError:
        raise UndecodableRecord(f"{text[:200]!r} is not a cursor of this release") from None
    return Progress(cursor, tuple(gaps))


def _gap_text(gap: Gap) -> str:
    position = _position_text(gap.position) if gap.is_begun else _UNTOUCHED
    return f"|{_position_text(gap.start)}|{gap.to_at}|{position}|{gap.row_count}"


def _position_text(position: Position) -> str:
    return encode_cursor(position)[2:]


def _gap(parts: Sequence[str]) -> Gap:
    start = _position(parts[:4])
    position = start if not any(parts[5:9]) else _position(parts[5:9])
    gap = Gap(start, int(parts[4]), position, int(parts[9]))
    if not (start <= position and start.due_at < gap.to_at) or gap.row_count < 0:
        raise ValueError("a gap that ends before it begins")
    return gap


def _position(parts: Sequence[str]) -> Position:
    return Position(int(parts[0]), int(parts[1]), parts[2], parts[3])
