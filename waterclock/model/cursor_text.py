"""How far a dispatcher has come with a shard, as others read it: text in the metadata of the offsets of ``commands``.

The whole of it is the dispatcher's (``dispatcher/gaps.py``); here is what an outsider may build on. On-disk format: the
cursor alone, ``1|<due>|<tier>|<job id>|<entry>``, or with gaps ``2|`` and the same, then ten fields for each gap.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from .ids import Instant

GAP_FIELDS = 10
"""Of one gap: where it begins (a position of four fields), its end, its position (four, all empty where it has not been
begun) and how many rows of it are still to come."""

_POSITION = r"\|(\d{1,18})\|\d+\|[^|]*\|[^|]*"
_GAP = _POSITION + r"\|(\d{1,18})(?:" + _POSITION + r"|\|\|\|\|)\|(\d{1,18})"
_CURSOR = re.compile(r"([12])" + _POSITION, re.ASCII)
_ONE_GAP = re.compile(_GAP, re.ASCII)


class OpenGap(NamedTuple):
    """Fires due in [``from_at``, ``to_at``) may be undecided; ``row_count``: how many due rows are still to come."""

    from_at: Instant
    to_at: Instant
    row_count: int


class Told(NamedTuple):
    """What the text of one shard says: all that is due before ``cursor_at`` is decided, but for the gaps'."""

    cursor_at: Instant
    gaps: tuple[OpenGap, ...] = ()

    @property
    def undecided_from(self) -> Instant:
        """The first due time that may hold a fire that is not decided yet."""
        return min([self.cursor_at, *(gap.from_at for gap in self.gaps)])

    @property
    def row_count(self) -> int:
        """Rows still to come, over all gaps."""
        return sum(gap.row_count for gap in self.gaps)


def read_cursor(text: str) -> Told | None:
    """What the text says; None: it is no cursor of this release."""
    text = text.rstrip("\0")
    head = _CURSOR.match(text)
    if head is None:
        return None
    gaps: list[OpenGap] = []
    place = head.end()
    while place < len(text):
        found = _ONE_GAP.match(text, place)
        if found is None or head[1] == "1":
            return None
        start, end, position, rows = found.groups()
        gaps.append(OpenGap(int(position or start), int(end), int(rows)))
        place = found.end()
    return None if head[1] == "2" and not gaps else Told(int(head[2]), tuple(gaps))


def undecided_from(text: str) -> Instant | None:
    """The first due time that may hold a fire that is not decided yet; None: this is no cursor of this release."""
    told = read_cursor(text)
    return None if told is None else told.undecided_from
